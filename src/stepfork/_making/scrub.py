"""Counts the personal data of a run, and replaces what came to the agent from outside.

What the agent's own code said first (an address in its prompt) is left: it stands in the code, and a
replay says it again.
"""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

from msgspec import structs

from stepfork._calls import Criterion, parent_address
from stepfork._events import (
    CallEnded,
    CallStarted,
    FactsFound,
    ItemYielded,
    RunMarked,
    decode_line,
    redacted,
)
from stepfork._making.personal import PLURALS, find, replacement
from stepfork._making.streamed import Pass, Streams
from stepfork._paths import blobs_dir
from stepfork._redact.match import unzipped
from stepfork._redact.names import Names
from stepfork._redact.walk import Walk
from stepfork._repeats import Expander

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stepfork._calls import Plain
    from stepfork._events import Event
    from stepfork._making.personal import Found, Kind


class Personal:
    """The personal data of one run, each with its replacement."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._outside: dict[str, tuple[Kind, int]] = {}
        self._own: dict[str, Kind] = {}
        self._sites: dict[str, int] = {}
        """The domains of e-mail addresses, numbered."""
        self._written: dict[str, Found] = {}
        """The ways in which numbers were written."""
        self._pattern: re.Pattern[str] | None = None

    @property
    def outside(self) -> dict[str, int]:
        """How many different ones of each kind came from outside."""
        return _counted([kind for kind, _ in self._outside.values()])

    @property
    def own(self) -> dict[str, int]:
        """How many different ones of each kind the agent's code said before anybody else did."""
        return _counted(list(self._own.values()))

    def note(self, text: str, *, is_outside: bool) -> None:
        """Remember where what stands in a text comes from; the first time counts."""
        for found in find(text):
            if found.identity not in self._outside and found.identity not in self._own:
                self._add(found, is_outside=is_outside)
            if found.identity in self._outside and found.kind != "e-mail address":
                self._written |= {text[found.start : found.end]: found, found.identity: found}
                self._pattern = None

    def _add(self, found: Found, *, is_outside: bool) -> None:
        if not is_outside:
            self._own[found.identity] = found.kind
            return
        self._outside[found.identity] = found.kind, self.outside.get(found.kind, 0) + 1
        if found.kind == "e-mail address":
            self._sites.setdefault(_site_of(found), len(self._sites) + 1)

    def find(self, text: str) -> list[Found]:
        """Return where something stands that came from outside, in order."""
        found = [each for each in find(text) if each.identity in self._outside]
        taken = {position for each in found for position in range(each.start, each.end)}
        for match in self._numbers().finditer(text) if self._written else ():
            if taken.isdisjoint(range(*match.span())):
                found.append(self._written[match[0]]._replace(start=match.start(), end=match.end()))
        return sorted(found)

    def _numbers(self) -> re.Pattern[str]:
        """Return what finds the numbers that are known also where they are glued to a word."""
        if self._pattern is None:
            known = "|".join(map(re.escape, sorted(self._written, key=len, reverse=True)))
            self._pattern = re.compile(f"(?<![0-9])(?:{known})(?![0-9])")
        return self._pattern

    def text(self, text: str) -> str:
        """Return a text with what came from outside replaced; the same object if there is nothing."""
        parts, position = [], 0
        for found in self.find(text):
            parts += [text[position : found.start], self._new(found, text)]
            position = found.end
        return "".join((*parts, text[position:])) if parts else text

    def _new(self, found: Found, text: str) -> str:
        _, number = self._outside[found.identity]
        return replacement(found, text, number, self._sites.get(_site_of(found), 0))

    def chunks(self) -> Pass:
        """Return what replaces, in the chunks of the run, what goes over several of them."""
        return Pass(self._streams, self.find, self._new)

    def scrubbed(self, event: Event) -> Event:
        """Return an event with what came from outside replaced wherever it stands, in addresses too."""
        event = redacted(event, self._plain)
        match event:
            case RunMarked(criterion=Criterion() as criterion):
                return structs.replace(event, criterion=self.criterion(criterion))
            case FactsFound():
                return structs.replace(event, texts=list(map(self.text, event.texts)))
            case _:
                return event

    def criterion(self, criterion: Criterion) -> Criterion:
        """Return a criterion that asks of the scrubbed run what it asked of the run."""
        return Criterion(
            self._plain(criterion.expect),
            tuple(map(self.text, criterion.never)),
            {self.text(tool): times for tool, times in criterion.times.items()},
        )

    def _plain(self, plain: Plain) -> Plain:
        return _Texts(self.text).run(plain)


def _site_of(found: Found) -> str:
    return found.identity.rpartition("@")[2]


def _counted(kinds: list[Kind]) -> dict[str, int]:
    return {kind: kinds.count(kind) for kind in PLURALS if kind in kinds}


def in_words(counts: Mapping[str, int]) -> str:
    """Return ``3 e-mail addresses, 1 card number``."""
    return ", ".join(
        f"{counts[kind]} {kind if counts[kind] == 1 else plural}"
        for kind, plural in PLURALS.items()
        if counts.get(kind)
    )


def look_for_personal_data(journal: Path) -> Personal:
    """Return the personal data of a run; raises ValueError or OSError where a payload cannot be read."""
    *lines, _torn = journal.read_bytes().split(b"\n")
    streams = Streams.of(lines, blobs_dir(journal))
    personal, origin = Personal(streams), _Origin()
    chunks = Pass(streams, find, lambda _found, _text: "")
    known: set[str] = set()
    is_outside = False

    def note(text: str) -> str:
        if text not in known:  # a conversation repeats all that was said before
            known.add(text)
            personal.note(text, is_outside=is_outside)
        return text

    expander = Expander(blobs_dir(journal))
    for line in lines:
        event = expander.whole(decode_line(line))
        is_outside = origin.is_outside(event)
        if isinstance(event, ItemYielded):
            event, ended = chunks.next(event)
            for text in ended:
                note(text)
        for name in (getattr(event, "name", None), getattr(event, "call", None)):
            note(name or "")
        redacted(event, _Texts(note).run)
    return personal


class _Origin:
    """Tells what came from outside from what the agent's own code made."""

    def __init__(self) -> None:
        self._has_begun = False
        self._outside: set[str] = set()
        """The calls of tools and models, and what was called below them: a replay runs none of it."""

    def is_outside(self, event: Event) -> bool:
        match event:
            case CallStarted():
                is_root, self._has_begun = not self._has_begun, True
                is_below = parent_address(event.call) in self._outside
                if is_below or event.kind != "step":
                    self._outside.add(event.call)
                return is_root or is_below
            case ItemYielded() | CallEnded():
                return event.call in self._outside
            case _:
                return True


class _NoSecrets(Names):
    def secret(self, key: str) -> str | None:
        return None


class _Texts(Walk):
    """Changes every text of a value, and the numbers that are long enough to be that of a card."""

    def __init__(self, change: Callable[[str], str]) -> None:
        super().__init__(_Changer(change), _NoSecrets())
        self._change = change

    def _visit(self, value: Plain, label: str) -> Plain:
        if type(value) is int and 10**13 <= value < 10**16:
            return int(self._change(str(value)))
        return super()._visit(value, label)


class _Changer:
    """What a walk asks to rewrite texts and bytes."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self.text = change

    def content(self, data: bytes) -> bytes:
        """Return binary data with the texts in it changed."""
        inside = unzipped(data)
        if inside is not None:
            changed = self.content(inside)
            return data if changed == inside else gzip.compress(changed, mtime=0)
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def hide(self, secret: bytes, label: str) -> bytes:
        """Nothing is hidden by its name here."""
        return secret
