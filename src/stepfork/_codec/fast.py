"""The check that most values pass: it needs no tag and can be recorded as it is."""

from __future__ import annotations

from math import isfinite
from typing import Any

from stepfork._codec.graph import MAX_DEPTH
from stepfork._codec.leaves import LEAST_INT, TOO_LARGE_INT

MAX_SIZE = 256 * 2**20
"""Bytes that one value may have, about: text counts as it is, each part of a container PART_SIZE."""

PART_SIZE = 64

_CONTAINER_SIZE = 1024
"""What a container counts here besides: a few that are reached by ever more ways use the room up soon."""

_LONG = 32
"""From here on a list is first asked whether all its parts are of one type."""

_TEXT, _NUMBER = {str}, {float}


def is_plain(value: object) -> bool:
    """Whether nothing in a value needs a tag, and it is neither too deep nor too large."""
    return _room_after([value], MAX_SIZE, MAX_DEPTH + 1) > 0


def _room_after(container: Any, room: int, depth: int) -> int:
    """Return the room that a dict or list leaves; none where it does not fit, or a part of it needs a tag.

    Made for speed: the commonest types come first, and no part costs a call but a container.
    """
    room -= _CONTAINER_SIZE + PART_SIZE * len(container)
    if room <= 0 or not depth:
        return 0
    parts = container
    if type(container) is dict:
        for key in container:
            if type(key) is not str or key[:1] == "$" or not (key.isascii() or _is_unicode(key)):
                return 0
        parts = container.values()
    elif len(container) > _LONG and {*map(type, container)} in (_TEXT, _NUMBER):
        return _room_after_many(container, room)
    for part in parts:
        cls = type(part)
        if cls is str:
            if not (part.isascii() or _is_unicode(part)):
                return 0
            room -= len(part)
        elif cls is dict or cls is list:
            room = _room_after(part, room, depth - 1)
            if room <= 0:
                return 0
        elif cls is int:
            if not LEAST_INT <= part < TOO_LARGE_INT:
                return 0
        elif cls is float:
            if part - part != 0.0:  # NaN and infinities
                return 0
        elif cls is not bool and part is not None:
            return 0
    return room


def _room_after_many(parts: list[Any], room: int) -> int:
    """Do the same for a long list of texts alone, or of floats alone, all at once."""
    if type(parts[0]) is float:
        return room if all(map(isfinite, parts)) else 0
    text = "".join(parts)
    return room - len(text) if _is_unicode(text) else 0


def _is_unicode(text: str) -> bool:
    """Whether the text holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
