"""Secrets leave a value before its first byte is written, and a replay accepts whatever stands there then.

:class:`Redactor` finds them by name, by shape and by value. :meth:`Redactor.scan` says of JSON bytes whether
looking is worth while; :func:`matches` compares a recorded value with one of a replay.
"""

from __future__ import annotations

import gzip
import re
import threading
from hashlib import blake2b
from operator import itemgetter
from os import urandom
from typing import TYPE_CHECKING

import ahocorasick_rs

from stepfork._redact import placeholder as _placeholder
from stepfork._redact.environ import environment_rules
from stepfork._redact.match import BYTES_IN_JSON, has_redaction, matches, raw, unzipped
from stepfork._redact.names import Names
from stepfork._redact.placeholder import PLACEHOLDER, SCHEME
from stepfork._redact.secrets import Span, shape_rules
from stepfork._redact.table import prefix_of
from stepfork._redact.walk import Walk
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepfork._calls import Plain
    from stepfork._redact.secrets import Kind, Rule

__all__ = ["Redactor", "has_redaction", "matches"]

_Range = tuple[int, int]
_SHORTEST_TEXT = 6
_MOST_PASSES = 8
_SCHEME = re.compile(SCHEME.encode())
_PLACEHOLDER = re.compile(PLACEHOLDER)


class Redactor:
    """Replaces secrets by placeholders that are stable as long as this object lives: one for each recording.

    ``environ``: where to look for secret values. ``keys``: names whose values are secret too. ``patterns``:
    regular expressions; the first group, or the whole match, is secret. ``custom``: is given every text and
    key after the rules were applied and returns what to write instead. May be used from several threads.

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
        self._names = Names(keys)
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._custom = custom
        self._numbers: dict[bytes, int] = {}
        self._salt = urandom(16)
        self._lock = threading.Lock()
        rules = [*shape_rules(), *environment_rules(environ)]
        table = _indexed([*rules, self._names.rule()])
        probed = _indexed([*rules, *self._names.probe_rules()])
        self._finds = [table.get(trigger, ()) for trigger in probed]
        self._probes = list(probed.values())
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            probed, implementation=ahocorasick_rs.Implementation.DFA
        )

    def scan(self, data: bytes) -> bool:
        """Whether these JSON bytes may hold a secret; False is final. A few microseconds for 0.9 KB."""
        if self._custom is not None or self._patterns:
            return True
        return self._may_hold(data) or self._scan_bytes(data)

    def redact(self, plain: Plain) -> Plain:
        """Return ``plain`` with its secrets replaced; the same object if it has none.

        Whatever a custom redactor raises comes out of here: what could not be redacted must not be written.
        """
        walk = Walk(self, self._names)
        result = walk.run(plain)
        return result if walk.changed else plain

    def text(self, text: str) -> str:
        """Return a text with its secrets replaced; the same object if it has none."""
        if len(text) >= _SHORTEST_TEXT:
            data = text.encode("utf-8", "surrogatepass")
            redacted = self._rewritten(data)
            text = text if redacted is data else redacted.decode("utf-8", "surrogatepass")
        for number, pattern in enumerate(self._patterns, 1):
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
        return self._rewrite(secret, [whole, *self._spans(secret)])

    def _may_hold(self, data: bytes) -> bool:
        for index, start, end in self._automaton.find_matches_as_indexes(data.lower(), overlapping=True):
            for probe in self._probes[index]:
                if probe(data, start, end) is not None:
                    return True
        return False

    def _scan_bytes(self, data: bytes) -> bool:
        return b'"$byte' in data and any(self._holds(raw(found[1])) for found in BYTES_IN_JSON.finditer(data))

    def _holds(self, data: bytes) -> bool:
        inside = unzipped(data)
        return bool(self._spans(data)) if inside is None else self._holds(inside)

    def _spans(self, data: bytes) -> list[Span]:
        """Find the secrets in a text or in binary data; they may overlap."""
        spans: list[Span] = []
        met = self._automaton.find_matches_as_indexes(data.lower(), overlapping=True)
        if not met:
            return spans
        first = last = 0
        for index, start, end in sorted(met, key=itemgetter(1)):
            if first < start and end <= last:  # inside what is hidden already
                continue
            for find in self._finds[index]:
                span = find(data, start, end)
                if span is not None:
                    spans.append(span)
                    if span.end > last:
                        first, last = span.start, span.end
        return spans

    def _rewritten(self, data: bytes) -> bytes:
        # What was part of a longer word may look like a secret once that has gone.
        for _ in range(_MOST_PASSES):
            if not (spans := self._spans(data)):
                break
            data = self._rewrite(data, spans)
        return data

    def _rewrite(self, data: bytes, spans: list[Span]) -> bytes:
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
            number = self._numbers.setdefault(digest, len(self._numbers) + 1)
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
        return replaced


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        what = f"the pattern {pattern!r} is no regular expression: {error}"
        raise OptionError(what, pattern=pattern) from None


def _indexed(rules: Iterable[Rule]) -> dict[bytes, list[Callable[[bytes, int, int], Span | None]]]:
    """Return the rules by trigger."""
    table: dict[bytes, list[Callable[[bytes, int, int], Span | None]]] = {}
    for rule in rules:
        for trigger in rule.triggers:
            table.setdefault(trigger, []).append(rule.find)
    return table


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
