"""A function of a library as a call: four flavours of one seam, as for what is decorated."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

from stepfork._context import _frame, busy, child_of_replay, current_frame, replay_is_open
from stepfork._invoke import begin
from stepfork._served import chunks, served, served_chunks, served_later
from stepfork._spec import hooked
from stepfork._watch import async_generated, consumed, executed, executed_later, generated, made, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._calls import Kind
    from stepfork._context import Frame

    Wrapper = Callable[[Any, Any, tuple[Any, ...], Mapping[str, Any]], Any]

T = TypeVar("T")

Described: TypeAlias = "tuple[str, Mapping[str, Any]]"
"""The name of a call and its arguments by name, without what differs from run to run."""


@final
@dataclass(frozen=True)
class Boundary:
    """What the calls of a function are to a recording."""

    kind: Kind
    describe: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Described | None]
    """Told the instance and the arguments, says what the call is; None: no call of interest."""
    recorded: Callable[[Any], Any] | None = None
    """What is recorded of a returned value; by default itself, a stream chunk by chunk."""
    replayed: Callable[..., Any] | None = None
    """``replayed(outcome, instance, args, kwargs)`` gives what the caller gets in a replay, and does what the
    library would have done beside (callbacks). ``outcome()`` returns or raises what was recorded; of a
    coroutine function both are to be awaited, of a generator both give an iterator."""

    def described(
        self, function: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Described | None:
        """Return what ``describe`` says of this call of the function."""
        return if_it_fits(lambda: self.describe(instance, args, kwargs), function, args, kwargs)


def wrapper_for(boundary: Boundary, raw: Any) -> Wrapper:
    """Return what is called in the place of this function, by its kind."""
    function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
    if inspect.iscoroutinefunction(function):
        return _for_coroutines(boundary)
    if inspect.isasyncgenfunction(function):
        return _for_streams(boundary, async_generated, served_chunks, "astream")
    if inspect.isgeneratorfunction(function):
        return _for_streams(boundary, generated, chunks, "stream")
    return _for_functions(boundary)


def frame_of(
    kind: Kind,
    describe: Callable[[], Described | None],
    made_in: Frame | None = None,
    *,
    tolerance: tuple[tuple[str, Any], ...] = (),
) -> Frame | None:
    """Return the frame of a call that an adapter found; None where it is to run as if it had not been.

    What ``describe`` raises is a fault of the adapter (see :func:`give_up`).
    """
    if not (busy or child_of_replay or kind == "step"):
        return None
    try:
        described = describe()
    except Exception as fault:
        give_up(fault)
        return None
    if described is None:
        return None
    name, arguments = described
    return begin(hooked(kind, name, tolerance=tolerance), (), arguments, made_in)


def if_it_fits(
    describe: Callable[[], T | None], function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> T | None:
    """Describe a call; None where its arguments do not fit the function, which says so and does nothing.

    What else ``describe`` raises comes out.
    """
    try:
        return describe()
    except Exception:
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError:
            return None
        raise


def give_up(fault: Exception) -> None:
    """A fault of an adapter costs a recording, not the agent; a replay ends by it, or the call would run."""
    frame = current_frame()
    if frame is not None:
        frame.session.give_up(fault)
    elif child_of_replay or replay_is_open():
        raise fault


def tell(frame: Frame, result: Any, recorded: Callable[[Any], Any] | None) -> Any:
    """Tell the frame what was returned, and return what the caller gets."""
    if recorded is None:
        return watched(frame, result)
    try:
        value = recorded(result)
    except Exception as fault:
        frame.session.give_up(fault)
    else:
        frame.returned(value, "value")
    return result


def _for_functions(boundary: Boundary) -> Wrapper:
    def call_function(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        frame = frame_of(boundary.kind, lambda: boundary.described(wrapped, instance, args, kwargs))
        if frame is None:
            return wrapped(*args, **kwargs)
        answer = frame.answer
        if answer is not None:
            if boundary.replayed is None:
                return served(answer)
            return boundary.replayed(lambda: served(answer), instance, args, kwargs)
        return tell(frame, executed(frame, wrapped, *args, **kwargs), boundary.recorded)

    return call_function


def _for_coroutines(boundary: Boundary) -> Wrapper:
    async def call_coroutine(
        wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], made_in: Frame | None
    ) -> Any:
        frame = frame_of(boundary.kind, lambda: boundary.described(wrapped, instance, args, kwargs), made_in)
        if frame is None:
            return await wrapped(*args, **kwargs)
        answer = frame.answer
        if answer is not None:
            if boundary.replayed is None:
                return await served_later(answer)
            return await boundary.replayed(lambda: served_later(answer), instance, args, kwargs)
        result = await executed_later(frame, wrapped, *args, **kwargs)
        if boundary.recorded is None:
            return consumed(frame, result, "value")
        return tell(frame, result, boundary.recorded)

    def call(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return call_coroutine(wrapped, instance, args, kwargs, _frame.get())

    return call


def _for_streams(boundary: Boundary, watch: Any, serve: Any, shape: Any) -> Wrapper:
    def call(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        made_in = _frame.get()

        def start() -> tuple[Frame | None, Any]:
            frame = frame_of(
                boundary.kind, lambda: boundary.described(wrapped, instance, args, kwargs), made_in
            )
            answer = None if frame is None else frame.answer
            if answer is None:
                return frame, made(frame, wrapped, args, kwargs, shape)
            if boundary.replayed is None:
                return None, serve(answer)
            return None, boundary.replayed(lambda: serve(answer), instance, args, kwargs)

        return watch(start)

    return call
