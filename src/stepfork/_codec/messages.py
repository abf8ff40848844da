"""The text of an exception, had without running code of the user's.

A ``__str__`` may raise, act, or never end, and nothing stops Python code that does not want to stop:
not from the same thread, and a thread of ours would be left spinning. The agent itself may never call
it. So ``str()`` is asked only where it runs Python's own or a library's code on values of built-in
types; else the text is made of the arguments, as ``BaseException`` would make it.
"""

from __future__ import annotations

import sys
import types
from enum import Enum
from typing import Any

from stepfork._codec.leaves import LEAVES
from stepfork._codec.standin import opaque, without_addresses
from stepfork._codec.types import type_name
from stepfork._frames import is_users

LONGEST_MESSAGE = 100_000

_MOST_PARTS = 10_000
_DEEPEST = 10
_CONTAINERS = (list, tuple, dict, set, frozenset)


def message_of(exc: BaseException) -> str:
    """Return the text of an exception, without memory addresses; no code of the user's runs for it."""
    try:
        text = _text_of(exc, 0)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type_name(type(exc)).partition(':')[2]} without a readable message>"
    return without_addresses(text[:LONGEST_MESSAGE])


def _text_of(exc: BaseException, depth: int) -> str:
    recorded = contents_of(exc).get("_stepfork_message")  # of one that stands for a class that is not loaded
    if type(recorded) is str:
        return recorded
    if _is_asked(type(exc)) and _are_built_in(_said(exc)):
        return str.__str__(str(exc))
    args = BaseException.args.__get__(exc)  # type: ignore[attr-defined]
    told = [_told(arg, depth, alone=len(args) == 1) for arg in args]
    return told[0] if len(told) == 1 else f"({', '.join(told)})" if told else _attributes(exc)


def _is_asked(cls: type) -> bool:
    """Whether ``str()`` of an instance runs nothing that the user has written."""
    layer = next(layer for layer in cls.__mro__ if "__str__" in vars(layer))
    method = vars(layer)["__str__"]
    if isinstance(method, types.WrapperDescriptorType):
        return True  # written in C, and of an exception it asks for no __repr__
    return isinstance(method, types.FunctionType) and not any(map(_is_the_users, cls.__mro__))


def _is_the_users(cls: type) -> bool:
    module = sys.modules.get(type_name(cls).partition(":")[0])
    file = vars(module).get("__file__") if isinstance(module, types.ModuleType) else None
    return cls.__module__ not in sys.builtin_module_names and (file is None or is_users(str(file)))


def _said(exc: Any) -> list[object]:
    """Return the values that the text of an exception names."""
    if issubclass(type(exc), BaseExceptionGroup):
        return [BaseExceptionGroup.message.__get__(exc)]
    if is_validation_error(type(exc)):
        return [error["input"] for error in exc.errors(include_url=False, include_context=False)]
    return list(BaseException.args.__get__(exc))  # type: ignore[attr-defined]


def is_validation_error(cls: type) -> bool:
    """Whether the class is the one whose errors pydantic keeps out of reach of Python."""
    return cls is getattr(sys.modules.get("pydantic_core"), "ValidationError", None)


def _are_built_in(values: list[object]) -> bool:
    """Whether the values, and what is in them, are all of classes whose text Python itself makes."""
    waiting: list[Any] = list(values)
    for value in waiting:  # grows while it is walked
        cls = type(value)
        if cls in _CONTAINERS:
            waiting += [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
        elif cls not in LEAVES:
            return False
        if len(waiting) > _MOST_PARTS:
            return False
    return True


def _told(value: Any, depth: int, *, alone: bool) -> str:
    cls = type(value)  # isinstance would ask the object for its __class__
    if issubclass(cls, str):
        return str.__str__(value) if alone else str.__repr__(value)
    if issubclass(cls, BaseException) and depth < _DEEPEST:
        return _text_of(value, depth + 1)
    if issubclass(cls, Enum):
        return f"{type_name(cls).partition(':')[2]}.{object.__getattribute__(value, '_name_')}"
    return repr(value) if _are_built_in([value]) else str(opaque(value)["repr"])


def _attributes(exc: BaseException) -> str:
    return ", ".join(
        f"{name}={_told(value, _DEEPEST, alone=False)}"
        for name, value in contents_of(exc).copy().items()
        if not name.startswith("_")
    )


def contents_of(exc: BaseException) -> dict[str, Any]:
    """Return the ``__dict__`` of an exception, whatever its class says about attributes."""
    contents: dict[str, Any] = vars(BaseException)["__dict__"].__get__(exc)
    return contents
