"""Which returned objects are streams: told by their class, without asking the object anything."""

from __future__ import annotations

import sys
import types

# Of a class, whatever its metaclass makes of the question.
_mro_of = type.__dict__["__mro__"].__get__
_names_of = type.__dict__["__dict__"].__get__

_RESOURCE = frozenset(
    {"read", "readline", "write", "recv", "fileno", "execute", "fetchone", "fetchall", "iter_content"}
)
"""What has one of these is a file, socket, cursor or response: more than what comes out of it."""

_CONTEXT = {"__enter__": "__exit__", "__aenter__": "__aexit__"}
_ITERATOR = {"__next__": "__iter__", "__anext__": "__aiter__"}


def has(kind: type, name: str) -> bool:
    """Whether the class defines or inherits a name."""
    return any(name in _names_of(base) for base in _mro_of(kind))


def is_future(kind: type) -> bool:
    """Whether it is awaited, and may be done without anybody awaiting it."""
    return has(kind, "__await__") and has(kind, "add_done_callback")


def is_plain_iterator(kind: type) -> bool:
    """Whether it is one of Python's own iterators, that have nothing but their chunks."""
    return kind.__module__ in ("builtins", "itertools") and _is_iterator(kind)


def is_stream_object(kind: type) -> bool:
    """Whether it is there to be iterated over, or to be entered for a stream, and no resource.

    That is what is written in Python and is an iterator, can only be iterated over asynchronously, or is
    a context manager that can be iterated over or has nothing to offer but what it hands out on entry.
    """
    if _is_resource(kind):
        return False
    if is_plain_iterator(kind) or _is_own(kind, "__next__", "__iter__"):
        return True
    if _is_own(kind, "__aiter__", "__aiter__"):
        return True
    if not any(_is_own(kind, enter, leave) for enter, leave in _CONTEXT.items()):
        return False
    if not any(map(_public_names, _mro_of(kind)[:-1])):
        return True
    return has(kind, "__iter__") and kind.__module__.partition(".")[0] not in sys.stdlib_module_names


def is_entered_stream(kind: type, state: dict[str, object]) -> bool:
    """Whether what a context manager handed out is a stream; ``state`` are its own attributes."""
    if _is_resource(kind):
        return False
    if is_stream_object(kind) or has(kind, "text_stream"):
        return True
    return _is_own(kind, "__init__", "__init__") and any(map(is_generated, map(type, state.values())))


def is_generated(kind: type) -> bool:
    """Whether it is made by a generator function."""
    return kind is types.GeneratorType or kind is types.AsyncGeneratorType


def _is_iterator(kind: type) -> bool:
    return any(has(kind, one) and has(kind, other) for one, other in _ITERATOR.items())


def _is_resource(kind: type) -> bool:
    return any(has(kind, name) for name in _RESOURCE)


def _is_own(kind: type, name: str, other: str) -> bool:
    """Whether both are there, and the first is written in Python."""
    defined = next((_names_of(base)[name] for base in _mro_of(kind) if name in _names_of(base)), None)
    return isinstance(defined, types.FunctionType) and has(kind, other)


def _public_names(kind: type) -> bool:
    return any(not name.startswith("_") for name in _names_of(kind))
