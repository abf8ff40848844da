"""Watches what a call gives back as its caller consumes it: nothing is drained, nothing comes later.

Whatever is handed out here behaves as what the function gave; the frame is told of each chunk before the
consumer has it, and how it ended.
"""

from __future__ import annotations

import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

from stepfork._context import _frame, leave, running
from stepfork._stream_kinds import is_future, is_stream_object

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence

    from stepfork._calls import Shape
    from stepfork._context import Frame

    Start = Callable[[], tuple[Frame | None, Any]]


_VALUES = frozenset({dict, list, str, int, float, bool, type(None), tuple, bytes})
"""What most functions return: none of these is a stream."""


def watched(frame: Frame, result: Any) -> Any:
    """Tell the frame what a plain function returned, at once or as the caller consumes it."""
    kind = type(result)  # not isinstance: that would ask the object what it is
    if kind in _VALUES:
        frame.returned(result, "value")
        return result
    try:
        if kind is types.CoroutineType:
            done: list[bool] = []
            return until_gone(frame, awaited(frame, result, "awaitable", done), "awaitable", done)
        if is_future(kind):
            result.add_done_callback(lambda future: _future_done(frame, future))
            return result
    except Exception as fault:
        frame.session.give_up(fault)
        return result
    return consumed(frame, result, "value")


def consumed(frame: Frame, result: Any, shape: Shape) -> Any:
    """Watch it if it is a stream of any kind, else the call has ended by it."""
    try:
        kind = type(result)
        # What is handed out only when awaited is served as an object: that can be awaited too.
        is_later = shape == "awaitable"
        if kind is types.GeneratorType:
            shape = "object" if is_later else "stream"
            return until_gone(frame, generated(lambda: (frame, result), shape), shape)
        if kind is types.AsyncGeneratorType:
            shape = "aobject" if is_later else "astream"
            return until_gone(frame, async_generated(lambda: (frame, result), shape), shape)
        if is_stream_object(kind):
            from stepfork._stream_objects import watched_object

            return watched_object(frame, result)
    except Exception as fault:
        frame.session.give_up(fault)
        return result
    frame.returned(result, shape)
    return result


def until_gone(frame: Frame, handed_out: Any, shape: Shape, done: Sequence[bool] = ()) -> Any:
    """End the call where its caller drops what it returned without having consumed it.

    Once something is in ``done`` it has come to something else, that is looked after instead.
    """
    weakref.finalize(handed_out, _dropped, frame, shape, done).atexit = False
    return handed_out


def _dropped(frame: Frame, shape: Shape, done: Sequence[bool]) -> None:
    if not done and not frame.is_ended:
        frame.closed_early(shape)


def _future_done(frame: Frame, future: Any) -> None:
    if future.cancelled():
        import asyncio

        frame.raised(asyncio.CancelledError(), "awaitable")
    elif future.exception() is not None:
        frame.raised(future.exception(), "awaitable")
    else:
        frame.returned(future.result(), "awaitable")


def made(
    frame: Frame | None, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], shape: Shape
) -> Any:
    """Call a function that makes a coroutine or generator."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        if frame is not None:
            frame.raised(error, shape)
        raise


def executed(frame: Frame, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Make a call in its frame; what it raises is its end."""
    token = _frame.set(frame)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        leave(token)
        frame.raised(error, "value")
        raise
    leave(token)
    return result


async def executed_later(frame: Frame, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Do the same with a coroutine function."""
    token = _frame.set(frame)
    try:
        result = await function(*args, **kwargs)
    except BaseException as error:
        leave(token)
        frame.raised(error, "value")
        raise
    leave(token)
    return result


async def awaited(frame: Frame, inner: Any, shape: Shape, done: list[bool] | None = None) -> Any:
    """Await it in its frame."""
    token = _frame.set(frame)
    try:
        result = await inner
    except BaseException as error:
        leave(token)
        frame.raised(error, shape)
        raise
    leave(token)
    if done is not None:
        done.append(True)
    return consumed(frame, result, shape)


def generated(start: Start, shape: Shape = "stream") -> Generator[Any, Any, Any]:
    """Hand each chunk on, and what the consumer sends or throws.

    ``start`` says, when the first chunk is asked for, where they come from and whose they are.
    """
    frame, inner = start()
    if frame is None:
        return (yield from inner)
    frame.streaming(shape)
    advance: Callable[[Any], Any] = inner.send
    argument: Any = None
    while True:
        try:
            with running(frame):
                item = advance(argument)
        except StopIteration as stop:
            _ended(frame, shape, argument, stop.value)
            return stop.value
        except BaseException as error:
            _broke(frame, shape, argument, error)
            raise
        if not frame.is_ended:
            frame.item(item)
        try:
            argument = yield item
            advance = inner.send
        except BaseException as error:
            argument, advance = error, inner.throw


async def async_generated(start: Start, shape: Shape = "astream") -> AsyncGenerator[Any, Any]:
    """Do the same asynchronously."""
    frame, inner = start()
    if frame is not None:
        frame.streaming(shape)
    advance: Callable[[Any], Any] = _unknown_to_the_loop(inner)
    argument: Any = None
    while True:
        try:
            if frame is None:
                item = await advance(argument)
            else:
                with running(frame):
                    item = await advance(argument)
        except StopAsyncIteration:
            if frame is not None:
                _ended(frame, shape, argument, None)
            return
        except BaseException as error:
            if frame is not None:
                _broke(frame, shape, argument, error)
            raise
        if frame is not None and not frame.is_ended:
            frame.item(item)
        try:
            argument = yield item
            advance = inner.asend
        except BaseException as error:
            argument, advance = error, inner.athrow


def _ended(frame: Frame, shape: Shape, argument: object, value: object) -> None:
    if frame.is_ended:
        return
    if isinstance(argument, GeneratorExit):
        frame.closed_early(shape)
    else:
        frame.returned(value, shape)


def _broke(frame: Frame, shape: Shape, argument: object, error: BaseException) -> None:
    if frame.is_ended:
        return
    if isinstance(argument, GeneratorExit) and isinstance(error, GeneratorExit):
        frame.closed_early(shape)
    else:
        frame.raised(error, shape)


def _unknown_to_the_loop(inner: Any) -> Callable[[Any], Any]:
    """Return ``asend`` for the first time: the loop is to close our generator, and that closes this one."""

    def first(argument: Any) -> Any:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            return inner.asend(argument)
        finally:
            sys.set_asyncgen_hooks(*hooks)

    return first
