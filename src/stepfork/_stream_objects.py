"""A stream that is an object: entered, iterated over, and asked for more, as those of the model SDKs are.

The chunks that its consumer takes are those of the call. What an attribute or a method gave stands below
it as a call of its own, ``ask#1/.get_final_message()#1``, and is watched in its turn.
"""

from __future__ import annotations

import copy
import types
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import wrapt

from stepfork._context import _frame, leave, running
from stepfork._spec import undecorated
from stepfork._stream_kinds import has, is_entered_stream, is_generated, is_plain_iterator
from stepfork._watch import async_generated, generated, until_gone, watched

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping

    from stepfork._calls import Shape
    from stepfork._context import Frame


def watched_object(frame: Frame, stream: Any) -> Any:
    """Return what stands for a stream that is an object, and behaves as it does."""
    kind = type(stream)
    is_async = has(kind, "__aiter__") or has(kind, "__aenter__")
    shape: Shape = "aobject" if is_async and not has(kind, "__next__") else "object"
    use = _Use(frame, "stream" if is_plain_iterator(kind) else shape)
    return _proxy_class(kind)(stream, until_gone(frame, use, use.shape))


class _Use:
    """How the stream of one call is used: by its context manager and by what that hands out."""

    __slots__ = ("__weakref__", "frame", "has_chunks", "shape")

    def __init__(self, frame: Frame, shape: Shape) -> None:
        self.frame = frame
        self.shape = shape
        self.has_chunks = True

    def used_as(self, shape: Shape) -> None:
        """Note how its consumer goes about it, of an object that can do both."""
        if self.shape != "stream":
            self.shape = shape

    def item(self, item: Any) -> Any:
        if not self.frame.is_ended:
            self.frame.streaming(self.shape)
            self.frame.item(item)
        return item

    def returned(self) -> None:
        if not self.frame.is_ended:
            self.frame.returned(None, self.shape)

    def raised(self, error: BaseException) -> None:
        if not self.frame.is_ended:
            self.frame.raised(error, self.shape)

    def under_way(self, *ends: type[BaseException]) -> _UnderWay:
        """Return a block whose code belongs to the call; what it raises, but for ``ends``, ends it so."""
        return _UnderWay(self, ends)

    def left(self) -> None:
        """Its context manager was left, or it was closed; what handed out no stream has done its work."""
        if not self.has_chunks:
            self.returned()
        elif not self.frame.is_ended:
            self.frame.closed_early(self.shape)

    def part(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Frame | None:
        """Return the frame of what an attribute or method gives."""
        spec = undecorated("tool", name, function, mutates=())
        return self.frame.session.enter(spec, self.frame, args, kwargs)


class _UnderWay:
    """Code of the stream itself; it is no new call."""

    __slots__ = ("_ends", "_running", "_use")

    def __init__(self, use: _Use, ends: tuple[type[BaseException], ...]) -> None:
        self._use = use
        self._ends = ends
        self._running = running(use.frame)

    def __enter__(self) -> None:
        self._running.__enter__()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._running.__exit__()
        if isinstance(error, self._ends):
            self._use.returned()
        elif error is not None:
            self._use.raised(error)


class _WatchedObject(wrapt.BaseObjectProxy[Any]):
    """The stream, attributes and all."""

    def __init__(self, stream: Any, use: _Use) -> None:
        super().__init__(stream)
        self._self_use = use

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__wrapped__, name)
        return value if name.startswith("_") else _asked(self._self_use, name, value)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __copy__(self) -> Any:
        return copy.copy(self.__wrapped__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.__wrapped__, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__wrapped__.__reduce_ex__(protocol)


def _asked(use: _Use, name: str, value: Any) -> Any:
    if name in ("close", "aclose"):
        return wrapt.FunctionWrapper(value, partial(_close, use))
    if type(value) in _CALLED:
        return wrapt.FunctionWrapper(value, _Method(use, name))
    part = use.part(f".{name}", _attribute)
    return value if part is None else watched(part, value)


def _close(use: _Use, wrapped: Any, _instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    use.left()
    return wrapped(*args, **kwargs)


_CALLED = (types.MethodType, types.FunctionType, types.BuiltinMethodType)


def _attribute() -> None:
    """Stands in a Spec for the code of an attribute."""


class _Method:
    """Calls a method of the stream, and records what it gives."""

    def __init__(self, use: _Use, name: str) -> None:
        self.use = use
        self.name = name

    def __call__(self, wrapped: Any, _instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        part = self.use.part(f".{self.name}()", wrapped, *args, **kwargs)
        if part is None:
            return wrapped(*args, **kwargs)
        token = _frame.set(part)
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as error:
            leave(token)
            part.raised(error, "value")
            raise
        leave(token)
        return watched(part, result)


# -- iterating


def _iter(self: Any) -> Any:
    stream, use = self.__wrapped__, self._self_use
    use.used_as("object")
    chunks = iter(stream)
    if chunks is stream:
        return self
    if use.frame.is_ended:
        return chunks
    inner = chunks if is_generated(type(chunks)) else _drawn(chunks)
    return generated(lambda: (use.frame, inner), use.shape)


def _drawn(chunks: Any) -> Generator[Any, Any, Any]:
    return (yield from chunks)


def _next(self: Any) -> Any:
    use = self._self_use
    with use.under_way(StopIteration):
        item = next(self.__wrapped__)
    return use.item(item)


def _aiter(self: Any) -> Any:
    stream, use = self.__wrapped__, self._self_use
    use.used_as("aobject")
    chunks = aiter(stream)
    if chunks is stream:
        return self
    if use.frame.is_ended:
        return chunks
    inner = chunks if is_generated(type(chunks)) else _adrawn(chunks)
    return async_generated(lambda: (use.frame, inner), use.shape)


async def _adrawn(chunks: Any) -> AsyncGenerator[Any, Any]:
    async for item in chunks:
        yield item


async def _anext(self: Any) -> Any:
    use = self._self_use
    with use.under_way(StopAsyncIteration):
        item = await anext(self.__wrapped__)
    return use.item(item)


# -- entering and leaving


def _enter(self: Any) -> Any:
    use = self._self_use
    use.used_as("object")
    with use.under_way():
        entered = self.__wrapped__.__enter__()
    return _handed_out(self, entered, ".__enter__()")


async def _aenter(self: Any) -> Any:
    use = self._self_use
    use.used_as("aobject")
    with use.under_way():
        entered = await self.__wrapped__.__aenter__()
    return _handed_out(self, entered, ".__aenter__()")


def _handed_out(manager: Any, entered: Any, name: str) -> Any:
    use = manager._self_use
    if entered is manager.__wrapped__:
        return manager
    kind = type(entered)
    if is_entered_stream(kind, _state_of(entered)):
        return _proxy_class(kind)(entered, use)
    use.has_chunks = False
    part = use.part(name, _attribute)
    return entered if part is None else watched(part, entered)


def _state_of(value: Any) -> dict[str, Any]:
    try:
        state = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return state if type(state) is dict else {}


def _exit(self: Any, *exc_info: Any) -> Any:
    use = self._self_use
    with use.under_way():
        suppresses = self.__wrapped__.__exit__(*exc_info)
    use.left()
    return suppresses


async def _aexit(self: Any, *exc_info: Any) -> Any:
    use = self._self_use
    with use.under_way():
        suppresses = await self.__wrapped__.__aexit__(*exc_info)
    use.left()
    return suppresses


def _await(self: Any) -> Generator[Any, Any, Any]:
    use = self._self_use
    try:
        come_to = yield from self.__wrapped__.__await__()
    except BaseException as error:
        use.raised(error)
        raise
    return _handed_out(self, come_to, ".__await__()")


def _call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    return self.__wrapped__(*args, **kwargs)


_METHODS = {
    "__iter__": _iter,
    "__next__": _next,
    "__aiter__": _aiter,
    "__anext__": _anext,
    "__enter__": _enter,
    "__exit__": _exit,
    "__aenter__": _aenter,
    "__aexit__": _aexit,
    "__await__": _await,
    "__call__": _call,
}


def _proxy_class(kind: type) -> Any:
    """Return the proxy that can do what objects of this class can."""
    return _class_with(frozenset(name for name in _METHODS if has(kind, name)))


@cache
def _class_with(names: frozenset[str]) -> Any:
    return type("WatchedObject", (_WatchedObject,), {name: _METHODS[name] for name in names})
