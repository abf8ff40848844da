"""Classes that a pair of functions writes: of the standard library, and of libraries that many agents use."""

from __future__ import annotations

import collections.abc
import functools
import gc
import io
import re
import types
import typing
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from stepfork._codec.http import request_pair, response_pair
from stepfork._codec.registry import register, register_later

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._codec.registry import Pair


def register_all() -> None:
    """Register what is loaded anyway, and name what is registered once it is met."""
    register(range, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts))
    register(slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts))
    register(re.Pattern, lambda value: [value.pattern, value.flags], lambda parts: re.compile(*parts))
    register(ZoneInfo, _zone_key, _zone)
    register(timezone, _offset, _fixed_zone)
    register(types.MappingProxyType, _proxied, types.MappingProxyType)
    register(functools.partial, _partial_parts, _partial)
    register(memoryview, _view_parts, _view)
    register(io.BytesIO, *_file(io.BytesIO))
    register(io.StringIO, *_file(io.StringIO))
    contents: dict[Any, Any] = {}
    register(type(contents.keys()), list, lambda keys: dict.fromkeys(keys).keys())
    register(type(contents.values()), list, lambda values: dict(enumerate(values)).values())
    register(type(contents.items()), list, lambda items: dict(items).items())
    for cls in {type(sample) for sample in _ANNOTATIONS} - {types.UnionType}:
        register(cls, lambda value: list(type(value).__reduce__(value)[1]), _subscript)
    register(types.UnionType, lambda value: list(value.__args__), _union)
    for name, pair in _MET_LATER.items():
        register_later(name, pair)


def _by_text(cls: Any) -> Pair:
    return str, cls


def _by_parts(cls: Any) -> Pair:
    """Return the pair for a class of C that pickles as what its constructor takes."""
    return lambda value: list(cls.__reduce__(value)[1]), lambda parts: cls(*parts)


def _array(cls: Any) -> Pair:
    return lambda value: [value.typecode, value.tolist()], lambda parts: cls(*parts)


_MET_LATER: dict[str, Callable[[Any], Pair]] = {
    "array:array": _array,
    "msgspec:Raw": lambda cls: (bytes, cls),
    "operator:attrgetter": _by_parts,
    "operator:itemgetter": _by_parts,
    "os:stat_result": _by_parts,
    "time:struct_time": _by_parts,
    "numpy.ma:MaskedArray": lambda cls: (_masked_parts, functools.partial(_masked, cls)),
    "pydantic_core._pydantic_core:Url": _by_text,
    "pydantic_core._pydantic_core:MultiHostUrl": _by_text,
    "httpx:Request": request_pair,
    "httpx:Response": response_pair,
    "httpx2:Request": request_pair,
    "httpx2:Response": response_pair,
}


def _zone(key: str) -> ZoneInfo:
    return ZoneInfo(key)


def _zone_key(zone: ZoneInfo) -> str:
    if zone.key is None:
        raise ValueError("a time zone read from a file has no name")
    return zone.key


def _offset(zone: timezone) -> tuple[timedelta, str]:
    return zone.utcoffset(None), zone.tzname(None)


def _proxied(proxy: types.MappingProxyType[Any, Any]) -> object:
    return gc.get_referents(proxy)[0]  # to iterate over the proxy would run code of its mapping and keys


def _fixed_zone(parts: tuple[timedelta, str]) -> timezone:
    # For no offset that is `timezone.utc` itself, which some compare by identity.
    unnamed = timezone(parts[0])
    return unnamed if unnamed.tzname(None) == parts[1] else timezone(*parts)


def _partial_parts(value: Any) -> list[Any]:
    if vars(value):
        raise ValueError("attributes on a partial")
    return [value.func, value.args, value.keywords]


def _partial(parts: list[Any]) -> functools.partial[Any]:
    function, args, keywords = parts
    return functools.partial(function, *args, **keywords)


def _view_parts(value: memoryview) -> list[Any]:
    data = value.tobytes() if value.readonly else bytearray(value.tobytes())
    return [data, value.format, value.shape]


def _view(parts: list[Any]) -> memoryview:
    data, code, shape = parts
    return memoryview(data).cast("B").cast(code, shape)


def _file(cls: Any) -> Pair:
    def read(parts: list[Any]) -> Any:
        file = cls(parts[0])
        file.seek(parts[1])
        return file

    return lambda file: [file.getvalue(), file.tell()], read


def _masked_parts(value: Any) -> list[Any]:
    return [value.data, value.mask, value.fill_value]


def _masked(cls: Any, parts: list[Any]) -> Any:
    data, mask, fill_value = parts
    return cls(data, mask=mask, fill_value=fill_value)


_ANNOTATIONS: tuple[object, ...] = (
    list[int],
    typing.List[int],  # noqa: UP006 - each of these is of another class
    typing.Literal["a"],
    typing.Annotated[int, "a"],
    typing.Callable[[int], int],
    collections.abc.Callable[[int], int],
    typing.Optional[typing.List[int]],  # noqa: UP006, UP045
)
"""One of each class that a subscripted annotation can be of; they pickle as what is subscripted with what."""


def _subscript(parts: list[Any]) -> Any:
    generic, arguments = parts
    if _answers_by_its_own_code(generic):
        raise TypeError(f"subscripting {generic.__qualname__} would run its code")
    return generic[arguments]


def _answers_by_its_own_code(generic: Any) -> bool:
    if not isinstance(generic, type):
        return type(generic).__module__ not in _PYTHONS_OWN
    layers = (layer for layer in generic.__mro__ if "__class_getitem__" in vars(layer))
    owner = next(layers, object)
    return type(generic).__module__ not in _PYTHONS_OWN or owner.__module__ not in _PYTHONS_OWN


_PYTHONS_OWN = frozenset({"abc", "builtins", "collections", "collections.abc", "typing"})


def _union(members: list[Any]) -> Any:
    return functools.reduce(lambda one, other: one | other, members)
