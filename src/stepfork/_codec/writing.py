"""The writing of values that need tags, in one go or, where that is not possible, flat."""

from __future__ import annotations

import sys
import time
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._codec.base import Beyond, escape_key
from stepfork._codec.exceptions import write_exception
from stepfork._codec.fast import MAX_SIZE, PART_SIZE
from stepfork._codec.graph import MAX_DEPTH, Link, fold
from stepfork._codec.leaves import LEAVES, write_enum, write_stand_in, write_text
from stepfork._codec.methods import write_method
from stepfork._codec.objects import (
    can_be_rebuilt,
    is_namedtuple,
    name_in_module,
    write_namedtuple,
    write_object,
)
from stepfork._codec.registry import CHOSEN, family_of, is_met_later, is_registered, write_registered
from stepfork._codec.standin import Opaque, opaque
from stepfork._codec.types import global_name

if TYPE_CHECKING:
    from stepfork._calls import Plain
    from stepfork._codec.base import Walk, Writer

MAX_SECONDS = 5.0
"""How long the writing of one value may take; what is left then becomes placeholders."""

MAX_NESTED_PARTS = 50_000
"""From here on a value may be small but reached by very many ways, which only flat writing notices."""

_PARTS_PER_LOOK = 8
"""How often a walk looks at the clock."""

_MANY_TOO_DEEP = 20

_TOO_LARGE = ", too large to record"


class _Budgeted:
    """What both ways of writing share: the limits, and the account of what was lost."""

    def __init__(self, room: int, deadline: float, *, outcome: bool) -> None:
        self.room = room
        self.deadline = deadline
        self.outcome = outcome
        self.chain: list[BaseException] = []
        self.lossy = False

    def opaque(self, value: object, note: str = "") -> Plain:
        self.lossy = True
        return opaque(value, note)

    def spend(self, size: int) -> None:
        if size > self.room:
            raise Beyond
        self.room -= size

    def check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise Beyond


class Nested(_Budgeted):
    """Writes the parts of a value inside of it. Raises :class:`Beyond` for what is deep, cyclic or large."""

    depth = 0
    parts = 0

    def child(self, value: object) -> Plain:
        cls = type(value)
        if cls is str:
            if len(value) <= self.room and value.isascii():  # type: ignore[arg-type,attr-defined]
                self.room -= len(value)  # type: ignore[arg-type]
                return value
            return write_text(value, self)  # type: ignore[arg-type]
        if value is None or cls is bool:
            return value
        if cls is int or cls is float:
            return LEAVES[cls](value, self)
        self.parts += 1
        if self.depth >= MAX_DEPTH or self.parts > MAX_NESTED_PARTS:
            raise Beyond
        if self.parts % _PARTS_PER_LOOK == 0:
            self.check_time()
        self.spend(PART_SIZE)
        self.depth += 1
        try:
            return writer_for(cls)(value, self)
        except (Beyond, RecursionError):
            raise Beyond from None
        except KeyboardInterrupt:
            raise
        except BaseException:  # from code of the value's own, which may even exit
            return self.opaque(value)
        finally:
            self.depth -= 1

    element = child


class Flat(_Budgeted):
    """Writes every container as a node of its own, so that neither depth nor cycles matter."""

    def __init__(self, room: int, deadline: float, *, outcome: bool) -> None:
        super().__init__(room, deadline, outcome=outcome)
        self.places: dict[int, int] = {}
        self.values: list[object] = []
        """Kept until the end, so that no other object takes over an id."""
        self.too_deep = 0
        """How many elements of sets could not be written nested."""

    def write(self, value: object) -> Plain:
        root = self.child(value)
        nodes = [self._guarded(value) for value in self.values]  # grows while it is walked
        return fold(nodes, root)

    def child(self, value: object) -> Plain:
        if type(value) in LEAVES:
            return self._guarded(value)
        if (place := self.places.get(id(value))) is None:
            place = self.places[id(value)] = len(self.values)
            self.values.append(value)
        return Link(place)

    def element(self, value: object) -> Plain:
        """Write a part nested if that is possible: a set is sorted by what its elements look like."""
        if self.too_deep > _MANY_TOO_DEEP:
            return self.child(value)
        nested = Nested(self.room, self.deadline, outcome=self.outcome)
        try:
            plain = nested.child(value)
        except Beyond:
            self.too_deep += 1
            return self.child(value)
        self.room = nested.room
        self.lossy = self.lossy or nested.lossy
        return plain

    def _guarded(self, value: object) -> Plain:
        try:
            self.check_time()
            self.spend(PART_SIZE)
            return writer_for(type(value))(value, self)
        except Beyond:
            return self.opaque(value, _TOO_LARGE)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return self.opaque(value)


def write(value: object, *, outcome: bool) -> tuple[Plain, bool]:
    """Return the recorded form of a value, and whether it is lossy."""
    deadline = time.monotonic() + MAX_SECONDS
    nested = Nested(MAX_SIZE, deadline, outcome=outcome)
    try:
        return nested.child(value), nested.lossy
    except Beyond:
        flat = Flat(MAX_SIZE, deadline, outcome=outcome)
        return flat.write(value), flat.lossy


def _write_dict(value: dict[Any, Any], walk: Walk) -> Plain:
    items = list(dict.copy(value).items())  # at once: another thread may change it
    walk.spend(PART_SIZE * len(items))
    try:
        keys = [escape_key(key) for key, _ in items]
    except ValueError:
        return {"$dict": [[walk.element(key), walk.child(part)] for key, part in items]}
    return {key: walk.child(part) for key, (_, part) in zip(keys, items, strict=True)}


def _write_list(value: list[Any], walk: Walk) -> Plain:
    parts = list(value)
    walk.spend(PART_SIZE * len(parts))
    return [walk.child(part) for part in parts]


def _write_tuple(value: tuple[Any, ...], walk: Walk) -> Plain:
    walk.spend(PART_SIZE * len(value))
    return {"$tuple": [walk.child(part) for part in value]}


def _write_set(value: set[Any], walk: Walk) -> Plain:
    return {"$set": _elements(list(value), walk)}


def _write_frozenset(value: frozenset[Any], walk: Walk) -> Plain:
    return {"$frozenset": _elements(list(value), walk)}


def _elements(values: list[Any], walk: Walk) -> list[Plain]:
    walk.spend(PART_SIZE * len(values))
    return sorted((walk.element(value) for value in values), key=_order)


_order = msgspec.json.Encoder(order="sorted", enc_hook=lambda link: link.node).encode


def _write_global(value: object, walk: Walk) -> Plain:
    """Write a class, a function or a sentinel that a module holds."""
    name = global_name(value) or name_in_module(value, type(value))
    return walk.opaque(value) if name is None else {"$global": name}


def _write_routine(value: object, walk: Walk) -> Plain:
    """Write a function by its name, and a bound method by that of its object's class."""
    name = global_name(value)
    if name is not None:
        return {"$global": name}
    return write_method(value, walk) if type(value) in _METHODS else walk.opaque(value)


_METHODS = (MethodType, BuiltinFunctionType)


def _write_opaque(value: object, walk: Walk) -> Plain:
    return walk.opaque(value)


_BUILT_IN: dict[type, Writer] = {
    **LEAVES,
    dict: _write_dict,
    list: _write_list,
    tuple: _write_tuple,
    set: _write_set,
    frozenset: _write_frozenset,
    Opaque: write_stand_in,
}
_MANY_CLASSES = 4096


def writer_for(cls: type) -> Writer:
    """Return what writes the instances of exactly this class."""
    writer = _BUILT_IN.get(cls) or CHOSEN.get(cls)
    if writer is None:
        writer = _choose(cls)
        if len(CHOSEN) < _MANY_CLASSES:
            CHOSEN[cls] = writer
    return writer


def _choose(cls: type) -> Writer:
    if is_registered(cls):
        return write_registered
    if issubclass(cls, BaseException):
        return write_exception
    if issubclass(cls, Enum):
        return write_enum
    if issubclass(cls, FunctionType | BuiltinFunctionType | MethodType):
        return _write_routine
    if issubclass(cls, type) or cls.__module__ == "typing":
        return _write_global
    if is_met_later(cls):
        return write_registered
    if (writer := _numpy_writer(cls)) is not None:
        return writer
    if is_namedtuple(cls):
        return write_namedtuple
    if family_of(cls) is not None:
        return _write_opaque
    if can_be_rebuilt(cls):
        return write_object
    return _write_opaque if _answers_in_python(cls) else _write_global


def _numpy_writer(cls: type) -> Writer | None:
    """Return what writes a class of numpy, or one derived from it; None for other classes."""
    if "numpy" not in sys.modules or all(layer.__module__ != "numpy" for layer in cls.__mro__):
        return None
    from stepfork._codec import arrays as _codec_arrays

    return _codec_arrays.writer_for(cls) or _write_opaque


def _answers_in_python(cls: type) -> bool:
    """Whether reading an attribute of an instance may run code of the user's."""
    names = ("__getattr__", "__getattribute__")
    return any(isinstance(vars(layer).get(name), FunctionType) for layer in cls.__mro__ for name in names)
