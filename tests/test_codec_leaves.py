"""Values without parts, and what every value has in common."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import enum
import fractions
import io
import ipaddress
import math
import os
import pathlib
import re
import time
import types
import uuid
import zoneinfo
from typing import Any

import msgspec
import numpy as np
import pytest

from codec_values import (
    MISSING,
    Amount,
    Box,
    Colour,
    Day,
    Frozen,
    Grouped,
    Hashed,
    Hour,
    Line,
    Model,
    Node,
    Number,
    Numbers,
    Ordered,
    Pair,
    Point,
    Ratio,
    Raw,
    Recent,
    Rights,
    Slotted,
    Span,
    Strict,
    Table,
    Tagged,
    Text,
    Unique,
    When,
    Word,
    assert_comes_back,
    module_function,
    run_python,
    tagged_list,
    through_json,
)
from stepfork._codec import Opaque, decode, encode
from stepfork.errors import RecordingDamaged


class Place(pathlib.PurePosixPath):
    """A path of the user's own class."""


class UserPath(type(pathlib.Path())):  # type: ignore[misc]
    """A path of the user's own class that can be opened."""


class IntRights(enum.IntFlag):
    READ = enum.auto()
    WRITE = enum.auto()


class Level(enum.IntEnum):
    HIGH = enum.auto()


VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    19933688932870350000,
    10**5000,
    1.5,
    -0.0,
    5e-324,
    math.inf,
    -math.inf,
    1 + 2j,
    "",
    "é😀\x00\u2028",
    "\ud83d",
    "\ud83d\ude00",
    "back\\slash \\ud83d \udc00",
    b"\x00\xff",
    bytearray(b"x"),
    (),
    (1, (2, [3])),
    [1, (2,)],
    {1, 2, 3},
    frozenset({("a", 1)}),
    {},
    {1: "a", "1": "b", (2,): "c", None: "d", 1.5: "e"},
    {"\ud800": 1},
    {"$tuple": [1], "$": 2, "$$x": 3, "plain": 4},
    {"plain": 1, "$ref": 0},
    dt.datetime(2026, 11, 30, 12, 0, 0, 7),
    dt.datetime(2026, 11, 30, tzinfo=dt.UTC),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
    dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30), "IST")),
    dt.date(1, 1, 1),
    dt.time(1, 2, 3, tzinfo=dt.timezone(-dt.timedelta(hours=3))),
    dt.timedelta(-1, 5, 7),
    decimal.Decimal("1E+5"),
    decimal.Decimal("-0.00"),
    fractions.Fraction(1, 3),
    ipaddress.ip_network("10.0.0.0/8"),
    uuid.UUID(int=7),
    pathlib.Path("a/b"),
    pathlib.PurePosixPath("/x"),
    pathlib.PureWindowsPath("c:\\x"),
    Colour.RED,
    Colour.BLUE,
    Word.YES,
    {Word.YES: 1},
    Rights.READ,
    Rights.READ | Rights.WRITE,
    Rights(0),
    Line("a", 2, ["t"]),
    Frozen(1, (2,)),
    Point(1),
    Hashed(3),
    Tagged(1, [2]),
    Strict(1),
    Model.model_validate({"x": 1, "url": "http://a.b/c", "secret": "s", "extra": {"k": (1,)}}),
    Model(x=2, line=Line("z")),
    Numbers([1, 2]),
    Box[int](content=1),
    Pair(1),
    Text("t"),
    tagged_list,
    Table(a=1),
    When(2026, 1, 2, tzinfo=dt.UTC),
    Day(2026, 1, 2),
    Hour(1, 2, fold=1),
    Span(1, 2, 3),
    Ordered([("b", 1), ("a", 2)]),
    Recent([1, 2], 2),
    Grouped(int, {"a": 1}),
    Unique([1, (2,)]),
    Amount("1.10"),
    Raw(b"r"),
    Number(10**30),
    Ratio(math.inf),
    Slotted.made(),
    Node(a=1, **{"$b": [Node()]}),
    types.SimpleNamespace(a=(1,)),
    collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.defaultdict(list, a=[1]),
    collections.Counter("aab"),
    collections.deque([1, 2], maxlen=3),
    collections.ChainMap({"a": (1,)}, {"b": 2}),
    collections.UserDict(a=1),
    types.MappingProxyType({"a": (1,)}),
    array.array("d", [1.5, -0.0]),
    memoryview(b"abc"),
    {"a": 1}.keys(),
    {"a": (1,)}.items(),
    time.gmtime(0),
    os.stat_result(range(10)),
    Place("a/b"),
    UserPath("a/b"),
    ipaddress.ip_interface("10.0.0.1/8"),
    zoneinfo.ZoneInfo("Europe/Berlin"),
    dt.UTC,
    IntRights.READ | IntRights.WRITE,
    IntRights(8),
    Level.HIGH,
    range(1, 9, 2),
    slice(1, None),
    re.compile("a+", re.IGNORECASE),
    np.float64(1.5),
    np.float32(0.1),
    np.int8(-3),
    np.bool_(True),
    np.str_("é"),
    np.datetime64("2026-11-30T01:02:03"),
    np.complex128(1 + 2j),
    np.dtype([("a", "<i4"), ("b", "<f8")]),
    int,
    Colour,
    Model,
    module_function,
    math.sqrt,
    MISSING,
    msgspec.UNSET,
    ...,
    NotImplemented,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}")
def test_a_value_comes_back_equal_and_of_its_own_type(value: Any) -> None:
    """Every type an agent hands around survives JSON (B31, B32, B34, B35)."""
    assert_comes_back(value)
    assert_comes_back({"in": [value, (value,)]})


def test_nan_comes_back_as_nan() -> None:
    """NaN is neither null nor lost, as number, as Decimal and in an array (B31)."""
    back = through_json({"f": math.nan, "d": decimal.Decimal("NaN"), "a": np.array([math.nan])})
    assert math.isnan(back["f"])
    assert back["d"].is_nan()
    assert np.isnan(back["a"]).all()


def test_minus_zero_keeps_its_sign_and_a_number_its_type() -> None:
    """A float that is whole stays a float, True is not 1, and -0.0 is not 0.0 (B32)."""
    back = through_json([-0.0, 1.0, True, 1])
    assert math.copysign(1, back[0]) == -1
    assert [type(part) for part in back] == [float, float, bool, int]


def test_the_hash_that_a_path_keeps_is_not_recorded() -> None:
    """Hashes of text differ from process to process; a path of a derived class keeps one."""
    place = Place("a")
    hash(place)
    assert encode(place).plain == {
        "$object": "test_codec_leaves:Place",
        "of": "PurePath",
        "base": {"$path": "a", "of": "PurePosixPath"},
        "state": {},
    }


def test_a_file_in_memory_comes_back_where_it_stood() -> None:
    """What a tool hands back as bytes or text in memory is read on from the same place (B32)."""
    for file in (io.BytesIO(b"abc"), io.StringIO("a\r\nb")):
        file.read(1)
        back = through_json(file)
        assert (type(back), back.getvalue(), back.tell()) == (type(file), file.getvalue(), 1)


def test_fold_and_zone_of_an_ambiguous_hour_come_back() -> None:
    """The second 2:30 of the night on which the clocks change is not the first (B32)."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    back = through_json(dt.datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1))
    assert (back.fold, back.tzinfo, back.utcoffset()) == (1, berlin, dt.timedelta(hours=1))


def test_a_value_that_needs_no_tag_is_not_copied() -> None:
    """The common case costs a look at it and no more."""
    value = {"messages": [{"role": "user", "content": "é", "n": 1, "f": 0.5, "ok": None}] * 3}
    assert encode(value).plain is value


def test_a_recording_cannot_name_what_acts_on_the_machine() -> None:
    """Neither os.system nor eval nor Popen comes out of a file (B77)."""
    for name in ("builtins:eval", "os:system", "posix:system", "subprocess:Popen", "importlib:import_module"):
        assert isinstance(decode({"$global": name}), Opaque)
    assert encode(eval).lossy


@pytest.mark.parametrize(
    "plain",
    [
        {"$tuple": 5},
        {"$bytes": "?"},
        {"$datetime": "yesterday"},
        {"$ref": 0},
        {"$shared": [{"$tuple": [{"$ref": 0}]}], "value": {"$ref": 0}},
        {"$shared": 1, "value": 2},
        {"$object": 3, "state": {}},
        {"$object": "codec_values:Line"},
        {"$object": "codec_values:Line", "state": []},
        {"$dict": [[[], 1]]},
        {"$set": [[1]]},
        {"$enum": "codec_values:Colour"},
        {"$int": "many"},
        {"$object": "numpy:ndarray", "of": "array", "state": {"dtype": "O", "shape": [9], "elements": []}},
    ],
)
def test_what_no_codec_wrote_is_damage(plain: Any) -> None:
    """A foreign or damaged value is said to be that, and does nothing else (B73)."""
    with pytest.raises(RecordingDamaged, match="cannot be read"):
        decode(plain)


def test_a_tag_of_a_later_version_is_a_stand_in() -> None:
    """What is unknown is kept for whoever writes it again."""
    back = decode({"$novel": 1})
    assert "unknown to this version" in repr(back)
    assert encode(back).plain == {"$novel": 1}


def test_the_codec_loads_no_library_of_the_agent() -> None:
    """Neither numpy nor pydantic nor attrs is imported for an agent that does not use it (B63)."""
    output = run_python(
        """
        import sys
        from stepfork._codec import *
        from stepfork.errors import StandInTouched
        encode([(1,), {2}, ValueError()])
        print(sorted({"numpy", "pydantic", "attr", "pytest", "wrapt", "deepdiff"} & set(sys.modules)))
        """
    )
    assert output == "[]"
