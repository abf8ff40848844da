"""The reading of recorded values. Nothing is imported, and no code of a recorded class runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stepfork._codec.base import unescape_key
from stepfork._codec.exceptions import begin_exception, finish_exception
from stepfork._codec.leaves import LEAF_READERS
from stepfork._codec.methods import read_method
from stepfork._codec.objects import begin_object, finish_object, read_namedtuple
from stepfork._codec.registry import read_registered
from stepfork._codec.standin import Opaque
from stepfork._plain import is_tag
from stepfork.errors import RecordingDamaged, StepforkError

if TYPE_CHECKING:
    from stepfork._calls import Plain
    from stepfork._codec.types import Classes


_MADE_IN_ONE_GO = frozenset({"namedtuple", "value", "array", "method"})


def read(plain: Plain, classes: Classes) -> Any:
    """Return the value of a recorded form; raises RecordingDamaged where that is none."""
    try:
        return PlainReader(classes).child(plain)
    except StepforkError:
        raise
    except Exception as fault:
        raise RecordingDamaged(f"a recorded value cannot be read: {type(fault).__name__}: {fault}") from fault


class PlainReader:
    """Reads one value. What has parts is begun first and finished later, so that cycles close."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self._table: _Table | None = None
        self._hashing = 0

    def child(self, plain: Plain) -> Any:
        cls = type(plain)
        if cls is list:
            return [self.child(part) for part in plain]
        if cls is not dict:
            return plain
        tag = next(iter(plain), "")
        if not is_tag(tag):
            return {unescape_key(key): self.child(part) for key, part in plain.items()}
        if tag == "$ref":
            return self._referred(plain["$ref"])
        if tag == "$shared":
            return self._read_shared(plain)
        value = self.begin(plain)
        self.finish(value, plain)
        return value

    def whole(self, plain: Plain) -> Any:
        self._hashing += 1
        try:
            return self.child(plain)
        finally:
            self._hashing -= 1

    def stand_in(self, plain: dict[str, Plain], why: str) -> Opaque:
        if self._table is not None and _has_reference(plain):
            plain = {"$shared": self._table.plains, "value": plain}
        return Opaque(plain, why)

    def begin(self, plain: Plain) -> Any:
        """Return the object that the value will be: empty where it can be filled later, else complete."""
        if type(plain) is not dict:
            return [] if type(plain) is list else plain
        tag = next(iter(plain), "")
        if not is_tag(tag) or tag == "$dict":
            return {}
        if tag == "$set":
            return set()
        if tag == "$tuple":
            return tuple(self.child(plain["$tuple"]))
        if tag == "$frozenset":
            return frozenset(self.whole(plain["$frozenset"]))
        if tag == "$object":
            return self._begin_object(plain)
        if tag == "$exception":
            return begin_exception(plain, self)
        leaf = LEAF_READERS.get(tag)
        return (
            self.stand_in(plain, f"{tag} is unknown to this version") if leaf is None else leaf(plain, self)
        )

    def _begin_object(self, plain: dict[str, Plain]) -> Any:
        kind = plain.get("of")
        if kind == "namedtuple":
            return read_namedtuple(plain, self)
        if kind == "value":
            return read_registered(plain, self)
        if kind == "array":
            return self._read_array(plain)
        if kind == "method":
            return read_method(plain, self)
        return begin_object(plain, self)

    def _read_array(self, plain: dict[str, Plain]) -> Any:
        if "numpy" not in sys.modules:
            return self.stand_in(plain, "numpy is not loaded")
        from stepfork._codec.arrays import read_array

        return read_array(plain, self)

    def finish(self, value: Any, plain: Plain) -> None:
        """Fill what :meth:`begin` returned."""
        if type(plain) is list:
            value.extend(self.child(part) for part in plain)
        if type(plain) is not dict:
            return
        tag = next(iter(plain), "")
        if not is_tag(tag):
            value.update((unescape_key(key), self.child(part)) for key, part in plain.items())
        elif tag == "$dict":
            value.update((self.whole(key), self.child(part)) for key, part in plain["$dict"])
        elif tag == "$set":
            value.update(self.whole(plain["$set"]))
        elif tag == "$object" and plain.get("of") not in _MADE_IN_ONE_GO:
            finish_object(value, plain, self)
        elif tag == "$exception":
            finish_exception(value, plain, self)

    def _read_shared(self, plain: dict[str, Plain]) -> Any:
        outer, self._table = self._table, _Table(self, plain["$shared"])
        try:
            self._table.finish_all()
            return self.child(plain["value"])
        finally:
            self._table = outer

    def _referred(self, place: int) -> Any:
        if self._table is None:
            raise ValueError("a reference outside of a table")
        value = self._table.value_at(place)
        if self._hashing:
            self._table.finish(place)
        return value


class _Table:
    """The values that a recorded value refers to by number."""

    def __init__(self, reader: PlainReader, plains: list[Plain]) -> None:
        self.plains = plains
        self._reader = reader
        self._values: dict[int, Any] = {}
        self._begun: set[int] = set()
        self._finished: set[int] = set()

    def finish_all(self) -> None:
        places = range(len(self.plains))
        for place in reversed(places):  # what is deeper stands later: so this goes no deeper than one entry
            self.value_at(place)
        for place in reversed(places):
            self.finish(place)

    def value_at(self, place: int) -> Any:
        if place in self._values:
            return self._values[place]
        if place in self._begun:
            raise ValueError(f"entry {place} of a table needs itself")
        self._begun.add(place)
        value = self._values[place] = self._reader.begin(self.plains[place])
        return value

    def finish(self, place: int) -> None:
        if place not in self._finished:
            self._finished.add(place)
            self._reader.finish(self.value_at(place), self.plains[place])


def _has_reference(plain: Plain) -> bool:
    if type(plain) is list:
        return any(map(_has_reference, plain))
    if type(plain) is not dict:
        return False
    return "$ref" in plain or any(map(_has_reference, plain.values()))
