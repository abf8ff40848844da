"""Secrets that a stream brings in pieces: ``"sk-ant-ap"``, then ``"i03-..."``.

A chunk is written when it comes and cannot be called back. So each text of a stream is looked at behind
what came before it in the same place, and what may be the beginning of a secret is hidden from its eighth
character on, before the rest is there. Put together, the chunks on disk show fewer characters of a secret
than would be one.
"""

from __future__ import annotations

import copy
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepfork._plain import tag
from stepfork._redact.match import BYTES_TAGS, based, raw
from stepfork._redact.walk import FIXED_TAGS, NAME_TAGS, SCALAR_TAGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Plain
    from stepfork._redact.rules import Rules
    from stepfork._redact.secrets import Span

__all__ = ["Stream", "put", "texts_in"]

_KEPT: Final = 128
_MOST_KEPT: Final = 16 * 1024
_MOST_PLACES: Final = 64
"""A chunk with more texts than this is a row of a table, not a piece of a text."""

_BETWEEN: Final = b" \t\r\n\\nrt"
"""Line ends, in JSON too: a private key goes on behind them."""

_Path = tuple[Any, ...]


class _Rewriter(Protocol):
    def rewrite(self, data: bytes, spans: list[Span]) -> bytes: ...


class Stream:
    """One stream of one call; its items are handed in one after the other."""

    def __init__(self, rewriter: _Rewriter, rules: Rules) -> None:
        self._rewriter = rewriter
        self._rules = rules
        self._texts: dict[_Path, _Text] = {}

    def item(self, plain: Plain) -> Plain:
        """Return a chunk without the pieces of secrets that began in an earlier one or end in a later.

        The same object if there are none. What is secret in the chunk by itself is found as in any value.
        """
        holder = [plain]
        for path, found in texts_in(plain):
            text = self._texts.get(path)
            if text is None:
                if len(self._texts) >= _MOST_PLACES:
                    continue
                text = self._texts[path] = _Text(self._rewriter, self._rules)
            new = text.next(found)
            if new is not found:
                put(holder, path, new)
        return holder[0]


class _Text:
    """The text that the chunks of a stream have in one place, as far as it still matters."""

    _numbers = count()

    def __init__(self, rewriter: _Rewriter, rules: Rules) -> None:
        self._rewriter = rewriter
        self._rules = rules
        self._last: str | bytes = ""
        self._before = b""
        self._piece = b""
        """Stands for the secret that is not at its end: all its pieces have one number."""

    def next(self, found: str | bytes) -> str | bytes:
        if found == self._last and len(found) >= 8:  # the id of the stream, its model: no piece of a text
            return found
        self._last = found
        if isinstance(found, bytes):
            return self._next(found)
        piece = found.encode("utf-8", "surrogatepass")
        new = self._next(piece)
        return found if new is piece else new.decode("utf-8", "surrogatepass")

    def _next(self, piece: bytes) -> bytes:
        start = len(self._before)
        data = self._before + piece
        end = len(data)
        spans = self._rules.spans_so_far(data)
        if not spans:
            self._piece = b""
            self._before = data[-_KEPT:]
            return piece
        cut = [self._cut(span, start, end) for span in spans if span.end > start]
        going_on = [span.start for span in spans if not data[span.end :].strip(_BETWEEN)]
        if not going_on:
            self._piece = b""
        # With what stands before a secret: its name, the first line of a private key.
        self._before = data[max(end - _MOST_KEPT, min([*going_on, end]) - _KEPT, 0) :]
        return self._rewriter.rewrite(piece, cut) if cut else piece

    def _cut(self, span: Span, start: int, end: int) -> Span:
        """Return the part of a span that lies in this chunk."""
        if span.start >= start and span.end < end:  # all of it
            return span._replace(start=span.start - start, end=span.end - start)
        self._piece = self._piece or b"piece %d" % next(self._numbers)
        return span._replace(
            start=max(span.start - start, 0),
            end=span.end - start,
            prefix=span.prefix if span.start >= start else "",
            identity=span.identity or self._piece,
            quote=b"",
        )


def texts_in(plain: Plain) -> Iterator[tuple[_Path, str | bytes]]:
    """Yield each text and each bytes of a value with its place; names of classes and numbers are none."""
    left: list[tuple[_Path, Any]] = [((0,), plain)]
    while left:
        path, value = left.pop()
        if type(value) is str:
            yield path, value
        elif type(value) is list:
            left += [((*path, index), part) for index, part in enumerate(value)]
        elif type(value) is dict:
            name = tag(value)
            if name in BYTES_TAGS:
                yield path, raw(value[name])
            elif name not in SCALAR_TAGS and name not in FIXED_TAGS:
                is_class = name in NAME_TAGS
                left += [((*path, key), part) for key, part in value.items() if not is_class or key != name]


def put(holder: list[Any], path: _Path, new: str | bytes) -> None:
    """Put a text in its place; all that holds it is copied."""
    node: Any = holder
    for step in path[:-1]:
        node[step] = copy.copy(node[step])
        node = node[step]
    old = node[path[-1]]
    node[path[-1]] = {**old, str(tag(old)): based(new)} if isinstance(new, bytes) else new
