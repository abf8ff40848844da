"""Classes that are written by a pair of functions: ours for other people's classes, and third parties'."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from stepfork._codec.standin import Opaque
from stepfork._codec.types import look_up, type_name
from stepfork.errors import ClassChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._calls import Plain
    from stepfork._codec.base import Reader, Walk, Writer

    Pair: TypeAlias = tuple[Callable[[Any], object], Callable[[Any], Any]]
    """What writes the instances of a class as something else, and what reads them back."""

T = TypeVar("T")

_PAIRS: dict[str, Pair] = {}
_CLASSES: set[type] = set()
CHOSEN: dict[type, Writer] = {}
"""What writes the instances of a class, as was found out when it was first met."""


_MET_LATER: dict[str, Callable[[Any], Pair]] = {}
"""Classes of modules that may not be loaded, each with what gives the pair of functions for it."""

_FAMILIES = {"pandas": "stepfork._codec.tables"}
"""Library -> the module that registers its classes, imported once the library is loaded by somebody else."""


def family_of(cls: type) -> str | None:
    """Return the library that a class is of, or derived from, whose classes are registered together."""
    roots = (layer.__module__.partition(".")[0] for layer in cls.__mro__)
    return next((root for root in roots if root in _FAMILIES), None)


def register(cls: type[T], encode: Callable[[T], object], decode: Callable[[Any], T]) -> None:
    """Have instances of exactly this class written by the one function and read by the other."""
    _PAIRS[type_name(cls)] = encode, decode
    _CLASSES.add(cls)
    CHOSEN.pop(cls, None)


def register_later(name: str, pair: Callable[[Any], Pair]) -> None:
    """Have the class ``module:QualName`` registered when it is first met; ``pair`` is given the class."""
    _MET_LATER[name] = pair


def is_registered(cls: type) -> bool:
    """Whether the class is written by a pair of functions."""
    return cls in _CLASSES


def is_met_later(cls: type) -> bool:
    """Whether the class is one of those that are registered when they are first met."""
    return _pair(type_name(cls)) is not None and cls in _CLASSES


def _pair(name: str) -> Pair | None:
    if name in _PAIRS:
        return _PAIRS[name]
    library = name.partition(":")[0].partition(".")[0]
    if library in _FAMILIES and library in sys.modules:
        importlib.import_module(_FAMILIES[library])
    cls = look_up(name)
    if not isinstance(cls, type):
        return None
    if name in _MET_LATER:
        register(cls, *_MET_LATER[name](cls))
    return _PAIRS.get(type_name(cls))  # a library moves its classes from version to version


def write_registered(value: object, walk: Walk) -> Plain:
    """Write a value by the function registered for its class."""
    name = type_name(type(value))
    return {"$object": name, "of": "value", "value": walk.child(_PAIRS[name][0](value))}


def read_registered(plain: dict[str, Plain], reader: Reader) -> object:
    """Read a value by the function registered for its class."""
    name = reader.classes.current(plain["$object"])
    pair = _pair(name)
    if pair is None:
        return reader.stand_in(plain, "nothing is registered that reads it")
    value = reader.whole(plain["value"])
    try:
        return pair[1](value)
    except Exception as fault:
        if _has_stand_in(value):
            return reader.stand_in(plain, "a part of it cannot be rebuilt")
        raise ClassChanged(
            f"what is registered to read {name} failed: {type(fault).__name__}: {fault}", type=name
        ) from fault


def _has_stand_in(value: object) -> bool:
    parts = value if type(value) is list or type(value) is tuple else [value]
    return any(type(part) is Opaque for part in parts)
