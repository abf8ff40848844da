"""Whether a value of a replay is the one that was recorded, where secrets were taken out of that."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepfork._plain import SET_TAGS, canonical, tag
from stepfork._redact.placeholder import MARK, is_whole, literals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepfork._calls import Plain

__all__ = [
    *("BYTES_IN_JSON", "BYTES_STARTS", "BYTES_TAGS"),
    *("based", "has_redaction", "matches", "raw", "unzipped"),
]

BYTES_TAGS: Final = frozenset({"$bytes", "$bytearray"})
BYTES_STARTS: Final = (b'"$bytes"', b'"$bytearray"')
BYTES_IN_JSON: Final = re.compile(rb'"\$byte(?:s|array)": ?"([^"]*)"')
_MARK_TEXT = MARK.decode()
_MOST_UNZIPPED = 64 * 1024 * 1024


def raw(encoded: str | bytes) -> bytes:
    """Return the bytes that base64 stands for; none where it is damaged."""
    try:
        return binascii.a2b_base64(encoded)
    except (binascii.Error, ValueError):
        return b""


def based(data: bytes) -> str:
    """Return the base64 that a recording holds for ``data``."""
    return base64.b64encode(data).decode()


def unzipped(data: bytes) -> bytes | None:
    """Return what gzip data holds; None for other data, for damaged data, and beyond 64 MiB."""
    if not data.startswith(b"\x1f\x8b"):
        return None
    unzip = zlib.decompressobj(wbits=31)
    try:
        content = unzip.decompress(data, _MOST_UNZIPPED)
    except zlib.error:
        return None
    return content if unzip.eof and not unzip.unused_data else None


def has_redaction(recorded: Plain) -> bool:
    """Whether a secret was taken out anywhere in this value."""
    data = msgspec.json.encode(recorded)
    if MARK in data:
        return True
    return b'"$byte' in data and any(MARK in _content(found[1]) for found in BYTES_IN_JSON.finditer(data))


def _content(encoded: str | bytes) -> bytes:
    data = raw(encoded)
    inside = unzipped(data)
    return data if inside is None else inside


def matches(recorded: Plain, now: Plain) -> bool:
    """Compare type and value; where ``recorded`` has a placeholder, anything may stand, None too.

    ``now`` may be redacted itself, with other numbers.
    """
    left = [(recorded, now)]
    while left:
        before, after = left.pop()
        if type(before) is str and _MARK_TEXT in before:
            if not _text_matches(before.encode(), after):
                return False
        elif type(before) is not type(after):
            return False
        elif type(before) is list:
            if len(before) != len(after):
                return False
            left.extend(zip(before, after, strict=True))
        elif type(before) is dict:
            parts = _parts(before, after)
            if parts is None:
                return False
            left.extend(parts)
        elif before != after:
            return False
    return True


def _text_matches(recorded: bytes, now: Plain) -> bool:
    return is_whole(recorded) or (type(now) is str and _stands_in(literals(recorded), now.encode()))


def _stands_in(parts: Sequence[bytes], now: bytes) -> bool:
    """Whether ``now`` has these parts in this order, the first at its start and the last at its end."""
    first, *middle, last = parts if len(parts) > 1 else (*parts, b"")
    if len(parts) == 1:
        return first == now
    end = len(now) - len(last)
    position = len(first)
    if end < position or not now.startswith(first) or not now.endswith(last):
        return False
    for part in middle:
        found = now.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


def _parts(recorded: dict[str, Any], now: dict[str, Any]) -> list[tuple[Plain, Plain]] | None:
    """Return what is still to be compared of two dicts; None if they differ."""
    name = tag(recorded)
    if name != tag(now):
        return None
    if name in BYTES_TAGS:
        return [] if _bytes_match(recorded[name], now[name]) else None
    if name in SET_TAGS:
        return [] if _sets_match(recorded[name], now[name]) else None
    shared = recorded.keys() & now.keys()
    if not _keys_match([(k, v) for k, v in recorded.items() if k not in shared], now, shared):
        return None
    return [(recorded[key], now[key]) for key in shared]


def _bytes_match(recorded: str, now: str) -> bool:
    before = _content(recorded)
    if recorded == now or is_whole(before):
        return True
    return MARK in before and _stands_in(literals(before), _content(now))


def _sets_match(recorded: list[Any], now: list[Any]) -> bool:
    members = {canonical(member): member for member in now}
    others = [member for member in recorded if members.pop(canonical(member), _NONE) is _NONE]
    return _pair_up(others, list(members.values()), matches)


def _keys_match(others: list[tuple[str, Any]], now: dict[str, Any], shared: set[str]) -> bool:
    return _pair_up(others, [(key, value) for key, value in now.items() if key not in shared], _item_matches)


def _item_matches(recorded: tuple[str, Any], now: tuple[str, Any]) -> bool:
    return matches(recorded[0], now[0]) and matches(recorded[1], now[1])


_NONE = object()


def _pair_up(recorded: list[Any], now: list[Any], match: Callable[[Any, Any], bool]) -> bool:
    """Whether each recorded element can have one of its own among those of now."""
    if len(recorded) != len(now):
        return False
    owner: dict[int, int] = {}

    def find(mine: int, tried: set[int]) -> bool:
        for index, other in enumerate(now):
            if index not in tried and match(recorded[mine], other):
                tried.add(index)
                if index not in owner or find(owner[index], tried):
                    owner[index] = mine
                    return True
        return False

    return all(find(mine, set()) for mine in range(len(recorded)))
