"""What values hold, read without running any code of theirs: no property, no ``__getattr__``, no iterator.

A *step* leads from a value to one that it holds; where the same code runs again, with other objects, the same
steps lead to what stands there then.
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from stepfork._frames import is_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Step: TypeAlias = "tuple[str, Any]"
"""Of which kind, and under which key."""

WIDEST = 2000
"""How many members of one value are looked at."""

_PLAIN_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
_TABLES = (list, tuple, collections.deque, set, frozenset)


class Gone(LookupError):
    """Nothing stands there now."""


def text_of(value: object) -> str | None:
    """Return a text as a plain one, an enum's for example; None for anything else."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[return-value]
    return str.__str__(value) if issubclass(kind, str) else None


def is_table(value: object) -> bool:
    """Whether it is a mapping or a collection, of Python or a class below one of these."""
    return issubclass(type(value), (dict, *_TABLES))


def is_users_namespace(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a module that belongs to the project, and to no library."""
    file = names.get("__file__")
    return names.get("__name__") == "__main__" or (type(file) is str and is_users(file))


def is_users_function(function: types.FunctionType) -> bool:
    """Whether it was written in the project."""
    return is_users(function.__code__.co_filename) or is_users_namespace(function.__globals__)


def is_users_class(cls: type) -> bool:
    """Whether it was written in the project."""
    module = sys.modules.get(text_of(own(cls).get("__module__")) or "")
    return module is not None and is_users_namespace(namespace_of(module))


def namespace_of(module: types.ModuleType) -> dict[str, Any]:
    """Return the names of a module as they stand there, a lazy one's too."""
    return object.__getattribute__(module, "__dict__")  # type: ignore[no-any-return]


def own(cls: type) -> Mapping[str, Any]:
    """Return what a class itself defines."""
    return type.__getattribute__(cls, "__dict__")  # type: ignore[no-any-return]


def mro(cls: type) -> tuple[type, ...]:
    """Return a class and those above it."""
    return type.__getattribute__(cls, "__mro__")  # type: ignore[no-any-return]


def users_members(cls: type) -> dict[str, Any]:
    """Return what a class and the user's classes above it define, the nearest last."""
    found: dict[str, Any] = {}
    for each in reversed(mro(cls)):
        if is_users_class(each):
            found.update(own(each))
    return found


def fields(value: object) -> dict[str, Any]:
    """Return the attributes that an object itself holds, in its dictionary or its slots."""
    found: dict[str, Any] = {}
    for cls in mro(type(value)):
        for name, member in own(cls).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    found.setdefault(name, member.__get__(value))
                except AttributeError:  # a slot with nothing in it
                    continue
            elif name == "__dict__" and type(member) is types.GetSetDescriptorType:
                names = member.__get__(value)
                if type(names) is dict:
                    found.update(names)
    return found


def members(value: Any) -> Iterator[tuple[Step, Any]]:
    """Yield what a value holds and how to come to it, so many members at most."""
    return islice(_members(value), WIDEST)


def _members(value: Any) -> Iterator[tuple[Step, Any]]:
    kind = type(value)
    if kind is types.FunctionType:
        for number, cell in enumerate(value.__closure__ or ()):
            try:
                yield ("cell", number), cell.cell_contents
            except ValueError:  # not filled yet
                continue
    elif kind in _PARTS:
        for name in _PARTS[kind]:
            yield ("part", name), getattr(value, name)
    elif issubclass(kind, dict):
        # To copy one of another class may run its code.
        for key, member in value.copy().items() if kind is dict else list(dict.items(value)):
            yield ("item", key), member
    elif issubclass(kind, _TABLES):
        for number, member in enumerate(_elements(value)):
            yield ("number", number), member
    elif issubclass(kind, type):
        for name, member in users_members(value).items():
            yield ("defined", name), member
    elif issubclass(kind, types.ModuleType):
        for name, member in namespace_of(value).copy().items():
            yield ("global", name), member
    else:
        for name, member in fields(value).items():
            yield ("field", name), member


def member(value: Any, step: Step) -> Any:
    """Return what stands there; raises Gone where nothing does."""
    how, key = step
    if how == "class":
        return type(value)
    if how == "item" and type(key) is str and issubclass(type(value), dict):
        if dict.__contains__(value, key):
            return dict.__getitem__(value, key)
        raise Gone
    for each, found in _members(value):
        if each[0] == how and (each[1] is key or (type(key) in _PLAIN_KEYS and each[1] == key)):
            return found
    raise Gone


_PLAIN_KEYS = (str, int)
"""The keys that are compared; others may bring code of the user's to do that with."""


def put(value: Any, step: Step, new: Any) -> bool:
    """Have another value stand there; whether that can be done without code of the user's."""
    how, key = step
    kind = type(value)
    if (how == "item" and kind in _PLAIN_DICTS) or (how == "number" and kind is list):
        value[key] = new
    elif how == "global":
        namespace_of(value)[key] = new
    elif how == "field" and type(kind.__setattr__) is types.WrapperDescriptorType:
        object.__setattr__(value, key, new)
    else:
        return False
    return True


def _elements(value: Any) -> list[Any]:
    walk: Callable[[Any], Iterator[Any]] = next(
        cls.__iter__ for cls in _TABLES if issubclass(type(value), cls)
    )
    return list(islice(walk(value), WIDEST))


_PARTS: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"),
    functools.partial: ("func",),
    functools.partialmethod: ("func",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    functools._lru_cache_wrapper: ("__wrapped__",),
}
"""What stands for a function, and where that is."""
