"""The check that most values pass: it needs no tag and can be recorded as it is."""

from __future__ import annotations

from math import isfinite
from typing import Any

from stepfork._codec.graph import MAX_DEPTH
from stepfork._codec.leaves import LEAST_INT, TOO_LARGE_INT

MAX_SIZE = 256 * 2**20
"""Bytes that one value may have, about: text counts as it is, each part of a container PART_SIZE."""

PART_SIZE = 64

_TEXT, _NUMBER = {str}, {float}
_LONG = 32
"""From here on a list is first asked whether all its parts are of one type."""

_MANY = 10_000


def is_plain(value: object) -> bool:
    """Whether nothing in a value needs a tag, and it is neither too deep nor too large.

    Made for speed: one loop over all containers, however they are nested, and one look at all the
    texts together.
    """
    containers: list[Any] = [[value]]
    keys: list[Any] = []
    texts: list[Any] = []
    room, many = MAX_SIZE, _MANY
    for container in containers:  # grows while it is walked
        room -= PART_SIZE * len(container)
        if room < 0 or not _take(container, keys, texts, containers):
            return False
        if len(containers) > many:
            if len({*map(id, containers)}) < many // 2:
                return False  # few containers, reached by ever more ways
            many *= 2
    if keys and not _are_keys(keys):
        return False
    text = "".join(texts)
    return len(text) <= room and _is_unicode(text) and (len(containers) <= MAX_DEPTH or _is_shallow(value))


def _take(container: Any, keys: list[Any], texts: list[Any], containers: list[Any]) -> bool:
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
            containers.append(part)
        elif cls is int:
            if not LEAST_INT <= part < TOO_LARGE_INT:
                return False
        elif cls is float:
            if part - part != 0.0:  # NaN and infinities
                return False
        elif cls is not bool and part is not None:
            return False
    return True


def _is_shallow(value: Any) -> bool:
    """Whether the containers of a value, known to be plain, are nested less than MAX_DEPTH deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        parts = [
            part
            for container in level
            for part in (container.values() if type(container) is dict else container)
        ]
        level = [part for part in parts if type(part) is dict or type(part) is list]
        if not level:
            return True
    return False


def _are_keys(keys: list[Any]) -> bool:
    if {*map(type, keys)} != _TEXT:
        return False
    text = "\n".join(keys)
    return not text.startswith("$") and "\n$" not in text and _is_unicode(text)


def _is_unicode(text: str) -> bool:
    """Whether the text holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
