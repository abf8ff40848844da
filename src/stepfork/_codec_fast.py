"""The check that most values pass: it needs no tag and can be recorded as it is."""

from __future__ import annotations

from math import isfinite
from typing import Any

from stepfork._codec_graph import MAX_DEPTH
from stepfork._codec_leaves import LEAST_INT, TOO_LARGE_INT

MAX_SIZE = 256 * 2**20
"""Bytes that one value may have, about: text counts as it is, each part of a container PART_SIZE."""

PART_SIZE = 64

_MANY = 10_000

_TEXT, _NUMBER = {str}, {float}
_LONG = 32
"""From here on a list is first asked whether all its parts are of one type."""


def is_plain(value: object) -> bool:
    """Whether nothing in a value needs a tag, and it is neither too deep nor too large.

    Level by level and with the texts looked at together, which is the fastest way that Python has;
    a value that contains itself has no last level.
    """
    level: list[Any] = [[value]]
    keys: list[Any] = []
    texts: list[str] = []
    room = MAX_SIZE
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            room -= PART_SIZE * len(container)
            if room < 0 or not _take(container, keys, texts, below):
                return False
        if not below:
            return _are_keys(keys) and _are_texts(texts, room)
        if len(below) > _MANY and len({*map(id, below)}) < len(below) // 2:
            return False  # few containers, reached by ever more ways
        level = below
    return False


def _take(container: Any, keys: list[Any], texts: list[str], below: list[Any]) -> bool:
    """Sort the parts of a dict or list into the lists given; False for a part that needs a tag."""
    if type(container) is dict:
        keys += container
        parts = container.values()
    elif len(container) > _LONG and (types := {*map(type, container)}) in (_TEXT, _NUMBER):
        if types == _NUMBER:
            return all(map(isfinite, container))
        texts += container
        return True
    else:
        parts = container
    for part in parts:
        cls = type(part)
        if cls is str:
            texts.append(part)
        elif cls is dict or cls is list:
            below.append(part)
        elif cls is int:
            if not LEAST_INT <= part < TOO_LARGE_INT:
                return False
        elif cls is float:
            if part - part != 0.0:  # NaN and infinities
                return False
        elif cls is not bool and part is not None:
            return False
    return True


def _are_keys(keys: list[Any]) -> bool:
    if not keys:
        return True
    if {*map(type, keys)} != _TEXT:
        return False
    text = "\n".join(keys)
    return not text.startswith("$") and "\n$" not in text and _is_unicode(text)


def _are_texts(texts: list[str], room: int) -> bool:
    return sum(map(len, texts)) <= room and _is_unicode("".join(texts))


def _is_unicode(text: str) -> bool:
    """Whether the text holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
