"""Finds the recorded outcome of a call.

The rules, in order: the same call in the same parent; the same call elsewhere (*moved*); equal within
tolerance (*drift*); for a model whose prompt changed its next reply (*stale*); else nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepfork._calls import Call, Plain, parent_address
from stepfork._codec import canonical
from stepfork._redact import has_redaction, matches
from stepfork._spec import Spec

if TYPE_CHECKING:
    from stepfork.tolerance import Rules

How = Literal["exact", "moved", "drift", "stale"]


class Match(NamedTuple):
    """A recorded outcome for a call, and how it was found."""

    slot: Slot
    call: Call
    how: How


class Request(NamedTuple):
    """A call that asks for its recorded outcome."""

    spec: Spec
    parent: str
    """The address of the caller."""
    input: dict[str, Plain]
    blank: Callable[[Plain], Plain]
    """Takes the ids out that the replayed code made."""
    rules: Rules | None = None


@dataclass(slots=True, eq=False)
class Slot:
    """One recorded call, with the calls of extensions that stand for it since."""

    address: str
    alternatives: list[Call]
    is_used: bool = False
    is_moved: bool = False
    """Used by a call in another place than the recorded one."""

    @property
    def newest(self) -> Call:
        """The reply that stands for this call."""
        return self.alternatives[-1]

    @property
    def recorded(self) -> Call:
        """The call as it was first recorded."""
        return self.alternatives[0]


@dataclass
class _Index:
    """The slots of one function by what identifies a call to it."""

    here: dict[tuple[str, bytes], list[tuple[Slot, Call]]] = field(default_factory=lambda: defaultdict(list))
    anywhere: dict[bytes, list[tuple[Slot, Call]]] = field(default_factory=lambda: defaultdict(list))
    redacted: list[tuple[Slot, Call, dict[str, Plain]]] = field(default_factory=list)


class Pool:
    """The recorded tool and model calls of one replay; each is handed out once."""

    def __init__(self, root: Call, extensions: Iterable[list[Call]], blank: Callable[[Plain], Plain]) -> None:
        self._blank = blank
        self._slots: dict[str, Slot] = {}
        self._names: dict[str, list[Slot]] = defaultdict(list)
        self._indexes: dict[int, tuple[Spec, _Index]] = {}
        for call in sorted(root.walk(), key=lambda call: call.span):
            if call.kind != "step":
                self._add(call)
        for calls in extensions:
            for call in calls:
                self._add(call)

    def _add(self, call: Call) -> None:
        slot = self._slots.get(call.address)
        if slot is None:
            slot = self._slots[call.address] = Slot(call.address, [call])
            self._names[call.name].append(slot)
        else:
            slot.alternatives.append(call)

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def slot_at(self, address: str) -> Slot | None:
        """Return the slot of this address."""
        return self._slots.get(address)

    def count(self, parent: str, name: str) -> int:
        """Return the highest number that a call of ``name`` in ``parent`` has here."""
        numbers = (
            int(slot.address.rpartition("#")[2])
            for slot in self._names.get(name, ())
            if parent_address(slot.address) == parent
        )
        return max(numbers, default=0)

    def find(self, request: Request) -> Match | None:
        """Return the outcome that answers this call, without using it up; None at a frontier."""
        index = self._index(request.spec)
        key = _key_of(request)
        return (
            self._same_here(index, key, request)
            or self._same_elsewhere(index, key, request)
            or self._within_tolerance(request)
            or self._next_reply(request)
        )

    def last_used(self, request: Request) -> Call | None:
        """Return the last recorded call that equals this one: what a polled tool goes on answering."""
        here = self._index(request.spec).here.get((request.parent, _key_of(request)))
        return here[-1][1] if here else None

    def use(self, match: Match) -> None:
        """Hand the slot out, and with it everything that was recorded inside that call."""
        match.slot.is_used = True
        match.slot.is_moved = match.how == "moved"
        inside = match.slot.address + "/"
        for slot in self._slots.values() if match.call.children else ():
            if slot.address.startswith(inside):
                slot.is_used = True

    def unused(self) -> list[Call]:
        """Return the recorded calls that were not asked for, the outermost only, in recorded order."""
        result: list[Call] = []
        for slot in self._slots.values():
            if not slot.is_used and not any(slot.address.startswith(call.address + "/") for call in result):
                result.append(slot.recorded)
        return result

    def nearest(self, request: Request, limit: int = 3) -> list[Call]:
        """Return the recorded calls that look most like this one: same name first, then same arguments."""
        key = _key_of(request)
        named = self._names.get(request.spec.name, [])

        def distance(slot: Slot) -> tuple[bool, int]:
            recorded = slot.newest.input
            differing = sum(recorded.get(k) != v for k, v in request.input.items())
            return parent_address(slot.address) != request.parent, differing

        calls = [slot.newest for slot in sorted(named, key=distance)]
        renamed = [
            slot.newest
            for slot in self._slots.values()
            if slot.newest.name != request.spec.name
            and not slot.is_used
            and request.input
            and canonical(self._blank(_identity(request.spec, slot.newest.input))) == key
        ]
        return (calls + renamed)[:limit]

    def _same_here(self, index: _Index, key: bytes, request: Request) -> Match | None:
        for slot, call in index.here.get((request.parent, key), ()):
            if not slot.is_used:
                return Match(slot, call, "exact")
        for slot, call in self._redacted(index, request):
            if parent_address(slot.address) == request.parent:
                return Match(slot, call, "exact")
        return None

    def _same_elsewhere(self, index: _Index, key: bytes, request: Request) -> Match | None:
        recorded_here = index.here.get((request.parent, key), ())
        if recorded_here and not any(slot.is_moved for slot, _ in recorded_here):
            return None
        for slot, call in index.anywhere.get(key, ()):
            if not slot.is_used:
                return Match(slot, call, "moved")
        for slot, call in self._redacted(index, request):
            return Match(slot, call, "moved")
        return None

    def _redacted(self, index: _Index, request: Request) -> Iterator[tuple[Slot, Call]]:
        if not index.redacted:
            return
        now = request.blank(_identity(request.spec, request.input))
        for slot, call, recorded in index.redacted:
            if not slot.is_used and matches(recorded, now):
                yield slot, call

    def _within_tolerance(self, request: Request) -> Match | None:
        if request.rules is None and not _may_drift(request.input):
            return None
        from stepfork._compare import compare

        now = {"input": request.blank(_identity(request.spec, request.input))}
        for slot in self._unused_here(request):
            for call in slot.alternatives:
                recorded = {"input": self._blank(_identity(request.spec, call.input))}
                comparison = compare(recorded, now, request.rules)
                if not comparison.differences and not comparison.truncated:
                    return Match(slot, call, "drift")
        return None

    def _next_reply(self, request: Request) -> Match | None:
        if request.spec.kind != "model":
            return None
        for slot in self._unused_here(request):
            return Match(slot, slot.newest, "stale")
        return None

    def _unused_here(self, request: Request) -> Iterator[Slot]:
        for slot in self._names.get(request.spec.name, ()):
            if not slot.is_used and parent_address(slot.address) == request.parent:
                yield slot

    def _index(self, spec: Spec) -> _Index:
        known = self._indexes.get(id(spec))
        if known is not None:
            return known[1]
        index = _Index()
        # The spec is kept beside its index so that its id stays its own.
        self._indexes[id(spec)] = spec, index
        for slot in self._names.get(spec.name, ()):
            for call in slot.alternatives:
                identity = self._blank(_identity(spec, call.input))
                key = canonical(identity)
                index.here[parent_address(slot.address), key].append((slot, call))
                index.anywhere[key].append((slot, call))
                if has_redaction(identity):
                    index.redacted.append((slot, call, identity))
        return index


def _key_of(request: Request) -> bytes:
    return canonical(request.blank(_identity(request.spec, request.input)))


def _identity(spec: Spec, input: dict[str, Plain]) -> dict[str, Plain]:
    """Return the arguments that identify a call, a parameter newer than the recording with its default."""
    identity = {**spec.defaults, **input}
    if spec.options.match is None:
        return identity
    return {name: identity[name] for name in spec.options.match if name in identity}


def _may_drift(plain: Plain) -> bool:
    """Whether the default tolerance has anything to do here: floats, or JSON in a text."""
    if isinstance(plain, float):
        return True
    if isinstance(plain, str):
        return plain[:1] in ("{", "[")
    if isinstance(plain, list):
        return any(map(_may_drift, plain))
    if isinstance(plain, dict):
        return any(map(_may_drift, plain.values()))
    return False
