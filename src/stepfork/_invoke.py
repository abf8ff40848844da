"""Runs one decorated call in whatever session is open: four flavours, one seam.

Each wrapper asks for a frame; without one it is a plain call, with an answer in it the answer is
served, else the function runs and the frame is told what came of it.
"""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

import wrapt

from stepfork import _context
from stepfork._context import Answer, Frame, _frame, current_frame, leave, running

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping

    from stepfork._calls import Shape
    from stepfork._spec import Spec


def flavour_of(function: Any) -> Callable[..., Any]:
    """Return the wrapper that fits the function: by its kind, and for the rest by what it returns."""
    target = function
    if not inspect.isroutine(target) and not hasattr(target, "func"):
        target = getattr(type(target), "__call__", target)  # noqa: B004 - the method, not whether there is one
    if inspect.iscoroutinefunction(target):
        return call_coroutine
    if inspect.isasyncgenfunction(target):
        return call_async_generator
    if inspect.isgeneratorfunction(target):
        return call_generator
    return call_function


def begin(
    spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any], made_in: Frame | None = None
) -> Frame | None:
    """Return the frame of a call that starts now; None where nothing is recorded or replayed.

    ``made_in`` is where a coroutine or generator was made that is run only now: what was made in a
    replay must not run outside of it.
    """
    parent = current_frame(may_open_run=spec.kind == "step")
    if parent is None and made_in is not None and made_in.session.is_replay:
        parent = made_in
    if parent is not None:
        return parent.session.enter(spec, parent, args, kwargs)
    if spec.kind != "step":
        if _context.child_of_replay:
            from stepfork._refusal import refused

            raise refused(spec.name)
        return None
    from stepfork._open_run import open_root

    return open_root(spec, args, kwargs)


def call_function(
    spec: Spec, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call a plain function; what it returns may still be something to await or to iterate over."""
    frame = begin(spec, args, kwargs)
    if frame is None:
        return function(*args, **kwargs)
    if frame.answer is not None:
        return _served(frame.answer)
    token = _frame.set(frame)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        leave(token)
        frame.raised(error, "value")
        raise
    leave(token)
    return _watched(frame, result)


def call_coroutine(
    spec: Spec, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Coroutine[Any, Any, Any]:
    """Call a coroutine function; like its body, the call starts when the coroutine is first run."""
    return _coroutine(spec, function, args, kwargs, _frame.get())


async def _coroutine(
    spec: Spec,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    made_in: Frame | None,
) -> Any:
    frame = begin(spec, args, kwargs, made_in)
    if frame is None:
        return await function(*args, **kwargs)
    if frame.answer is not None:
        return await _served_later(frame.answer)
    return await _awaited(frame, lambda: function(*args, **kwargs), "value")


def call_generator(
    spec: Spec, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Generator[Any, Any, Any]:
    """Call a generator function; like its body, the call starts when the first chunk is asked for."""
    return _generator(spec, function, args, kwargs, _frame.get())


def _generator(
    spec: Spec,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    made_in: Frame | None,
) -> Generator[Any, Any, Any]:
    frame = begin(spec, args, kwargs, made_in)
    if frame is None:
        return (yield from function(*args, **kwargs))
    if frame.answer is not None:
        return (yield from _chunks(frame.answer))
    return (yield from _generated(frame, lambda: function(*args, **kwargs)))


def call_async_generator(
    spec: Spec, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> AsyncGenerator[Any, Any]:
    """Call an async generator function; the call starts when the first chunk is asked for."""
    made_in = _frame.get()
    return _async_generated(lambda: begin(spec, args, kwargs, made_in), lambda: function(*args, **kwargs))


def _served(answer: Answer) -> Any:
    match answer.shape:
        case "awaitable":
            return _served_later(answer)
        case "stream":
            return _chunks(answer)
        case "astream":
            return _served_chunks(answer)
        case _:
            return answer.value()


def _chunks(answer: Answer) -> Generator[Any, Any, Any]:
    yield from answer.items()
    return answer.value()


async def _served_later(answer: Answer) -> Any:
    await _cancellation(answer)
    await _one_turn()
    return answer.value()


async def _served_chunks(answer: Answer) -> AsyncGenerator[Any, Any]:
    for item in answer.items():
        await _one_turn()
        yield item
    await _cancellation(answer)
    answer.value()


async def _cancellation(answer: Answer) -> None:
    """Wait for it, where the recorded call ended by it."""
    if answer.patience is not None:
        import asyncio

        await asyncio.sleep(answer.patience)


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let the event loop turn once, as any real call would; elsewhere than in asyncio do nothing."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if asyncio.current_task() is not None:
        yield


def _watched(frame: Frame, result: Any) -> Any:
    """Tell the frame what a plain function returned, at once or as the caller consumes it."""
    kind = type(result)  # not isinstance: that would ask the object what it is
    if kind is types.CoroutineType:
        return _until_gone(frame, _awaited(frame, lambda: result, "awaitable"), "awaitable")
    if kind is types.GeneratorType:
        return _until_gone(frame, _generated(frame, lambda: result), "stream")
    if kind is types.AsyncGeneratorType:
        return _until_gone(frame, _async_generated(lambda: frame, lambda: result), "astream")
    if _has(kind, "__await__") and _has(kind, "add_done_callback"):
        result.add_done_callback(lambda future: _future_done(frame, future))
        return result
    if _is_plain_iterator(kind):
        return _until_gone(frame, WatchedIterator(result, frame), "stream")
    frame.returned(result, "value")
    return result


def _until_gone(frame: Frame, watched: Any, shape: Shape) -> Any:
    """End the call where its caller drops what it returned without having consumed it."""
    weakref.finalize(watched, _dropped, frame, shape).atexit = False
    return watched


def _dropped(frame: Frame, shape: Shape) -> None:
    if not frame.is_ended:
        frame.closed_early(shape)


# Of a class, whatever its metaclass makes of the question.
_mro_of = type.__dict__["__mro__"].__get__
_names_of = type.__dict__["__dict__"].__get__


def _has(kind: type, name: str) -> bool:
    return any(name in _names_of(base) for base in _mro_of(kind))


def _is_plain_iterator(kind: type) -> bool:
    """Whether it is there to be iterated over: written in Python, or one of Python's own, and no resource."""
    if not (_has(kind, "__next__") and _has(kind, "__iter__")) or _has(kind, "read"):
        return False
    if kind.__module__ in ("builtins", "itertools"):
        return True
    defined = next(_names_of(base)["__next__"] for base in _mro_of(kind) if "__next__" in _names_of(base))
    return isinstance(defined, types.FunctionType)


def _future_done(frame: Frame, future: Any) -> None:
    if future.cancelled():
        import asyncio

        frame.raised(asyncio.CancelledError(), "awaitable")
    elif future.exception() is not None:
        frame.raised(future.exception(), "awaitable")
    else:
        frame.returned(future.result(), "awaitable")


async def _awaited(frame: Frame, make: Callable[[], Any], shape: Shape) -> Any:
    token = _frame.set(frame)
    try:
        result = await make()
    except BaseException as error:
        leave(token)
        frame.raised(error, shape)
        raise
    leave(token)
    frame.returned(result, shape)
    return result


def _generated(frame: Frame, make: Callable[[], Generator[Any, Any, Any]]) -> Generator[Any, Any, Any]:
    try:
        inner = make()
    except BaseException as error:
        frame.raised(error, "stream")
        raise
    advance: Callable[[Any], Any] = inner.send
    argument: Any = None
    while True:
        try:
            with running(frame):
                item = advance(argument)
        except StopIteration as stop:
            frame.returned(stop.value, "stream")
            return stop.value
        except BaseException as error:
            frame.raised(error, "stream")
            raise
        frame.item(item)
        try:
            argument = yield item
            advance = inner.send
        except GeneratorExit:
            _close(frame, inner)
            raise
        except BaseException as error:
            argument, advance = error, inner.throw


def _close(frame: Frame, inner: Generator[Any, Any, Any]) -> None:
    try:
        with running(frame):
            inner.close()
    except BaseException as error:
        frame.raised(error, "stream")
        raise
    frame.closed_early("stream")


async def _async_generated(
    start: Callable[[], Frame | None], make: Callable[[], Any]
) -> AsyncGenerator[Any, Any]:
    frame = start()
    if frame is not None and frame.answer is not None:
        async for item in _served_chunks(frame.answer):
            yield item
        return
    try:
        inner = make()
    except BaseException as error:
        if frame is not None:
            frame.raised(error, "astream")
        raise
    advance: Callable[[Any], Any] = _unknown_to_the_loop(inner)
    argument: Any = None
    while True:
        try:
            with running(frame):
                item = await advance(argument)
        except StopAsyncIteration:
            if frame is not None:
                frame.returned(None, "astream")
            return
        except BaseException as error:
            if frame is not None:
                frame.raised(error, "astream")
            raise
        if frame is not None:
            frame.item(item)
        try:
            argument = yield item
            advance = inner.asend
        except GeneratorExit:
            await _aclose(frame, inner)
            raise
        except BaseException as error:
            argument, advance = error, inner.athrow


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


async def _aclose(frame: Frame | None, inner: Any) -> None:
    try:
        await inner.aclose()
    except BaseException as error:
        if frame is not None:
            frame.raised(error, "astream")
        raise
    if frame is not None:
        frame.closed_early("astream")


class WatchedIterator(wrapt.ObjectProxy[Any]):
    """An iterator that a tool returned, attributes and all; nothing is drained."""

    def __init__(self, wrapped: Any, frame: Frame) -> None:
        super().__init__(wrapped)
        self._self_frame = frame
        self._self_ended = False

    def __iter__(self) -> WatchedIterator:
        return self

    def __next__(self) -> Any:
        frame = self._self_frame
        if self._self_ended:
            return next(self.__wrapped__)
        try:
            with running(frame):
                item = next(self.__wrapped__)
        except StopIteration:
            self._self_ended = True
            frame.returned(None, "stream")
            raise
        except BaseException as error:
            self._self_ended = True
            frame.raised(error, "stream")
            raise
        frame.item(item)
        return item
