"""Recorded calls of one function, side by side, found by what identifies a call to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from stepfork._calls import parent_address
from stepfork._codec import canonical
from stepfork._plain import SET_TAGS
from stepfork._redact import has_redaction, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepfork._calls import Call, Plain
    from stepfork._replay.matching import Request
    from stepfork._spec import Spec


@dataclass(slots=True, eq=False)
class Slot:
    """One recorded call, with the calls of extensions that stand for it since."""

    address: str
    alternatives: list[Call]
    is_used: bool = False

    @property
    def parent(self) -> str:
        """The address of the caller."""
        return parent_address(self.address)

    @property
    def newest(self) -> Call:
        """The reply that stands for this call."""
        return self.alternatives[-1]

    @property
    def recorded(self) -> Call:
        """The call as it was first recorded."""
        return self.alternatives[0]


def identity_of(spec: Spec, input: dict[str, Plain]) -> dict[str, Plain]:
    """Return the arguments that identify a call, a parameter newer than the recording with its default."""
    identity = {**spec.defaults, **input}
    if spec.options.match is None:
        return identity
    return {name: identity[name] for name in spec.options.match if name in identity}


class Entry:
    """A recorded call in its slot, as one function sees it; nothing is worked out before it is needed."""

    def __init__(self, slot: Slot, call: Call, spec: Spec, blank: Callable[[Plain], Plain]) -> None:
        self.slot = slot
        self.call = call
        self._spec = spec
        self._blank = blank

    @property
    def _identity(self) -> dict[str, Plain]:
        return identity_of(self._spec, self.call.input)

    @cached_property
    def raw_key(self) -> bytes:
        """What identifies the call, made ids and all."""
        return canonical(self._identity)

    @cached_property
    def blanked(self) -> Plain:
        """The identifying arguments without the ids that the recorded code made."""
        return self._blank(self._identity)

    @cached_property
    def key(self) -> bytes:
        """What identifies the call whatever ids the code made."""
        return canonical(self.blanked)


class _Index:
    """Entries by a key, in recorded order; of one slot's entries with one key the newest counts."""

    def __init__(self, entries: list[Entry], key: Callable[[Entry], bytes]) -> None:
        self._equal: dict[bytes, list[Entry]] = {}
        self._first: dict[bytes, int] = {}
        for entry in entries:
            equal = self._equal.setdefault(key(entry), [])
            if equal and equal[-1].slot is entry.slot:
                equal[-1] = entry
            else:
                equal.append(entry)

    def next(self, key: bytes) -> Entry | None:
        """Return the first unused one. Those in front of it are never looked at again."""
        equal = self._equal.get(key, ())
        position = self._first.get(key, 0)
        while position < len(equal) and equal[position].slot.is_used:
            position += 1
        self._first[key] = position
        return equal[position] if position < len(equal) else None

    def unused(self, key: bytes) -> Iterator[Entry]:
        """Yield every unused one."""
        first = self.next(key)
        if first is not None:
            yield from (e for e in self._equal[key][self._first[key] :] if not e.slot.is_used)

    def last(self, key: bytes) -> Entry | None:
        """Return the last one, used or not."""
        equal = self._equal.get(key)
        return equal[-1] if equal else None


class Shelf:
    """Recorded calls in recorded order, the alternatives of a slot one after the other."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self._position = 0

    @cached_property
    def _raw(self) -> _Index:
        return _Index(self._entries, lambda entry: entry.raw_key)

    @cached_property
    def _blanked(self) -> _Index:
        return _Index(self._entries, lambda entry: entry.key)

    @cached_property
    def _skeletons(self) -> _Index:
        return _Index(self._entries, lambda entry: canonical(_skeleton(entry.blanked)))

    @cached_property
    def _redacted(self) -> list[Entry]:
        return [entry for entry in self._entries if has_redaction(entry.blanked)]

    def same(self, request: Request) -> Entry | None:
        """Return an unused call with the same arguments: to the letter, else but for made ids or secrets."""
        found = self._raw.next(request.raw_key) or self._blanked.next(request.key)
        if found is None and self._redacted:
            unused = (entry for entry in self._redacted if not entry.slot.is_used)
            found = next((entry for entry in unused if matches(entry.blanked, request.blanked)), None)
        return found

    def last(self, request: Request) -> Call | None:
        """Return the last call with the same arguments, used or not."""
        found = self._blanked.last(request.key)
        return found.call if found else None

    def holds(self, request: Request) -> bool:
        """Whether the same call was recorded here, used or not."""
        if self._blanked.last(request.key) is not None:
            return True
        return any(matches(entry.blanked, request.blanked) for entry in self._redacted)

    def near(self, request: Request) -> Entry | None:
        """Return an unused call whose arguments are equal within tolerance."""
        skeleton = canonical(_skeleton(request.blanked))
        if request.rules is not None:
            candidates = self._unused()
        elif skeleton != request.key:
            candidates = self._skeletons.unused(skeleton)
        else:  # nothing in it that could drift
            return None
        from stepfork._compare.compare import compare

        now = {"input": request.blanked}
        for entry in candidates:
            comparison = compare({"input": entry.blanked}, now, request.rules)
            if comparison.same:
                return entry
        return None

    def first_unused(self) -> Slot | None:
        """Return the first slot that was not handed out."""
        return next((entry.slot for entry in self._unused()), None)

    def _unused(self) -> Iterator[Entry]:
        while self._position < len(self._entries) and self._entries[self._position].slot.is_used:
            self._position += 1
        yield from (entry for entry in self._entries[self._position :] if not entry.slot.is_used)


def _skeleton(plain: Plain) -> Plain:
    """Leave out what the default tolerance may forgive: digits of floats, the spelling of JSON in a text."""
    if isinstance(plain, float):
        return "<float>"
    if isinstance(plain, str):
        return "<json>" if plain.lstrip()[:1] in ("{", "[") else plain
    if isinstance(plain, list):
        return [_skeleton(part) for part in plain]
    if isinstance(plain, dict):
        parts = {key: _skeleton(part) for key, part in plain.items()}
        return {key: sorted(part, key=canonical) if key in SET_TAGS else part for key, part in parts.items()}
    return plain
