"""Values without parts: numbers, text, bytes, dates, paths, members of enums, references to globals."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import TYPE_CHECKING, Any
from uuid import UUID

from stepfork._codec.base import Reader, Walk, changed
from stepfork._codec.standin import Opaque, plain_of
from stepfork._codec.types import look_up, may_be_named, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._calls import Plain
    from stepfork._codec.base import Writer

LEAST_INT, TOO_LARGE_INT = -(2**63), 2**64
"""The integers that JSON readers agree on: ``LEAST_INT <= n < TOO_LARGE_INT``."""

_NEEDS_ESCAPE = re.compile("[\\\\\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(\\|u[0-9a-f]{4})")


def write_text(value: str, walk: Walk) -> Plain:
    walk.spend(len(value))
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"$str": _NEEDS_ESCAPE.sub(_escape, value)}
    return value


def _escape(found: re.Match[str]) -> str:
    return "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}"


def _unescape(found: re.Match[str]) -> str:
    return "\\" if found[1] == "\\" else chr(int(found[1][1:], 16))


def write_int(value: int, walk: Walk) -> Plain:
    if LEAST_INT <= value < TOO_LARGE_INT:
        return value
    walk.spend(value.bit_length() // 4)
    return {"$int": hex(value)}  # decimal digits are limited by sys.set_int_max_str_digits


def write_float(value: float, walk: Walk) -> Plain:
    if value - value == 0.0:
        return value
    return {"$float": repr(value)}


def _write_bytes(value: bytes, walk: Walk) -> Plain:
    walk.spend(len(value) * 4 // 3)
    return {"$bytes": b64encode(value).decode()}


def _write_bytearray(value: bytearray, walk: Walk) -> Plain:
    walk.spend(len(value) * 4 // 3)
    return {"$bytearray": b64encode(value).decode()}


def _write_complex(value: complex, walk: Walk) -> Plain:
    return {"$complex": [walk.child(value.real), walk.child(value.imag)]}


def _write_datetime(value: datetime, walk: Walk) -> Plain:
    return _clock("$datetime", value, walk)


def _write_time(value: time, walk: Walk) -> Plain:
    return _clock("$time", value, walk)


def _clock(tag: str, value: datetime | time, walk: Walk) -> Plain:
    zone = value.tzinfo
    if zone is None or _is_offset(zone):
        plain = {tag: value.isoformat()}
    else:
        plain = {tag: value.replace(tzinfo=None).isoformat(), "tz": walk.child(zone)}
    return plain | {"fold": 1} if value.fold else plain


def _is_offset(zone: tzinfo) -> bool:
    """Whether the zone is a bare offset, which the ISO form brings back as it was."""
    return type(zone) is timezone and str(zone) == str(timezone(zone.utcoffset(None)))


def _write_date(value: date, walk: Walk) -> Plain:
    return {"$date": value.isoformat()}


def _write_timedelta(value: timedelta, walk: Walk) -> Plain:
    return {"$timedelta": [value.days, value.seconds, value.microseconds]}


def _write_decimal(value: Decimal, walk: Walk) -> Plain:
    text = str(value)
    walk.spend(len(text))
    return {"$decimal": text}


def _write_uuid(value: UUID, walk: Walk) -> Plain:
    return {"$uuid": str(value)}


def _write_path(value: PurePath, walk: Walk) -> Plain:
    plain = {"$path": walk.child(str(value))}
    return plain if isinstance(value, Path) else plain | {"of": type(value).__name__}


def write_enum(value: Enum, walk: Walk) -> Plain:
    name = object.__getattribute__(value, "_name_")
    plain = {"$enum": type_name(type(value)), "name": walk.child(name)}
    if _members(type(value)).get(name) is value:
        return plain
    return plain | {"value": walk.child(object.__getattribute__(value, "_value_"))}


def write_stand_in(value: Opaque, walk: Walk) -> Plain:
    """Write what a stand-in stands for just as it was read, so that a replay hands on what was recorded."""
    plain = plain_of(value)
    walk.lossy = walk.lossy or "$opaque" in plain
    return plain


def _members(cls: type) -> dict[Any, Enum]:
    members: dict[Any, Enum] = vars(cls).get("_member_map_", {})
    return members


LEAVES: dict[type, Writer] = {
    type(None): lambda value, walk: value,
    bool: lambda value, walk: value,
    str: write_text,
    int: write_int,
    float: write_float,
    bytes: _write_bytes,
    bytearray: _write_bytearray,
    complex: _write_complex,
    datetime: _write_datetime,
    time: _write_time,
    date: _write_date,
    timedelta: _write_timedelta,
    Decimal: _write_decimal,
    UUID: _write_uuid,
    **dict.fromkeys((PosixPath, WindowsPath, PurePosixPath, PureWindowsPath), _write_path),
}


def _read_bytes(plain: dict[str, Plain], reader: Reader) -> bytes:
    return b64decode(plain["$bytes"], validate=True)


def _read_bytearray(plain: dict[str, Plain], reader: Reader) -> bytearray:
    return bytearray(b64decode(plain["$bytearray"], validate=True))


def _read_complex(plain: dict[str, Plain], reader: Reader) -> complex:
    real, imag = plain["$complex"]
    return complex(reader.child(real), reader.child(imag))


def _read_datetime(plain: dict[str, Plain], reader: Reader) -> object:
    value = datetime.fromisoformat(plain["$datetime"])
    return _in_zone(value, plain, reader)


def _read_time(plain: dict[str, Plain], reader: Reader) -> object:
    return _in_zone(time.fromisoformat(plain["$time"]), plain, reader)


def _in_zone(value: datetime | time, plain: dict[str, Plain], reader: Reader) -> object:
    fold = plain.get("fold", 0)
    if "tz" not in plain:
        return value.replace(fold=fold)
    zone = reader.child(plain["tz"])
    if not isinstance(zone, tzinfo):
        return reader.stand_in(plain, "its time zone cannot be rebuilt")
    return value.replace(tzinfo=zone, fold=fold)


def _read_path(plain: dict[str, Plain], reader: Reader) -> PurePath:
    cls = {"PurePosixPath": PurePosixPath, "PureWindowsPath": PureWindowsPath}.get(plain.get("of", ""), Path)
    return cls(reader.child(plain["$path"]))


def _read_enum(plain: dict[str, Plain], reader: Reader) -> object:
    name = plain["$enum"]
    cls = reader.classes.find(name)
    if cls is None or not issubclass(cls, Enum):
        return reader.stand_in(plain, "its class is not loaded")
    member = _members(cls).get(reader.child(plain["name"]))
    if member is not None and "value" not in plain:
        return member
    return _member_by_value(cls, plain, reader)


def _member_by_value(cls: type[Enum], plain: dict[str, Plain], reader: Reader) -> Enum:
    value = reader.whole(plain["value"]) if "value" in plain else None
    known = vars(cls).get("_value2member_map_", {})
    if value is not None and value in known:
        return known[value]  # type: ignore[no-any-return]
    if isinstance(value, int) and issubclass(cls, Flag) and _missing_is_pythons_own(cls):
        return cls(value)
    raise changed(type_name(cls), str(plain["name"]), "is no member any more")


def _missing_is_pythons_own(cls: type[Flag]) -> bool:
    return all("_missing_" not in vars(base) for base in cls.__mro__ if base.__module__ != "enum")


def _read_global(plain: dict[str, Plain], reader: Reader) -> object:
    name = reader.classes.current(plain["$global"])
    if not may_be_named(name):
        return reader.stand_in(plain, "a recording may not name what acts on the machine")
    found = look_up(name)
    if found is None:
        found = reader.classes.find(name)
    return reader.stand_in(plain, "nothing that is loaded has this name") if found is None else found


LEAF_READERS: dict[str, Callable[[dict[str, Plain], Reader], object]] = {
    "$str": lambda plain, reader: _ESCAPED.sub(_unescape, plain["$str"]),
    "$int": lambda plain, reader: int(plain["$int"], 16),
    "$float": lambda plain, reader: float(plain["$float"]),
    "$bytes": _read_bytes,
    "$bytearray": _read_bytearray,
    "$complex": _read_complex,
    "$datetime": _read_datetime,
    "$time": _read_time,
    "$date": lambda plain, reader: date.fromisoformat(plain["$date"]),
    "$timedelta": lambda plain, reader: timedelta(*plain["$timedelta"]),
    "$decimal": lambda plain, reader: Decimal(plain["$decimal"]),
    "$uuid": lambda plain, reader: UUID(plain["$uuid"]),
    "$path": _read_path,
    "$enum": _read_enum,
    "$global": _read_global,
    "$opaque": lambda plain, reader: reader.stand_in(plain, "it could not be recorded"),
}
