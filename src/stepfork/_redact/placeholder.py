"""What stands in a recording where a secret stood: ``sk-proj-[redacted-1]*****``.

The number tells secrets apart; the prefix and the length are those of the secret. A placeholder is
printable ASCII without quotes or backslashes, so a text that held JSON or a URL still does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepfork._redact.table import SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MARK", "MASK", "PLACEHOLDER", "SCHEME", "is_whole", "literals", "make", "redacted_at", "spans"]

MARK = b"[redacted-"

_PREFIXES = "|".join(f"(?:{shape.prefix})" for shape in SHAPES)
_BARE = r"\[redacted-[0-9]+\]\**"
SCHEME = "(?:(?:[Bb]earer|BEARER|[Bb]asic|BASIC|[Tt]oken|[Aa]pi-?[Kk]ey|[Dd]igest|[Nn]egotiate) +)"
PLACEHOLDER = f"(?:{_PREFIXES})?{_BARE}"
MASK = re.compile(
    rf"(?P<ours>{PLACEHOLDER})"
    r"|\[[\w:. -]+\]|<[\w:. -]+>|\{\{[\w:. -]+\}\}|\*{3,}|[Xx]{3,}|[\u2588\u2022]{3,}"
)
"""What people write to hide a text: ``[EMAIL]``, ``<PERSON 1>``, ``***``; and placeholders of ours."""
_AT = re.compile(PLACEHOLDER.encode())
_WHOLE = re.compile(f"{SCHEME}?{PLACEHOLDER}".encode())
_TAIL = re.compile(_BARE.encode())
# Where JSON held null or a number, it holds a placeholder in quotes: they belong to the span.
_HEAD = re.compile(rf"(?:\\*[\"'])?(?:{_PREFIXES})?\Z".encode())
_QUOTE = re.compile(rb"\\*[\"']")
_LONGEST_HEAD = 40


def make(number: int, prefix: str, length: int) -> bytes:
    """Return the placeholder of the ``number``-th secret, ``length`` characters long where that is enough."""
    return f"{prefix}[redacted-{number}]".ljust(length, "*").encode()


def redacted_at(data: bytes, position: int) -> bool:
    """Whether a placeholder begins here."""
    return MARK in data[position : position + _LONGEST_HEAD] and _AT.match(data, position) is not None


def is_whole(data: bytes) -> bool:
    """Whether there is nothing but one placeholder, behind an authorization scheme perhaps."""
    return MARK in data and _WHOLE.fullmatch(data) is not None


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each placeholder, with its prefix and the quotes around it."""
    position = 0
    while (mark := data.find(MARK, position)) >= 0:
        tail = _TAIL.match(data, mark)
        if tail is None:
            position = mark + 1
            continue
        start, end = _head_of(data, mark, position), tail.end()
        if (quote := _QUOTE.match(data, end)) and _QUOTE.match(data, start):
            end = quote.end()
        yield start, end
        position = end


def _head_of(data: bytes, mark: int, lowest: int) -> int:
    found = _HEAD.search(data, max(lowest, mark - _LONGEST_HEAD), mark)
    return found.start() if found else mark


def literals(data: bytes) -> list[bytes]:
    """Return what stands before, between and behind the placeholders; one part if there is none."""
    parts, position = [], 0
    for start, end in spans(data):
        parts.append(data[position:start])
        position = end
    return [*parts, data[position:]]
