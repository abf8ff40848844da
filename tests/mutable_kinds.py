"""Values of every kind that a tool can change in place, each with a change."""

from __future__ import annotations

import array
import dataclasses
import io
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import attrs
import msgspec
import numpy as np
import pandas as pd
import pydantic


@dataclasses.dataclass
class Order:
    id: str
    lines: list[dict[str, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    lines: list[int]


class Struct(msgspec.Struct):
    a: int
    lines: list[int]


@attrs.define
class Attrs:
    a: int
    lines: list[int]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", validate_assignment=True)
    a: int = 0
    lines: list[int] = []
    _hidden: int = 1


class Plain:
    def __init__(self) -> None:
        self.a = 1
        self.lines = [1]


class Slotted:
    __slots__ = ("a", "lines")

    def __init__(self) -> None:
        self.a = 1


class Rows(list[int]):
    pass


class Table(dict[str, int]):
    def __init__(self) -> None:
        super().__init__(k=1)
        self.log = ["made"]


Pair = namedtuple("Pair", "a b")


def _shared() -> dict[str, Any]:
    row = {"n": 1}
    return {"first": row, "second": row}


def _deep() -> list[Any]:
    value: list[Any] = [1]
    for _ in range(150):
        value = [value]
    return value


def _grow(value: Any) -> None:
    value.lines.append(5)
    value.a = 7


def _hide(value: Any) -> None:
    value._hidden = 2
    value.more = 3


def _log(value: Any) -> None:
    value["k"] = 2
    value.log.append("changed")


KINDS: list[tuple[Any, Any]] = [
    (lambda: Order("A-17", [{"n": 1}]), lambda value: value.lines[0].update(n=2)),
    (lambda: [Frozen([1])], lambda value: value[0].lines.append(2)),
    (lambda: Struct(1, [1]), _grow),
    (lambda: Attrs(1, [1]), _grow),
    (lambda: Model(a=1, lines=[1]), _grow),
    (lambda: Model(), _hide),
    (Plain, _grow),
    (Plain, lambda value: delattr(value, "a")),
    (Slotted, lambda value: setattr(value, "lines", [2])),
    (lambda: Rows([1, 2]), lambda value: value.append(3)),
    (Table, _log),
    (lambda: {"pair": Pair([1], 2)}, lambda value: value["pair"].a.append(2)),
    (lambda: deque([1, 2], 5), lambda value: value.appendleft(0)),
    (lambda: OrderedDict(a=1, b=2), lambda value: value.move_to_end("a")),
    (lambda: defaultdict(list, a=[1]), lambda value: value["b"].append(2)),
    (lambda: Counter("ab"), lambda value: value.update("a")),
    (lambda: pd.DataFrame({"a": [1, 2]}), lambda value: value.insert(1, "b", ["x", "y"])),
    (lambda: [pd.Series([1.0, 2.0])], lambda value: value[0].pop(0)),
    (lambda: {"at": pd.Timestamp(0)}, lambda value: value.update(at=pd.Timestamp(1))),
    (lambda: array.array("i", [1]), lambda value: value.append(2)),
    (lambda: io.BytesIO(b"ab"), lambda value: value.read(1)),
    (lambda: [range(3)], lambda value: value.__setitem__(0, range(4))),
    (lambda: np.zeros(3), lambda value: value.put(1, 5)),
    (lambda: [np.zeros((2, 2))], lambda value: value[0].fill(2)),
    (lambda: {"at": np.float64(1)}, lambda value: value.update(at=np.float64(2))),
    (lambda: bytearray(b"ab"), lambda value: value.extend(b"c")),
    (lambda: {1, 2}, lambda value: value.add(3)),
    (lambda: {1: [1], (2, 3): 4}, lambda value: value[1].append(2)),
    (_shared, lambda value: value["first"].update(n=2)),
    (_deep, lambda value: value[0].append(1)),
]
