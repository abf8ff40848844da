"""What the tests of the codec share: classes as agents have them, and the way through JSON."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import os
import subprocess
import sys
import textwrap
import typing
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs
import msgspec
import pydantic

from stepfork._codec import decode, encode

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


def module_function() -> None:
    """Is found by its name."""


tagged_list = Many([1, 2])
tagged_list.tag = "t"  # type: ignore[attr-defined]


def run_python(code: str, **environ: str) -> str:
    """Return what code prints in a process of its own, where this module can be imported but is not."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parent / "src"), str(here)])
    env = {"PYTHONPATH": path, "PATH": "", **environ}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
