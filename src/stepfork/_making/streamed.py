"""Personal data that a stream brings in pieces: ``" anna"``, ``".berg@"``, ``"fjord.no"``.

The texts that the chunks of one call have in one and the same place are looked at joined together, as an
agent joins them. Streams of whole values (rows, lines) are joined by nobody: where a chunk has something by
itself that would grow in the joined text, what the run says elsewhere decides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from stepfork._events import ItemYielded, decode_line
from stepfork._journal import in_place
from stepfork._redact.stream import put, texts_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepfork._making.personal import Found

    Find = Callable[[str], list[Found]]

_Place = tuple[str, tuple[Any, ...]]
"""The address of a call, and where in its chunks a text stands."""


class Streams:
    """The texts of the streams of one run."""

    def __init__(self) -> None:
        self._places: dict[_Place, dict[int, str]] = {}
        """By the number of the chunk."""
        self._elsewhere = ""

    @classmethod
    def of(cls, lines: list[bytes], blobs: Path) -> Streams:
        """Read them from the lines of a journal; ValueError or OSError where a payload is not there."""
        streams, numbers = cls(), Counter[str]()
        others = []
        for line in lines:
            event = decode_line(line)
            if not isinstance(event, ItemYielded):
                others.append(line)
                continue
            for path, found in texts_in(in_place(blobs, event.value)):
                streams._places.setdefault((event.call, path), {})[numbers[event.call]] = _decoded(found)
            numbers[event.call] += 1
        if streams._places:
            streams._elsewhere = b"\n".join(others).decode("utf-8", "replace").lower()
        return streams

    def over_chunks(self, find: Find) -> Iterator[tuple[_Place, _Joined, list[Found]]]:
        """Yield the places where something goes over several chunks, and what does, in order."""
        for place, pieces in self._places.items():
            joined = _Joined(pieces)
            spans = [span for span in find(joined.text) if self._goes_over(span, joined, find)]
            if spans:
                yield place, joined, spans

    def _goes_over(self, span: Found, joined: _Joined, find: Find) -> bool:
        touched = joined.touched(span)
        if len(touched) == 1:
            return False
        if self._is_said(joined.text[span.start : span.end]):
            return True
        for index in touched:
            start = joined.starts[index]
            for alone in find(joined.pieces[index]):
                is_apart = start + alone.end <= span.start or start + alone.start >= span.end
                is_cut = start + alone.start < span.start or start + alone.end > span.end
                said = joined.pieces[index][alone.start : alone.end]
                if not is_apart and (is_cut or self._is_said(said)):
                    return False
        return True

    def _is_said(self, text: str) -> bool:
        return text.lower() in self._elsewhere


class _Joined:
    """The text of one place."""

    def __init__(self, pieces: dict[int, str]) -> None:
        self.numbers = list(pieces)
        """Of the chunks."""
        self.pieces = list(pieces.values())
        self.text = "".join(self.pieces)
        self.starts = list(accumulate(map(len, self.pieces), initial=0))

    def touched(self, span: Found) -> range:
        """Return the indexes of the pieces over which a span goes."""
        return range(bisect_right(self.starts, span.start) - 1, bisect_left(self.starts, span.end))

    def replaced(self, spans: list[Found], new: Callable[[Found, str], str]) -> dict[int, str]:
        """Return the pieces that change, by their index: what is new stands where its span begins."""
        changed: dict[int, str] = {}
        for span in reversed(spans):
            first, *_ = touched = self.touched(span)
            for index in touched:
                piece = changed.get(index, self.pieces[index])
                start = max(span.start - self.starts[index], 0)
                end = min(span.end - self.starts[index], len(self.pieces[index]))
                instead = new(span, self.text) if index == first else ""
                changed[index] = piece[:start] + instead + piece[end:]
        return changed


class Passed(NamedTuple):
    """A chunk that was rewritten."""

    item: ItemYielded
    ended: list[str]
    """What began in an earlier chunk and is whole with this one."""


class Pass:
    """One pass over the chunks of a run, which are handed in in their order.

    ``find`` tells what is looked for, and ``new`` what is to stand for it, given the joined text.
    """

    def __init__(self, streams: Streams, find: Find, new: Callable[[Found, str], str]) -> None:
        self._numbers = Counter[str]()
        self._changed: dict[tuple[str, int], list[tuple[tuple[Any, ...], str]]] = {}
        self._ended: dict[tuple[str, int], list[str]] = {}
        for (call, path), joined, spans in streams.over_chunks(find):
            for index, text in joined.replaced(spans, new).items():
                self._changed.setdefault((call, joined.numbers[index]), []).append((path, text))
            for span in spans:
                chunk = call, joined.numbers[joined.touched(span)[-1]]
                self._ended.setdefault(chunk, []).append(joined.text[span.start : span.end])

    def next(self, item: ItemYielded) -> Passed:
        """Return a chunk with what goes over several replaced; the rest of it stays."""
        chunk = item.call, self._numbers[item.call]
        self._numbers[item.call] += 1
        holder, old = [item.value], dict(texts_in(item.value))
        for path, text in self._changed.get(chunk, ()):
            is_bytes = isinstance(old[path], bytes)
            put(holder, path, text.encode("utf-8", "surrogateescape") if is_bytes else text)
        return Passed(structs.replace(item, value=holder[0]), self._ended.get(chunk, []))


def _decoded(found: str | bytes) -> str:
    return found if isinstance(found, str) else found.decode("utf-8", "surrogateescape")
