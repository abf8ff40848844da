"""What a journal does not write again: a value much like one that an earlier call was given or returned.

A conversation that grows by a message per call, or a database that a tool is handed again and again,
would else be stored with the square of the calls. In its place stands, by the address of that call::

    {"$as in": "handle#1/ask#3", "part": "input/messages", "changes": {"list": {"": {...}}}}

``part`` is where the value stood there: ``input/<parameter>``, ``value`` or ``changes``; the form of
``changes`` is told in ``_patch``, and without them nothing is different.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw, structs

from stepfork._events import CallEnded, CallStarted, ItemYielded
from stepfork._journal import in_place
from stepfork._patch import differences, in_common, patched
from stepfork._plain import tag
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepfork._calls import Plain
    from stepfork._events import Event

SHORT_LINE = 2048
"""Bytes of a line that is written as it is: a run of such lines cannot grow with the square."""

_SHORT_VALUE = 512
_HEAVY_ARGUMENT = 2**20

_MOST_KEPT = 8
"""How many different values are kept to compare with: so many conversations may go on side by side."""

_MOST_BYTES_KEPT = 8 * 2**20
"""Of more than one: the latest is kept whatever it weighs."""

_LEAST_IN_COMMON = 256

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class _Kept(NamedTuple):
    """A value that stands in the journal, and may be referred to."""

    address: str
    part: str
    data: bytes
    """Its JSON."""


class Shortener:
    """The writing side; the lines of one run in their order."""

    def __init__(self, store: Callable[[Any], Any]) -> None:
        self._store = store
        """Takes what is still large out of the line."""
        self._kept: list[_Kept] = []
        """The latest at the end."""
        self._met: list[tuple[_Kept, _Kept | None]] = []

    def shortened(self, line: bytes) -> bytes:
        """Return the same event in a shorter line; :meth:`keep` is to be called once it is written."""
        self._met = []
        fields: dict[str, Any] = _decode(line, type=dict[str, Raw])
        if "call" not in fields:
            return line
        if _decode(fields["event"]) == "item":  # a stream has many: none is told by its address
            return _encode({**fields, "value": self._store(fields["value"])}) + b"\n"
        address = _decode(fields["call"], type=str)
        if "input" in fields:
            arguments = _decode(fields["input"], type=dict[str, Raw])
            _advise(address, arguments)
            fields["input"] = {
                name: self._short(address, f"input/{name}", value) for name, value in arguments.items()
            }
        for name in fields.keys() & {"value", "changes"}:
            fields[name] = self._short(address, name, fields[name])
        return _encode(fields) + b"\n"

    def keep(self) -> None:
        """Have later lines refer to the values of the line that was written."""
        for value, ancestor in self._met:
            if ancestor in self._kept:
                self._kept.remove(ancestor)
            self._kept.append(value)
        self._met = []  # or a value over the limit would be held on to until the next long line
        while len(self._kept) > _MOST_KEPT or (len(self._kept) > 1 and self._weight() > _MOST_BYTES_KEPT):
            del self._kept[0]

    def _weight(self) -> int:
        return sum(len(each.data) for each in self._kept)

    def forget(self) -> None:
        """Let go of all values: the run is over, and what knows it may live on."""
        self._kept, self._met = [], []

    def _short(self, address: str, part: str, value: Raw) -> Any:
        data = bytes(value)
        if len(data) < _SHORT_VALUE:
            return value
        now = _Kept(address, part, data)
        alike = [(sum(in_common(kept.data, data)), kept) for kept in self._kept]
        common, like = max(alike, key=itemgetter(0), default=(0, None))
        reference = None if like is None or common < _LEAST_IN_COMMON else _reference(like, now)
        # What goes on in this one is done with; what differs may go on in another.
        goes_on = like is not None and common == len(like.data)
        self._met.append((now, like if goes_on else None))
        return self._store(value if reference is None else reference)


def _advise(address: str, arguments: dict[str, Raw]) -> None:
    name = address.rpartition("/")[2].rpartition("#")[0]
    for argument, value in arguments.items():
        if len(bytes(value)) > _HEAVY_ARGUMENT:
            warn_once(
                f"stepfork: the argument {argument!r} of {name} weighs over 1 MB in a call that is recorded; "
                f'ignore=("{argument}",) at its decorator leaves it out'
            )


def _reference(before: _Kept, after: _Kept) -> dict[str, Any] | None:
    """Return what tells the one value by the other; None where that is not much shorter."""
    reference: dict[str, Any] = {"$as in": before.address, "part": before.part}
    if before.data == after.data:
        return reference
    try:
        changes = _appended(before.data, after.data) or _changes(before.data, after.data)
    except RecursionError:
        return None
    if changes is None or 2 * len(_encode(changes)) > len(after.data):
        return None
    return {**reference, "changes": changes}


def _appended(before: bytes, after: bytes) -> dict[str, Any] | None:
    """Return the changes where a list has more at its end, found without a look into it."""
    end = len(before) - 1
    if not (before.startswith(b"[") and after.startswith(before[:end]) and after[end : end + 1] == b","):
        return None
    position = len(_decode(before, type=list[Raw]))
    return {"list": {"": {"at": position, "out": 0, "in": Raw(b"[" + after[end + 1 :])}}}


def _changes(before: bytes, after: bytes) -> dict[str, Any] | None:
    was, now = _decode(before), _decode(after)
    changes = differences(was, now, inside_texts=True)
    return changes if _encode(patched(was, changes)) == after else None


def _as_changes(value: Plain) -> dict[str, list[Any]] | None:
    if value is None or (isinstance(value, dict) and all(type(each) is list for each in value.values())):
        return value
    raise ValueError("the changes are no list for each parameter")


class Expander:
    """The reading side: gives each event its whole values back."""

    def __init__(self, blobs: Path) -> None:
        self._blobs = blobs
        self._values: dict[tuple[str, str], Plain] = {}

    def whole(self, event: Event) -> Event:
        """Return the event with each value in its place; ValueError or OSError where one is not there."""
        match event:
            case CallStarted():
                values = {
                    name: self._whole(event.call, f"input/{name}", value)
                    for name, value in event.input.items()
                }
                return structs.replace(event, input=values)
            case CallEnded():
                return structs.replace(
                    event,
                    value=self._whole(event.call, "value", event.value),
                    changes=_as_changes(self._whole(event.call, "changes", event.changes)),
                )
            case ItemYielded():
                return structs.replace(event, value=in_place(self._blobs, event.value))
            case _:
                return event

    def _whole(self, address: str, part: str, value: Plain) -> Plain:
        value = in_place(self._blobs, value)
        if tag(value) == "$as in":
            value = self._expanded(value)
        self._values[address, part] = value
        return value

    def _expanded(self, reference: dict[str, Any]) -> Plain:
        where = reference["$as in"], reference.get("part")
        try:
            before = self._values[where]  # type: ignore[index]
        except (KeyError, TypeError):
            raise ValueError(f"it is as in {where[0]}, and there is no such value before") from None
        return patched(before, reference["changes"]) if "changes" in reference else before
