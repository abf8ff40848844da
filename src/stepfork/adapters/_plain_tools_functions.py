"""Which functions a value stands for that was found under the name of a tool, or next to it."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork._decorators import BoundDecorated, Decorated
from stepfork.adapters._plain_tools_members import (
    is_table,
    is_users_class,
    is_users_function,
    is_users_namespace,
    member,
    members,
    mro,
    namespace_of,
    own,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CALLED = (
    "fn",
    "func",
    "function",
    "callable",
    "handler",
    "callback",
    "implementation",
    "impl",
    "execute",
    "run",
    "call",
    "invoke",
    "method",
    "coroutine",
    "afn",
    "afunc",
    "async_fn",
)
"""What a tool's function is called where other functions stand beside it."""

_ENTRIES = (
    "__call__",
    "run",
    "arun",
    "run_async",
    "execute",
    "aexecute",
    "invoke",
    "ainvoke",
    "call",
    "acall",
    "handle",
    "forward",
    "_run",
    "_arun",
    "_execute",
)
"""The methods that carry out a tool which is an object."""

_DEEPEST = 3

_C_CALLABLES = (types.BuiltinFunctionType, types.MethodDescriptorType, types.MethodWrapperType)

_STAND_FOR_ONE = {
    functools.partial: "func",
    functools.partialmethod: "func",
    functools._lru_cache_wrapper: "__wrapped__",
    staticmethod: "__func__",
}


class Target(NamedTuple):
    """What carries out a tool."""

    function: Any
    """A function; or something else that can be called, which has no code to be exchanged."""
    is_method: bool = False


def is_decorated(value: object) -> bool:
    """Whether its calls are recorded already, as its author or stepfork wanted it."""
    return issubclass(type(value), (Decorated, BoundDecorated))


def is_callable(value: object) -> bool:
    """Whether it is a function, or stands for one, at first sight."""
    kind = type(value)
    return (
        kind in (types.FunctionType, types.MethodType, classmethod)
        or kind in _STAND_FOR_ONE
        or kind in _C_CALLABLES
        or is_decorated(value)
    )


def targets(value: Any, depth: int = 0) -> list[Target]:
    """Return what is called for this value; nothing for what is no function and holds none."""
    if depth > _DEEPEST:
        return []
    kind = type(value)
    if is_decorated(value):
        return [Target(value)]
    if kind is types.FunctionType:
        return _of_function(value)
    if kind is types.MethodType or kind is classmethod:
        return [Target(each.function, True) for each in targets(value.__func__, depth + 1)]
    if kind in _STAND_FOR_ONE:
        return targets(member(value, ("part", _STAND_FOR_ONE[kind])), depth + 1)
    if kind in _C_CALLABLES:
        return [Target(value)]
    if issubclass(kind, type):
        return list(_entry_methods(value))
    if issubclass(kind, types.ModuleType):
        return list(_entry_functions(namespace_of(value)))
    if is_table(value):
        return _of_members(value, depth)
    return _of_object(value, depth)


def _of_function(function: types.FunctionType) -> list[Target]:
    inner: Any = function
    for _ in range(50):
        wrapped = vars(inner).get("__wrapped__") if type(inner) is types.FunctionType else None
        if wrapped is None:
            break
        inner = wrapped
    return [Target(inner if is_decorated(inner) else function)]


def is_shared(function: types.FunctionType) -> bool:
    """Whether it belongs to a library, and to all who use that: not a wrapper made for one function."""
    is_made = "__wrapped__" in vars(function) or "<locals>" in function.__qualname__
    return not is_made and not is_users_function(function)


def _of_object(value: Any, depth: int) -> list[Target]:
    own_callables = _of_members(value, depth)
    if own_callables or not is_users_class(type(value)):
        return own_callables
    return list(_entry_methods(type(value)))


def _of_members(value: Any, depth: int) -> list[Target]:
    held = [(text_of(step[1]), each) for step, each in members(value)]
    called = [(key, each) for key, each in held if is_callable(each)]
    best = [each for key, each in called if key in _CALLED]
    chosen = best or [each for _, each in called]
    return [target for each in chosen for target in targets(each, depth + 1)]


def _entry_functions(names: Mapping[str, Any]) -> Iterator[Target]:
    """Yield those of a module that is a tool."""
    for name in _ENTRIES if is_users_namespace(names) else ():
        function = names.get(name)
        if is_decorated(function) or type(function) is types.FunctionType:
            yield Target(function)


def _entry_methods(cls: type) -> Iterator[Target]:
    """Yield those of the nearest class that has any: what is above it is common to other tools."""
    for each in mro(cls):
        if not is_users_class(each):
            return
        defined = own(each)
        found = [defined[name] for name in _ENTRIES if name in defined]
        for method in found:
            if is_decorated(method) or type(method) is types.FunctionType:
                yield Target(method, True)
            elif type(method) in (staticmethod, classmethod):
                yield from targets(method, _DEEPEST - 1)
        if found:
            return
