"""Secrets that were seen in use: what a server was started with, the part of a URL that is as good as a key.

No look tells that they are secret, so they are known by value, in every run of this process from then on:
a client may be connected before the run that uses it begins. A replay alone begins without those that other
runs have seen: what it is compared with was written before they were known.
"""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from stepfork._fork import renew_in_children
from stepfork._redact.environ import is_worth_hiding
from stepfork._redact.search import OVERLAPPING, search_for
from stepfork._redact.secrets import Span
from stepfork._redact.table import prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._redact.search import Search

__all__ = ["InUse", "in_use"]

_MOST: Final = 64
_SHOWN: Final = 8


class _Form(NamedTuple):
    text: bytes
    label: str
    identity: bytes
    prefix: str


class _Known(NamedTuple):
    """What is in use at one time, to be read without a lock."""

    forms: tuple[_Form, ...]
    search: Search | None


class InUse:
    """The newest of them; of more than 64 the oldest are forgotten."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}
        self._of_runs: set[str] = set()
        """Those of them that were seen while a run or a replay went on."""
        self._aside: dict[str, str] = {}
        self._replays = 0
        self._known = _Known((), None)
        self._lock = threading.RLock()
        renew_in_children(self, "_lock")

    def learn(self, secret: str, label: str, *, in_run: bool = False) -> None:
        """Hide this text from now on, unless it is too short to be told from others.

        ``label`` names where it was seen, and tells nothing of it; ``in_run``, whether some run went on.
        """
        if not is_worth_hiding(secret):
            return
        with self._lock:
            is_known = self._secrets.pop(secret, None) is not None
            self._secrets[secret] = label
            if not in_run:
                self._of_runs.discard(secret)
            elif not is_known:
                self._of_runs.add(secret)
            if not is_known:
                self._changed()

    @contextlib.contextmanager
    def without_those_of_other_runs(self) -> Iterator[None]:
        """Know, while a replay goes on, what was seen outside of runs, and what is seen from now on."""
        with self._lock:
            self._replays += 1
            self._aside |= {each: self._secrets.pop(each) for each in self._of_runs & self._secrets.keys()}
            self._of_runs.clear()
            self._changed()
        try:
            yield
        finally:
            with self._lock:
                self._replays -= 1
                if not self._replays:
                    self._of_runs |= self._aside.keys() - self._secrets.keys()
                    self._secrets = self._aside | self._secrets
                    self._aside = {}
                    self._changed()

    def _changed(self) -> None:
        while len(self._secrets) > _MOST:
            del self._secrets[next(iter(self._secrets))]
        forms = tuple(form for each in self._secrets.items() for form in _forms(*each))
        if [form.text for form in forms] != [form.text for form in self._known.forms]:
            search = search_for([form.text for form in forms], is_for_long=False) if forms else None
            self._known = _Known(forms, search)

    def are_in(self, data: bytes) -> bool:
        """Whether one of them stands in these bytes, which may be JSON."""
        search = self._known.search
        return search is not None and bool(search(data, OVERLAPPING))

    def spans(self, data: bytes) -> list[Span]:
        """Find them in a text or in binary data; they may overlap."""
        forms, search = self._known
        met = search(data, OVERLAPPING) if search else ()
        return [_span(forms[index], start, end) for index, start, end in met]

    def spans_so_far(self, data: bytes) -> list[Span]:
        """Find them, and what may be the beginning of one at the end."""
        spans = self.spans(data)
        for form in self._known.forms:
            start = data.find(form.text[:_SHOWN], max(0, len(data) - len(form.text) + 1))
            if start >= 0 and form.text.startswith(data[start:]):
                spans.append(_span(form, start, len(data)))
        return spans


def _forms(secret: str, label: str) -> Iterator[_Form]:
    texts = {secret, repr(secret)[1:-1]}
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate has no URL form
        texts |= {quote(secret), quote(secret, safe="")}
    for _ in range(2):
        texts |= {json.dumps(text, ensure_ascii=ascii_)[1:-1] for text in texts for ascii_ in (True, False)}
    identity = secret.encode("utf-8", "surrogatepass")
    for text in sorted(texts):
        yield _Form(text.encode("utf-8", "surrogatepass"), label, identity, prefix_of(text))


def _span(form: _Form, start: int, end: int) -> Span:
    return Span(start, end, form.label, "environment", form.prefix, form.identity)


in_use: Final = InUse()
