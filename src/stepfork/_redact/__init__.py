"""Secrets leave a value before its first byte is written, and a replay accepts whatever stands there then.

:class:`Redactor` finds them by name, by shape and by value. :meth:`Redactor.scan` says of JSON bytes whether
looking is worth while; :func:`matches` compares a recorded value with one of a replay.
"""

from __future__ import annotations

import gzip
import re
import threading
from hashlib import blake2b
from os import urandom
from typing import TYPE_CHECKING

from stepfork._fork import renew_in_children
from stepfork._redact import placeholder as _placeholder
from stepfork._redact.match import has_redaction, matches, unzipped
from stepfork._redact.placeholder import MARK, MASK, PLACEHOLDER, SCHEME
from stepfork._redact.rules import rules_of
from stepfork._redact.secrets import Span
from stepfork._redact.stream import Stream
from stepfork._redact.table import prefix_of
from stepfork._redact.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepfork._calls import Plain
    from stepfork._redact.secrets import Kind

__all__ = ["Redactor", "Stream", "has_redaction", "matches"]

_Range = tuple[int, int]
_SHORTEST_TEXT = 6
_MOST_PASSES = 8
_SCHEME = re.compile(SCHEME.encode())
_PLACEHOLDER = re.compile(PLACEHOLDER)
_NUMBER = re.compile(rb"\[redacted-([0-9]{1,9})\]")


class Redactor:
    """Replaces secrets by placeholders that are stable as long as this object lives: one for each recording.

    ``environ``: where to look for secret values. ``keys``: names whose values are secret too. ``patterns``:
    regular expressions; the first group, or the whole match, is secret. ``custom``: is given every text and
    key after the rules were applied and returns what to write instead; what it puts in brackets, or three
    stars, becomes a placeholder of ours. May be used from several threads.

    Raises :class:`OptionError` for a pattern that does not compile.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        keys: Iterable[str] = (),
        patterns: Iterable[str] = (),
        custom: Callable[[str], str] | None = None,
    ) -> None:
        self.found: dict[str, Kind] = {}
        """What fired: rules, names and environment variables -> what kind each is. Never a value."""
        self._taken = 0
        """The highest number of a placeholder, of ours or in what was seen."""
        self._rules = rules_of(environ, keys, patterns)
        self._custom = custom
        self._numbers: dict[bytes, int] = {}
        self._salt = urandom(16)
        self._lock = threading.RLock()  # a signal handler may call a tool in the middle
        renew_in_children(self, "_lock")  # a replay refuses calls in a child too
        self._always = custom is not None or bool(self._rules.patterns)

    def scan(self, data: bytes) -> bool:
        """Whether these JSON bytes may hold a secret; False is final. A few microseconds for 0.9 KB."""
        return self._always or self._rules.may_hold(data)

    def redact(self, plain: Plain) -> Plain:
        """Return ``plain`` with its secrets replaced; the same object if it has none.

        Whatever a custom redactor raises comes out of here: what could not be redacted must not be written.
        """
        walk = Walk(self, self._rules.names)
        result = walk.run(plain)
        return result if walk.changed else plain

    def text(self, text: str) -> str:
        """Return a text with its secrets replaced; the same object if it has none."""
        if len(text) >= _SHORTEST_TEXT:
            data = text.encode("utf-8", "surrogatepass")
            redacted = self._rewritten(data)
            text = text if redacted is data else redacted.decode("utf-8", "surrogatepass")
        for number, pattern in enumerate(self._rules.patterns, 1):
            text = self._by_pattern(f"pattern {number}", pattern, text)
        return text if self._custom is None else self._by_custom(self._custom, text)

    def content(self, data: bytes) -> bytes:
        """Return binary data, compressed with gzip perhaps, with its secrets replaced; itself if none."""
        if (inside := unzipped(data)) is not None:
            redacted = self.content(inside)
            return data if redacted is inside else gzip.compress(redacted, mtime=0)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._rewritten(data)
        redacted_text = self.text(text)
        return data if redacted_text is text else redacted_text.encode("utf-8", "surrogatepass")

    def hide(self, secret: bytes, label: str) -> bytes:
        """Return what stands for a value whose name says that it is secret; an authorization scheme stays."""
        if not secret or _placeholder.is_whole(secret):
            return secret
        scheme = _SCHEME.match(secret)
        start = scheme.end() if scheme and scheme.end() < len(secret) else 0
        prefix = prefix_of(secret[start:].decode("utf-8", "replace"))
        whole = Span(start, len(secret), label, "name", prefix)
        return self.rewrite(secret, [whole, *self._rules.spans(secret)])

    def saw(self, data: bytes) -> None:
        """Never give a number of a placeholder in these JSON bytes to another secret."""
        if MARK in data:
            with self._lock:
                self._taken = max(self._taken, 0, *map(int, _NUMBER.findall(data)))

    def stream(self) -> Stream:
        """Return what sees to the chunks of one stream, before each of them is redacted by itself."""
        return Stream(self, self._rules)

    def _rewritten(self, data: bytes) -> bytes:
        # What was part of a longer word may look like a secret once that has gone.
        for _ in range(_MOST_PASSES):
            if not (spans := self._rules.spans(data)):
                break
            data = self.rewrite(data, spans)
        return data

    def rewrite(self, data: bytes, spans: list[Span]) -> bytes:
        """Return the data with a placeholder for each span."""
        if not spans:
            return data
        parts, position = [], 0
        for span in _united(spans):
            secret = data[span.start : span.end]
            parts += [data[position : span.start], span.quote, self._placeholder(secret, span), span.quote]
            position = span.end
        with self._lock:
            self.found.update((span.label, span.kind) for span in spans)
        return b"".join((*parts, data[position:]))

    def _placeholder(self, secret: bytes, span: Span) -> bytes:
        # Digests, so that no list of the run's secrets lies in memory.
        digest = blake2b(span.identity or secret, digest_size=16, key=self._salt).digest()
        with self._lock:
            number = self._numbers.get(digest)
            if number is None:
                self._taken = self._numbers[digest] = number = self._taken + 1
        return _placeholder.make(number, span.prefix, len(secret.decode("utf-8", "replace")))

    def _by_pattern(self, label: str, pattern: re.Pattern[str], text: str) -> str:
        group = 1 if pattern.groups else 0
        taken = [found.span() for found in _PLACEHOLDER.finditer(text)]
        spans = list(_clear_of([found.span(group) for found in pattern.finditer(text)], taken))
        parts, position = [], 0
        for start, end in spans:
            secret = text[start:end].encode("utf-8", "surrogatepass")
            mark = self._placeholder(secret, Span(start, end, label, "pattern"))
            parts += [text[position:start], mark.decode()]
            position = end
        if not spans:
            return text
        self.found[label] = "pattern"
        return "".join((*parts, text[position:]))

    def _by_custom(self, custom: Callable[[str], str], text: str) -> str:
        replaced = custom(text)
        if not isinstance(replaced, str):
            raise TypeError(f"the redactor {custom!r} returned {type(replaced).__name__}, not str")
        if replaced == text:
            return text
        self.found["custom"] = "custom"
        return self._with_placeholders(text, replaced)

    def _with_placeholders(self, text: str, replaced: str) -> str:
        """Turn what a custom redactor wrote to hide something, ``<NAME>``, into placeholders of ours.

        In a replay anything may stand there. Its other words, made-up names say, are text like any other.
        """
        secret = text.encode("utf-8", "surrogatepass")
        theirs = _PLACEHOLDER.sub("", text)
        marks = (mark for mark in MASK.finditer(replaced) if not mark["ours"] and mark[0] not in theirs)
        parts, position = [], 0
        for number, mark in enumerate(marks):
            place = Span(0, 0, "custom", "custom", identity=b"%d:%s" % (number, secret))
            parts += [replaced[position : mark.start()], self._placeholder(mark[0].encode(), place).decode()]
            position = mark.end()
        return "".join((*parts, replaced[position:]))


def _united(spans: list[Span]) -> list[Span]:
    """Merge spans that overlap, so that no end of a secret is left standing."""
    whole: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        last = whole[-1] if whole else None
        if last is None or span.start >= last.end:
            whole.append(span)
            continue
        prefix = max(last.prefix, span.prefix, key=len) if span.start == last.start else last.prefix
        identity = last.identity
        if (span.start, span.end) == (last.start, last.end):
            identity = identity or span.identity
        elif span.end > last.end:
            identity = None
        whole[-1] = last._replace(end=max(last.end, span.end), prefix=prefix, identity=identity)
    return whole


def _clear_of(spans: Sequence[_Range], taken: Sequence[_Range]) -> Iterable[_Range]:
    """Yield those spans that touch none that is taken; both are in order."""
    position = 0
    for start, end in spans:
        while position < len(taken) and taken[position][1] <= start:
            position += 1
        if start < end and (position == len(taken) or end <= taken[position][0]):
            yield start, end
