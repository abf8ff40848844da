"""What holds for every value that the codec is given."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import math
import types
import uuid
import zoneinfo
from pathlib import PurePosixPath
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st

from codec_values import (
    Box,
    Colour,
    Frozen,
    Grouped,
    Hashed,
    Line,
    Many,
    Model,
    Node,
    Number,
    Pair,
    Point,
    Rights,
    Tagged,
    Text,
)
from properties import thoroughly
from stepfork._codec import canonical, decode, encode
from stepfork._codec.graph import MAX_DEPTH


class Holding(msgspec.Struct, frozen=True):
    a: Any


def extended(extra: Any, private: Any) -> Model:
    """Return a model with a field that its class does not declare, and a private one."""
    model = Model.model_construct(x=1, more=extra)
    model._private = private
    return model


TEXTS = st.text(st.characters(exclude_categories=()))  # lone surrogates too

HASHABLE_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(allow_nan=False),
    TEXTS,
    st.sampled_from(["$", "$ref", "$$tuple", "$object", "state"]),
    st.binary(),
    st.datetimes(timezones=st.none() | st.just(dt.UTC) | st.just(zoneinfo.ZoneInfo("America/New_York"))),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.uuids(),
    st.complex_numbers(allow_nan=False),
    st.sampled_from([*Colour, *Rights, Rights(0), Rights.READ | Rights.WRITE]),
    st.builds(PurePosixPath, st.sampled_from(["a", "/b/c", "é"])),
    st.builds(Text, TEXTS),
    st.ip_addresses(),
    st.builds(range, st.integers(0, 9), st.integers(0, 9)),
    st.builds(Number, st.integers()),
    st.sampled_from([Line, len, str.upper, list[int], int | None, np.int8(3), np.float64(0.5), pd.NaT]),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(pd.Timestamp),
)
HASHABLE = st.recursive(
    HASHABLE_LEAVES,
    lambda part: st.one_of(
        st.lists(part, max_size=3).map(tuple),
        st.frozensets(part, max_size=3),
        st.builds(Pair, part, part),
        st.builds(Frozen, part, part),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    HASHABLE | st.binary().map(bytearray),
    lambda part: st.one_of(
        st.lists(part, max_size=4),
        st.dictionaries(TEXTS | st.just("$x"), part, max_size=4),
        st.dictionaries(HASHABLE, part, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.lists(part, max_size=3).map(tuple),
        st.builds(Many, st.lists(part, max_size=3)),
        st.builds(Line, part, part, st.lists(part, max_size=2)),
        st.builds(Point, part),
        st.builds(Tagged, part, part),
        st.builds(lambda a, b: Model.model_construct(x=a, line=b), part, part),
        st.builds(lambda a: Node(a=a), part),
        st.builds(extended, part, part),
        st.builds(lambda a: Box.model_construct(content=a), part),
        st.builds(collections.deque, st.lists(part, max_size=3), st.none() | st.integers(3, 5)),
        st.builds(collections.OrderedDict, st.dictionaries(HASHABLE, part, max_size=3)),
        st.builds(lambda d: Grouped(list, d), st.dictionaries(HASHABLE, part, max_size=3)),
        st.builds(lambda a, b: types.SimpleNamespace(a=a, b=b), part, part),
        st.builds(lambda d: types.MappingProxyType(d), st.dictionaries(TEXTS, part, max_size=2)),
        st.builds(Hashed, part, part),
        st.builds(Holding, part),
    ),
    max_leaves=20,
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda part: (
        st.lists(part, max_size=4)
        | st.dictionaries(st.text().filter(lambda key: key[:1] != "$"), part, max_size=4)
    ),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same types all through."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(same(tuple(a), tuple(b)) for a, b in pairs)
    if type(one) in (list, tuple, Many, Pair):
        return len(one) == len(other) and all(map(same, one, other))
    if one is pd.NaT:
        return other is pd.NaT
    if isinstance(one, float):
        signs = math.copysign(1, one), math.copysign(1, other)
        return (math.isnan(one) and math.isnan(other)) or (one, signs[0]) == (other, signs[1])
    return bool(one == other)


@given(VALUES)
@example([math.nan, {"a": -math.inf}])
@example([2**64, -(2**63) - 1, 10**5000])
@example({"\ud83d": "\ude00"})
@example([(1,), {2}, b"\x00", Colour.RED])
@thoroughly(300)
def test_every_value_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    """Encoded, written as JSON, read and decoded, a value is what it was (B31, B32, B34, B35)."""
    plain, lossy = encode(value)
    assert not lossy
    assert encode(value).plain == plain
    written = msgspec.json.encode(plain)
    written.decode("utf-8")
    assert same(decode(msgspec.json.decode(written)), value)


@given(VALUES)
@thoroughly(150)
def test_what_was_decoded_is_written_as_before(value: Any) -> None:
    """A replay that hands on what it was served asks with the very bytes of the recording."""
    plain = encode(value).plain
    assert canonical(encode(decode(plain)).plain) == canonical(plain)


@given(JSON)
@thoroughly(150)
def test_what_json_holds_is_not_copied(value: Any) -> None:
    """The fast path takes everything that needs no tag, and the slow one would say the same."""
    assert encode(value).plain is value
    assert encode((value,)).plain == {"$tuple": [value]}


@given(
    st.recursive(st.integers(), lambda part: st.lists(part, max_size=3), max_leaves=30),
    st.integers(0, 300),
    st.data(),
)
@thoroughly(100)
def test_knots_come_back_with_the_same_shape(value: Any, depth: int, data: st.DataObject) -> None:
    """Lists that refer to each other in any way, at any depth, are the same graph again (B11)."""
    lists = list(lists_in([value]))
    for _ in range(data.draw(st.integers(0, 4))):
        data.draw(st.sampled_from(lists)).append(data.draw(st.sampled_from(lists)))
    deep: Any = lists[0]
    for level in range(depth):
        deep = (deep,) if level % 2 else [deep]
    plain, lossy = encode(deep)
    assert not lossy
    assert depth_of(plain) <= 2 * MAX_DEPTH + 10
    assert unrolled(decode(msgspec.json.decode(msgspec.json.encode(plain))), depth + 6) == unrolled(
        deep, depth + 6
    )


def lists_in(value: list[Any]) -> list[list[Any]]:
    """Return a list and all lists in it."""
    return [value, *(found for part in value if isinstance(part, list) for found in lists_in(part))]


def depth_of(plain: Any) -> int:
    """Return how deep a recorded form is nested."""
    parts = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ()
    return 1 + max(map(depth_of, parts), default=0)


def unrolled(value: Any, depth: int) -> str:
    """Return a value as text, cut at a depth."""
    if not isinstance(value, list | tuple):
        return repr(value)
    if depth == 0:
        return "..."
    return f"{type(value).__name__}({', '.join(unrolled(part, depth - 1) for part in value)})"


@given(TEXTS, st.uuids(), st.decimals())
@thoroughly(100)
def test_the_recorded_form_is_valid_json_and_utf_8(
    text: str, identity: uuid.UUID, number: decimal.Decimal
) -> None:
    """Whatever the text holds, the file can be read by any JSON reader (B34)."""
    written = canonical(encode({text: [text, identity, number]}).plain)
    written.decode("utf-8")
    back = decode(msgspec.json.decode(written))
    assert list(back) == [text]
    assert str(back[text][2]) == str(number)
