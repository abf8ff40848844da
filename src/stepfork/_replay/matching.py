"""Finds the recorded outcome of a call.

The rules, in order: the same call in the same parent; the same call elsewhere (*moved*); equal within
tolerance (*drift*); for a model whose prompt changed its next reply (*stale*); else nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from stepfork._calls import parent_address
from stepfork._codec import canonical
from stepfork._replay.shelf import Entry, Shelf, Slot, identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepfork._calls import Call, Plain
    from stepfork._spec import Spec
    from stepfork.tolerance import Rules

How: TypeAlias = Literal["exact", "moved", "drift", "stale"]


class Request:
    """A call that asks for its recorded outcome."""

    def __init__(
        self,
        spec: Spec,
        parent: str,
        input: dict[str, Plain],
        blank: Callable[[Plain], Plain],
        rules: Rules | None = None,
    ) -> None:
        self.spec = spec
        self.parent = parent
        """The address of the caller."""
        self.input = input
        self.rules = rules
        self.identity = identity_of(spec, input)
        self._blank = blank

    @cached_property
    def raw_key(self) -> bytes:
        """What identifies the call, made ids and all."""
        return canonical(self.identity)

    @cached_property
    def blanked(self) -> Plain:
        """The identifying arguments without the ids that the replayed code made."""
        return self._blank(self.identity)

    @cached_property
    def key(self) -> bytes:
        """What identifies the call whatever ids the code made."""
        return canonical(self.blanked)


class Match(NamedTuple):
    """A recorded outcome for a call, and how it was found."""

    slot: Slot
    call: Call
    how: How
    request: Request


class _Known(NamedTuple):
    """What is recorded of one function."""

    spec: Spec
    everywhere: Shelf
    by_parent: dict[str, Shelf]
    stolen: Counter[tuple[str, bytes]]
    """How many calls of a parent were handed out elsewhere and not made up for yet."""


class Pool:
    """The recorded tool and model calls of one replay; each is handed out once."""

    def __init__(self, root: Call, extensions: Iterable[list[Call]], blank: Callable[[Plain], Plain]) -> None:
        self._blank = blank
        self._root = root
        self._slots: dict[str, Slot] = {}
        self._names: dict[str, list[Slot]] = defaultdict(list)
        self._highest: dict[tuple[str, str], int] = {}
        self._known: dict[int, _Known] = {}
        for call in sorted(root.walk(), key=lambda call: call.span):
            self._add(call)
        for calls in extensions:
            for call in calls:
                self._add(call)

    def _add(self, call: Call) -> None:
        place = parent_address(call.address), call.name
        self._highest[place] = max(self._highest.get(place, 0), int(call.address.rpartition("#")[2]))
        if call.kind == "step":
            return
        slot = self._slots.get(call.address)
        if slot is None:
            slot = self._slots[call.address] = Slot(call.address, [call])
            self._names[call.name].append(slot)
        else:
            slot.alternatives.append(call)

    def highest(self, parent: str, name: str) -> int:
        """Return the highest number that a recorded call of ``name`` in ``parent`` has."""
        return self._highest.get((parent, name), 0)

    def find(self, request: Request) -> Match | None:
        """Return the outcome that answers this call, without using it up; None at a frontier."""
        known = self._of(request.spec)
        here = known.by_parent.get(request.parent)
        return (
            self._same_here(here, request)
            or self._same_elsewhere(known, here, request)
            or self._within_tolerance(here, request)
            or self._next_reply(here, request)
        )

    def last_used(self, request: Request) -> Call | None:
        """Return the last recorded call that equals this one: what a polled tool goes on answering."""
        here = self._of(request.spec).by_parent.get(request.parent)
        return here.last(request) if here else None

    def use(self, match: Match) -> None:
        """Hand the slot out, and with it everything that was recorded inside that call."""
        slot, request = match.slot, match.request
        slot.is_used = True
        if match.how == "moved":
            stolen = self._of(request.spec).stolen
            stolen[slot.parent, request.key] += 1
            if stolen[request.parent, request.key] > 0:
                stolen[request.parent, request.key] -= 1
        for inside in slot.recorded.walk():
            if inside is not slot.recorded and inside.address in self._slots:
                self._slots[inside.address].is_used = True

    def unused(self) -> list[Call]:
        """Return the recorded calls that were not asked for, the outermost only, in recorded order.

        A polled tool that was asked at all was asked often enough.
        """
        asked = {
            (s.parent, s.recorded.name) for s in self._slots.values() if s.is_used and s.recorded.repeats
        }
        result: list[Call] = []
        inside: set[str] = set()
        for address, slot in self._slots.items():
            if slot.is_used or address in inside:
                continue
            if slot.recorded.repeats and (slot.parent, slot.recorded.name) in asked:
                continue
            result.append(slot.recorded)
            inside.update(call.address for call in slot.recorded.walk())
        return result

    def nearest(self, request: Request, limit: int = 3) -> list[Call]:
        """Return the recorded calls that look most like this one.

        Those of the same name first, in the same parent, unused, with the fewest other arguments; then
        calls of another name with the same arguments.
        """

        def distance(slot: Slot) -> tuple[bool, int, bool]:
            recorded = identity_of(request.spec, slot.newest.input)
            names = {**recorded, **request.identity}
            differing = sum(recorded.get(k, ...) != request.identity.get(k, ...) for k in names)
            return slot.parent != request.parent, differing, slot.is_used

        named = sorted(self._names.get(request.spec.name, []), key=distance)
        return ([slot.newest for slot in named] + self._renamed(request))[:limit]

    def _renamed(self, request: Request) -> list[Call]:
        if not request.input:
            return []
        others = (
            slot
            for slot in self._slots.values()
            if slot.newest.name != request.spec.name and not slot.is_used
        )
        entries = (Entry(slot, slot.newest, request.spec, self._blank) for slot in others)
        return [
            entry.call for entry in entries if entry.raw_key == request.raw_key or entry.key == request.key
        ]

    def _same_here(self, here: Shelf | None, request: Request) -> Match | None:
        entry = here.same(request) if here else None
        return Match(entry.slot, entry.call, "exact", request) if entry else None

    def _same_elsewhere(self, known: _Known, here: Shelf | None, request: Request) -> Match | None:
        if here is not None and here.holds(request) and known.stolen[request.parent, request.key] <= 0:
            return None
        entry = known.everywhere.same(request)
        return Match(entry.slot, entry.call, "moved", request) if entry else None

    def _within_tolerance(self, here: Shelf | None, request: Request) -> Match | None:
        entry = here.near(request) if here else None
        return Match(entry.slot, entry.call, "drift", request) if entry else None

    def _next_reply(self, here: Shelf | None, request: Request) -> Match | None:
        if request.spec.kind != "model" or here is None:
            return None
        slot = here.first_unused()
        return Match(slot, slot.newest, "stale", request) if slot else None

    def _of(self, spec: Spec) -> _Known:
        known = self._known.get(id(spec))
        if known is None:
            # The spec is kept beside what is known of it so that its id stays its own.
            slots = self._names.get(spec.name, [])
            entries = [Entry(slot, call, spec, self._blank) for slot in slots for call in slot.alternatives]
            places: dict[str, list[Entry]] = defaultdict(list)
            for entry in entries:
                places[entry.slot.parent].append(entry)
            by_parent = {parent: Shelf(there) for parent, there in places.items()}
            known = self._known[id(spec)] = _Known(spec, Shelf(entries), by_parent, Counter())
        return known
