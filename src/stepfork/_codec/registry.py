"""Classes that are written by a pair of functions: of the standard library, and of third parties."""

from __future__ import annotations

import re
import types
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from stepfork._codec.http import request_pair, response_pair
from stepfork._codec.types import look_up, type_name
from stepfork.errors import ClassChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._calls import Plain
    from stepfork._codec.base import Reader, Walk

T = TypeVar("T")


class _Pair(NamedTuple):
    encode: Callable[[Any], object]
    decode: Callable[[Any], object]


_PAIRS: dict[str, _Pair] = {}
_CLASSES: set[type] = set()


def _by_text(cls: Any) -> tuple[Callable[[Any], object], Callable[[Any], Any]]:
    return str, cls


_MET_LATER: dict[str, Callable[[Any], tuple[Callable[[Any], object], Callable[[Any], Any]]]] = {
    "pydantic_core._pydantic_core:Url": _by_text,
    "pydantic_core._pydantic_core:MultiHostUrl": _by_text,
    "httpx:Request": request_pair,
    "httpx:Response": response_pair,
    "httpx2:Request": request_pair,
    "httpx2:Response": response_pair,
}
"""Classes of libraries that are not loaded here, each with what gives the pair of functions for it."""


def register(cls: type[T], encode: Callable[[T], object], decode: Callable[[Any], T]) -> None:
    """Have instances of exactly this class written by the one function and read by the other."""
    _PAIRS[type_name(cls)] = _Pair(encode, decode)
    _CLASSES.add(cls)


def is_registered(cls: type) -> bool:
    """Whether the class is written by a pair of functions."""
    return cls in _CLASSES


def is_met_later(cls: type) -> bool:
    """Whether the class is one of those that are registered when they are first met."""
    return _pair(type_name(cls)) is not None


def _pair(name: str) -> _Pair | None:
    if name not in _PAIRS and name in _MET_LATER and isinstance(cls := look_up(name), type):
        register(cls, *_MET_LATER[name](cls))
    return _PAIRS.get(name)


def write_registered(value: object, walk: Walk) -> Plain:
    """Write a value by the function registered for its class."""
    name = type_name(type(value))
    return {"$object": name, "of": "value", "value": walk.child(_PAIRS[name].encode(value))}


def read_registered(plain: dict[str, Plain], reader: Reader) -> object:
    """Read a value by the function registered for its class."""
    name = reader.classes.current(plain["$object"])
    pair = _pair(name)
    if pair is None:
        return reader.stand_in(plain, "nothing is registered that reads it")
    value = reader.whole(plain["value"])
    try:
        return pair.decode(value)
    except Exception as fault:
        raise ClassChanged(
            f"what is registered to read {name} failed: {type(fault).__name__}: {fault}", type=name
        ) from fault


def _zone(key: str) -> ZoneInfo:
    return ZoneInfo(key)


def _zone_key(zone: ZoneInfo) -> str:
    if zone.key is None:
        raise ValueError("a time zone read from a file has no name")
    return zone.key


def _offset(zone: timezone) -> tuple[timedelta, str]:
    return zone.utcoffset(None), zone.tzname(None)


register(range, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts))
register(slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts))
register(re.Pattern, lambda value: [value.pattern, value.flags], lambda parts: re.compile(*parts))
register(ZoneInfo, _zone_key, _zone)
register(timezone, _offset, lambda parts: timezone(*parts))
register(types.MappingProxyType, dict, types.MappingProxyType)
