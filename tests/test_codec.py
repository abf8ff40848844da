"""What the codec brings back, and what it says where it cannot."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import math
import pathlib
import pickle
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import types
import typing
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar
from unittest import mock

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from stepfork._codec import (
    Opaque,
    canonical,
    collect_hint_classes,
    decode,
    encode,
    register,
    type_name,
)
from stepfork.errors import ClassChanged, RecordingDamaged, StandInTouched

T = TypeVar("T")


def through_json(value: object, **how: Any) -> Any:
    """Encode, write and read JSON, decode."""
    plain, lossy = encode(value)
    assert not lossy, plain
    return decode(msgspec.json.decode(msgspec.json.encode(plain)), **how)


def assert_comes_back(value: Any) -> None:
    """Check that a value is equal and of its type after a way through JSON."""
    back = through_json(value)
    assert type(back) is type(value)
    assert back == value


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen = (self.sku, self.count)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: tuple[int, ...] = ()


@attrs.frozen
class Point:
    x: int
    _hidden: str = "h"


@attrs.define(hash=True, cache_hash=True)
class Hashed:
    x: int = 1
    twice: int = attrs.Factory(lambda self: self.x * 2, takes_self=True)


class Tagged(msgspec.Struct, frozen=True, tag=True):
    a: int
    b: list[int] = []
    c: int | msgspec.UnsetType = msgspec.UNSET


class Strict(msgspec.Struct):
    a: int

    def __post_init__(self) -> None:
        if self.a != 1:
            raise AssertionError("__post_init__ ran")


class Model(pydantic.BaseModel):
    model_config = {"extra": "allow"}
    x: int
    url: pydantic.HttpUrl | None = None
    secret: pydantic.SecretStr | None = None
    line: Line | None = None
    _private: int = pydantic.PrivateAttr(3)

    @pydantic.field_validator("x")
    @classmethod
    def _refuse(cls, value: int) -> int:
        assert value < 10
        return value


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Box(pydantic.BaseModel, Generic[T]):
    content: T


class Pair(typing.NamedTuple):
    left: int
    right: str = "r"


class Colour(enum.Enum):
    RED = 1
    BLUE = (2, 3)


Bounded = TypeVar("Bounded", bound=Colour)


class Word(enum.StrEnum):
    YES = "yes"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Text(str):
    pass


class Many(list[Any]):
    pass


class Table(dict[Any, Any]):
    pass


class When(dt.datetime):
    pass


class Day(dt.date):
    pass


class Hour(dt.time):
    pass


class Span(dt.timedelta):
    pass


class Ordered(collections.OrderedDict[Any, Any]):
    pass


class Recent(collections.deque[Any]):
    pass


class Grouped(collections.defaultdict[Any, Any]):
    pass


class Unique(set[Any]):
    pass


class Amount(decimal.Decimal):
    pass


class Raw(bytes):
    pass


class Number(int):
    pass


class Ratio(float):
    pass


class Slotted:
    __slots__ = ("__hidden", "shown")
    __hidden: set[int]
    shown: tuple[int, ...]

    def __init__(self) -> None:
        raise AssertionError("__init__ ran")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.__hidden == other.__hidden and self.shown == other.shown

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def made(cls) -> Slotted:
        slotted = cls.__new__(cls)
        slotted.__hidden, slotted.shown = {1}, (2,)
        return slotted


class Node:
    """A plain object, with whatever attributes."""

    children: tuple[Node, ...]
    parent: Node
    k: Any

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Missing:
    """A sentinel, of which there is one."""


MISSING = Missing()


class Guarded:
    """A class that does something when an instance is deleted."""

    def __del__(self) -> None:
        self.__dict__.get("deleted", []).append(True)


def module_function() -> None:
    """Is found by its name."""


tagged_list = Many([1, 2])
tagged_list.tag = "t"  # type: ignore[attr-defined]

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


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([1, 2], ">i2"),
        np.array([2**63], np.uint64),
        np.array(["é", "x"]),
        np.array([b"a\x00b"]),
        np.array([1 + 2j]),
        np.array([[1, "a"], [None, (2,)]], object),
        np.zeros(20_000, np.float32),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(3),
        np.zeros((0, 3)),
        np.array(["2026-11-30"], "M8[D]"),
        np.arange(4)[::2],
    ],
    ids=lambda array: f"{array.dtype}",
)
def test_an_array_comes_back_with_its_dtype_and_shape(array: Any) -> None:
    """Arrays of numbers, text, objects and records are brought back exactly (B32)."""
    back = through_json({"array": array})["array"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert (back == array).all()
    assert back.flags.writeable


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


def test_fold_and_zone_of_an_ambiguous_hour_come_back() -> None:
    """The second 2:30 of the night on which the clocks change is not the first (B32)."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    back = through_json(dt.datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1))
    assert (back.fold, back.tzinfo, back.utcoffset()) == (1, berlin, dt.timedelta(hours=1))


def test_the_order_of_a_dict_is_kept() -> None:
    """Keys come back in the order in which they were put in, also where they need tags."""
    assert list(through_json({"b": 1, "a": (2,)})) == ["b", "a"]
    assert list(through_json({"b": 1, 0: 2, "a": 3})) == ["b", 0, "a"]


def test_a_set_is_written_the_same_in_every_process() -> None:
    """Sets have no order, so their recorded form is sorted and does not depend on the hash seed."""
    code = "from stepfork._codec import *; print(canonical(encode({'a', 'b', (1, frozenset('xyz'))}).plain))"
    outputs = {run_python(code, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    assert len(outputs) == 1


def run_python(code: str, **environ: str) -> str:
    """Return what code prints in a process of its own."""
    source = str(Path(__file__).parents[1] / "src")
    env = {"PYTHONPATH": source, "PATH": "", **environ}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_value_that_needs_no_tag_is_not_copied() -> None:
    """The common case costs a look at it and no more."""
    value = {"messages": [{"role": "user", "content": "é", "n": 1, "f": 0.5, "ok": None}] * 3}
    assert encode(value).plain is value


def test_later_mutation_does_not_reach_what_was_decoded() -> None:
    """Each decoding makes new containers, so that one call cannot change what the next is served (B37)."""
    plain = encode({"a": [1], "b": (1, {"c": []})}).plain
    first = decode(plain)
    first["a"].append(2)
    first["b"][1]["c"].append(3)
    assert decode(plain) == {"a": [1], "b": (1, {"c": []})}


def test_attributes_outside_of_the_declared_fields_come_back() -> None:
    """What __post_init__ or other code sets on a dataclass or a model is part of it (B32)."""
    line = Line("a")
    line.note = "late"  # type: ignore[attr-defined]
    assert through_json(line).note == "late"
    model = Model.model_validate({"x": 1, "more": 2})
    model._private = 9
    back = through_json(model)
    assert (back._private, back.__pydantic_extra__, back.model_fields_set) == (9, {"more": 2}, {"x", "more"})


def test_no_code_of_the_class_runs_when_a_value_is_read() -> None:
    """Neither __init__ nor __post_init__, a validator or __setstate__ runs."""
    strict = Strict(1)
    strict.a = 2  # __post_init__ would refuse it
    assert through_json(strict).a == 2
    assert through_json(Model.model_construct(x=99)).x == 99
    line = Line("a", 1)
    line.count = 5
    assert through_json(line).seen == ("a", 1)


def test_an_unset_field_stays_unset() -> None:
    """A declared field that was deleted is not an error on reading."""
    line = Line("a")
    del line.tags
    assert not hasattr(through_json(line), "tags")


def test_a_cached_hash_is_not_recorded() -> None:
    """Hashes of text differ from process to process."""
    hashed = Hashed(1)
    hash(hashed)
    assert encode(hashed).plain["extra"] == {"_attrs_cached_hash": None}
    assert hash(through_json(hashed)) == hash(hashed)


def test_a_value_that_contains_itself_comes_back_so() -> None:
    """Cycles through dicts, lists, tuples, sets and objects are closed again (B11)."""
    knot: dict[str, Any] = {"n": 1}
    knot["self"] = knot
    back = through_json(knot)
    assert back["self"] is back

    inner: list[Any] = []
    inner.append(inner)
    back = through_json((inner,))
    assert back[0][0] is back[0]

    outer = (inner,)
    inner[:] = [outer]
    back = through_json(outer)
    assert back[0][0] is back

    parent = Node(name="p")
    parent.children = (Node(parent=parent), Node(parent=parent))
    back = through_json(parent)
    assert all(child.parent is back for child in back.children)

    line = Line("a")
    line.tags.append(line)  # type: ignore[arg-type]
    assert (back := through_json(line)).tags[0] is back


def test_a_cycle_through_model_struct_and_subclass_comes_back() -> None:
    """Each kind of class exists before it is filled."""
    model = Model(x=1)
    many, struct = Many(), Strict(1)
    many.append(model)
    struct.a = many  # type: ignore[assignment]
    model.line = struct  # type: ignore[assignment]
    back = through_json(model)
    assert back.line.a[0] is back


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda part: [part], lambda deep: deep[0]),
        (lambda part: (part, 1), lambda deep: deep[0]),
        (lambda part: {"k": part}, lambda deep: deep["k"]),
        (lambda part: {1: part}, lambda deep: deep[1]),
        (lambda part: frozenset([part]), lambda deep: next(iter(deep))),
        (lambda part: Node(k=part), lambda deep: deep.k),
        (lambda part: Pair(part), lambda deep: deep.left),
        (lambda part: Many([part]), lambda deep: deep[0]),
    ],
    ids=["list", "tuple", "dict", "dict with other keys", "frozenset", "object", "namedtuple", "subclass"],
)
def test_a_depth_of_two_thousand_comes_back(wrap: Callable[[Any], Any], unwrap: Callable[[Any], Any]) -> None:
    """Depth is bounded in the recorded form, not in what it stands for (B11)."""
    value: Any = "bottom"
    for _ in range(2000):
        value = wrap(value)
    back = through_json(value)
    for _ in range(2000):
        assert type(back) is type(value)
        back = unwrap(back)
    assert back == "bottom"


def test_a_deep_stack_of_the_agent_does_not_matter() -> None:
    """A call made near the recursion limit is recorded all the same (B11)."""

    def dive(left: int) -> Any:
        return encode({"a": [(1, {2})]}) if left == 0 else dive(left - 1)

    room = sys.getrecursionlimit() - len(list(stack_frames()))
    for margin in range(5, 60):
        try:
            encoded = dive(room - margin)
        except RecursionError as error:
            if inside(encode, error):
                raise
            continue
        assert encoded.lossy or decode(encoded.plain) == {"a": [(1, {2})]}


def inside(function: Callable[..., Any], error: BaseException) -> bool:
    """Whether the function was entered before the error; its first line is where it is not yet."""
    code = function.__code__
    entries = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code is code and line > code.co_firstlineno for frame, line in entries)


def stack_frames() -> Iterator[types.FrameType]:
    """Yield the frames that lie on the stack."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_what_is_reached_by_very_many_ways_is_written_once() -> None:
    """Forty lists that hold each other twice are a million millions of paths (B11)."""
    value: Any = ["leaf", (1,)]
    for _ in range(40):
        value = [value, value]
    encoded = encode(value)
    assert not encoded.lossy
    assert len(canonical(encoded.plain)) < 5000
    back = decode(encoded.plain)
    for _ in range(40):
        back = back[1]
    assert back == ["leaf", (1,)]


def test_sharing_alone_does_not_change_what_is_written() -> None:
    """Whether two equal parts are one object is chance, and must not keep a call from being found."""
    part = {"a": (1,)}
    assert encode([part, part]) == encode([{"a": (1,)}, {"a": (1,)}])


class Endless:
    """Answers every attribute with itself."""

    def __getattr__(self, name: str) -> Endless:
        return self


class Hostile:
    """Raises whatever is asked of it."""

    def __init__(self) -> None:
        self.value = 1

    def __repr__(self) -> str:
        raise SystemExit

    __str__ = __repr__
    __bool__ = __len__ = __iter__ = __call__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise SystemExit

    def __hash__(self) -> int:
        raise SystemExit

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit


def test_an_object_that_fights_back_does_not_disturb() -> None:
    """Attributes, repr and comparison of a value are never asked for (B11)."""
    assert decode(encode(Endless()).plain).anything is not None
    plain, lossy = encode({"x": [Hostile()]})
    assert (plain["x"][0]["state"], lossy) == ({"value": 1}, False)


def test_a_test_double_is_a_placeholder() -> None:
    """A Mock has any attribute, so its state says nothing (B11)."""
    for double in (mock.Mock(), mock.MagicMock(spec=Line), mock.AsyncMock()):
        plain, lossy = encode(double)
        assert (lossy, plain["repr"]) == (True, f"<{type(double).__name__} object>")


def test_resources_are_placeholders_without_addresses() -> None:
    """Locks, files, sockets, threads, generators and lambdas are named, not written (B04, B72)."""
    with tempfile.TemporaryFile() as file, socket.socket() as sock:
        values = [
            file,
            sock,
            threading.Lock(),
            threading.Thread(),
            (n for n in "a"),
            lambda: 0,
            sys,
            [].append,
        ]
        encoded = encode(values)
    assert encoded.lossy
    assert all(isinstance(part, Opaque) for part in decode(encoded.plain))
    assert not re.search(r"0x[0-9a-f]{5}|/", msgspec.json.encode(encoded.plain).decode())


def test_one_resource_does_not_cost_the_rest_of_an_object() -> None:
    """A service object keeps its data; what cannot be recorded in it is a placeholder (B04)."""
    plain, lossy = encode(Node(name="shop", lock=threading.Lock()))
    back = decode(plain)
    assert (lossy, back.name, type(back.lock)) == (True, "shop", Opaque)


def test_a_client_with_a_connection_is_not_walked_through() -> None:
    """What can be closed and entered stands for something outside (B11)."""

    class Client:
        def __init__(self) -> None:
            self.api_key = "sk-1"

        def close(self) -> None: ...

        def __enter__(self) -> None: ...

    plain, lossy = encode(Client())
    assert lossy
    assert "sk-1" not in str(plain)


def test_a_class_that_acts_on_deletion_is_not_rebuilt() -> None:
    """A recording cannot plant an object whose deletion does something (B77)."""
    plain, lossy = encode(Guarded())
    assert (lossy, "$opaque" in plain) == (True, True)
    planted: list[bool] = []
    back = decode({"$object": type_name(Guarded), "state": {"deleted": planted}})
    assert isinstance(back, Opaque)


def test_a_recording_cannot_name_what_acts_on_the_machine() -> None:
    """Neither os.system nor eval nor Popen comes out of a file (B77)."""
    for name in ("builtins:eval", "os:system", "posix:system", "subprocess:Popen", "importlib:import_module"):
        assert isinstance(decode({"$global": name}), Opaque)
    assert encode(eval).lossy


def test_nothing_is_imported_by_reading() -> None:
    """A class whose module is not loaded is a stand-in that says so when touched (B77)."""
    plain = msgspec.json.encode(encode([Line("a"), fractions.Fraction(1, 3), np.float64(1)]).plain).decode()
    output = run_python(
        f"""
        import sys, msgspec
        from stepfork._codec import *
        from stepfork.errors import StandInTouched
        before = set(sys.modules)
        line, fraction, number = decode(msgspec.json.decode({plain!r}))
        assert set(sys.modules) == before, set(sys.modules) - before
        assert encode([line, fraction, number]) == (msgspec.json.decode({plain!r}), False)
        try:
            line.sku
        except StandInTouched as error:
            print(error)
        """
    )
    assert "stand-in for test_codec:Line: its class is not loaded" in output
    assert "'sku'" in output


def test_a_stand_in_is_handed_on_as_what_it_stands_for() -> None:
    """The next call is found by the arguments that were recorded, stand-in or not."""
    plain = {"$object": "nowhere:Order", "state": {"id": {"$tuple": [1]}}}
    stand_in = decode(plain)
    assert encode({"order": stand_in}) == ({"order": plain}, False)
    assert stand_in == decode(plain)
    assert len({stand_in, decode(plain)}) == 1
    assert pickle.loads(pickle.dumps(stand_in)) == stand_in
    assert bool(stand_in)
    assert encode(decode({"$opaque": "a:B", "repr": "<B object>"})).lossy


@pytest.mark.parametrize(
    "touch",
    [
        lambda it: it.total,
        lambda it: it.total(),
        lambda it: it["total"],
        lambda it: list(it),
        lambda it: len(it),
        lambda it: it(),
        lambda it: setattr(it, "total", 1),
    ],
)
def test_touching_a_stand_in_says_what_it_stands_for(touch: Callable[[Any], object]) -> None:
    """The error names the class, and what to do."""
    with pytest.raises(StandInTouched, match="shop:Order") as caught:
        touch(decode({"$object": "shop:Order", "state": {}}))
    assert caught.value.ways_on


def test_a_stand_in_from_a_knot_can_be_written_again() -> None:
    """A part of a cycle keeps what it refers to."""
    plain = {"$shared": [[{"$object": "gone:A", "state": {"all": {"$ref": 0}}}]], "value": {"$ref": 0}}
    stand_in = decode(plain)[0]
    again = decode(encode(stand_in).plain)
    assert again == stand_in
    assert "gone:A" in repr(again)


def test_a_local_class_is_found_through_the_hints() -> None:
    """A class that no module holds comes back where the recorded function names it."""

    @dataclasses.dataclass
    class Local:
        a: int

    def ask(items: Any) -> None: ...

    ask.__annotations__["items"] = list[Annotated[dict[str, Local | None], "doc"]]
    assert isinstance(through_json(Local(1)), Opaque)
    assert through_json(Local(1), hints=[Local]) == Local(1)
    assert through_json(Local(1), hints=[dict[str, list[Local]]]) == Local(1)
    assert through_json([Local(1)], hints=collect_hint_classes(ask)) == [Local(1)]


def test_hints_lead_through_unions_type_variables_and_fields() -> None:
    """Every class that an annotation names, however deep, is collected once, the nearest first."""

    class Holder(pydantic.BaseModel):
        lines: list[Line]

    def ask(one: Any, *rest: Bounded, then: Callable[[Frozen], Pair | None]) -> Model | None: ...

    ask.__annotations__["one"] = Holder
    classes = collect_hint_classes(ask)
    assert {Holder, Line, Colour, Frozen, Pair, Model} <= set(classes)
    assert len(classes) == len(set(classes))


def test_hints_that_cannot_be_evaluated_are_left_out() -> None:
    """A name that exists for type checkers alone does not hide the others (B06)."""

    def ask(one: NotThere, two: Line) -> None: ...  # type: ignore[name-defined] # noqa: F821

    assert Line in collect_hint_classes(ask)
    assert collect_hint_classes(len) == []
    alias = typing.NewType("alias", Pair)

    def narrow(one: Any) -> None: ...

    narrow.__annotations__["one"] = alias
    assert Pair in collect_hint_classes(narrow)
    assert collect_hint_classes(mock.Mock()) == []


def test_a_class_that_has_moved_is_found_by_its_alias() -> None:
    """The name as recorded is mapped to the one now."""
    plain = {"$object": "old.place:Row", "state": {"sku": "a", "count": 2, "tags": []}, "extra": {"seen": 1}}
    back = decode(plain, aliases={"old.place:Row": type_name(Line)})
    assert (type(back), back.count) == (Line, 2)
    assert decode({"$enum": "old:Col", "name": "RED"}, aliases={"old:Col": type_name(Colour)}) is Colour.RED


@pytest.mark.parametrize(
    ("cls", "state", "filled"),
    [
        (Line, {"sku": "a"}, {"count": 1, "tags": []}),
        (Frozen, {"a": 1}, {"b": ()}),
        (Point, {"x": 1}, {"_hidden": "h"}),
        (Hashed, {"x": 4}, {"twice": 8}),
        (Tagged, {"a": 1}, {"b": [], "c": msgspec.UNSET}),
        (Model, {"x": 1}, {"url": None, "_private": 3}),
    ],
)
def test_a_field_that_is_new_takes_its_default(
    cls: type, state: dict[str, Any], filled: dict[str, Any]
) -> None:
    """A class may gain a field with a default after it was recorded."""
    back = decode({"$object": type_name(cls), "state": state})
    assert {name: getattr(back, name) for name in filled} == filled


def test_a_named_tuple_may_gain_a_field() -> None:
    """Its fields are recorded by name."""
    assert decode({"$object": type_name(Pair), "of": "namedtuple", "state": {"left": 1}}) == Pair(1, "r")


@pytest.mark.parametrize("cls", [Line, Frozen, Point, Tagged, Model, Pair])
def test_a_class_that_no_longer_fits_is_an_error_that_names_the_field(cls: type) -> None:
    """A required field that is new, or a recorded one that is gone, is said by type and name."""
    kind = {"of": "namedtuple"} if cls is Pair else {}
    required = {Line: "sku", Frozen: "a", Point: "x", Tagged: "a", Model: "x", Pair: "left"}[cls]
    with pytest.raises(ClassChanged, match=f"{cls.__name__} has changed.*'{required}' is new") as caught:
        decode({"$object": type_name(cls), **kind, "state": {}})
    assert (caught.value.type, caught.value.field) == (type_name(cls), required)
    with pytest.raises(ClassChanged, match="'bygone' is gone"):
        decode({"$object": type_name(cls), **kind, "state": {required: 1, "bygone": 2}})


def test_a_class_that_changed_its_built_in_base_is_an_error() -> None:
    """What was a text and is a plain object now cannot hold what was recorded."""
    with pytest.raises(ClassChanged, match="another built-in class"):
        decode({"$object": type_name(Node), "of": "str", "base": "x", "state": {}})


def test_a_generic_model_is_found_by_its_parameters() -> None:
    """Pydantic's parametrised models are held by no module when they are made in a function."""
    assert_comes_back(Box[dict[str, Line]](content={"a": Line("a")}))


def test_ctrl_c_passes_through() -> None:
    """A person who stops the agent in the middle of a recording stops it."""

    class Stopped: ...

    def stop(value: Stopped) -> None:
        raise KeyboardInterrupt

    register(Stopped, stop, lambda parts: Stopped())
    with pytest.raises(KeyboardInterrupt):
        encode([Stopped()])


def test_what_only_a_library_can_rebuild_is_a_placeholder() -> None:
    """A class whose state lies in C is not written as an object without state."""
    values = [np.ma.array([1, 2], mask=[False, True]), memoryview(b"x"), iter([1]), list[int]]
    plain, lossy = encode(values)
    assert lossy
    assert all("$opaque" in part for part in plain)


def test_a_member_of_an_enum_that_is_gone_is_an_error() -> None:
    """The enum and the member are named."""
    with pytest.raises(ClassChanged, match=r"Colour has changed.*'GREEN'"):
        decode({"$enum": type_name(Colour), "name": "GREEN"})


class Money:
    __slots__ = ("cents",)

    def __init__(self, cents: int) -> None:
        if not isinstance(cents, int):
            raise TypeError(cents)
        self.cents = cents


def test_a_third_party_registers_a_type_in_one_call() -> None:
    """The pair of functions is used for exactly that class, wherever it stands."""
    register(Money, lambda money: (money.cents, "EUR"), lambda parts: Money(parts[0]))
    back = through_json([{"price": Money(5)}])
    assert (type(back[0]["price"]), back[0]["price"].cents) == (Money, 5)
    with pytest.raises(ClassChanged, match="Money failed: TypeError"):
        decode({"$object": type_name(Money), "of": "value", "value": {"$tuple": ["x"]}})


@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemExit, GeneratorExit, RecursionError])
def test_a_registered_function_that_raises_costs_a_placeholder(fault: type[BaseException]) -> None:
    """A fault of a third party does not reach the agent (B11)."""

    class Broken: ...

    def fail(value: Broken) -> None:
        raise fault

    register(Broken, fail, lambda parts: Broken())
    assert encode([Broken(), 1]) == (
        [{"$opaque": type_name(Broken), "repr": f"<{Broken.__qualname__} object>"}, 1],
        True,
    )


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
        {"$object": "test_codec:Line"},
        {"$object": "test_codec:Line", "state": []},
        {"$dict": [[[], 1]]},
        {"$set": [[1]]},
        {"$enum": "test_codec:Colour"},
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


def test_what_is_too_large_becomes_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    """One value costs a bounded number of bytes; what is small beside it is kept (B11)."""
    monkeypatch.setattr("stepfork._codec.fast.MAX_SIZE", 50_000)
    monkeypatch.setattr("stepfork._codec.writing.MAX_SIZE", 50_000)
    plain, lossy = encode({"small": "s", "big": "x" * 60_000, "set": {1}})
    assert lossy
    assert (plain["small"], plain["set"]) == ("s", {"$set": [1]})
    assert plain["big"]["repr"] == "<str object, too large to record>"
    assert encode(list(range(5000))).lossy


def test_what_takes_too_long_becomes_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that one value takes is bounded as well (B11)."""
    monkeypatch.setattr("stepfork._codec.writing.MAX_SECONDS", 0.2)

    class Slow: ...

    register(Slow, lambda value: time.sleep(0.01), lambda parts: Slow())
    started = time.monotonic()
    encoded = encode([Slow() for _ in range(1000)])
    assert encoded.lossy
    assert time.monotonic() - started < 20


def test_a_value_that_another_thread_changes_is_recorded_all_the_same() -> None:
    """A dict that grows while it is walked does not raise into the agent (B11)."""
    shared: dict[Any, Any] = {"t": (1,), **{f"k{n}": [n] for n in range(50)}}
    stop = threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            shared[f"x{n % 97}"] = n
            shared.pop(f"x{(n + 50) % 97}", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            decode(encode(shared).plain)
    finally:
        stop.set()
        thread.join()


def test_canonical_bytes_do_not_depend_on_the_order_of_keys() -> None:
    """Two equal dicts have the same bytes."""
    assert canonical(encode({"b": 1, "a": (2,)}).plain) == canonical(encode({"a": (2,), "b": 1}).plain)
    assert canonical(encode({1: 1}).plain) != canonical(encode({"1": 1}).plain)


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
