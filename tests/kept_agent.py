"""The agent of a recording that has everything in it that format 1 can say."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pydantic

import stepfork


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    id: str
    total: decimal.Decimal
    colour: Colour
    lines: list[str] = field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int


@attrs.define
class Place:
    name: str


class Parcel(msgspec.Struct):
    weight: float


class Customer(pydantic.BaseModel):
    name: str
    tags: set[str] = set()


class Refused(Exception):
    def __init__(self, order: Order) -> None:
        super().__init__(f"refused {order.id}")
        self.order = order


@stepfork.tool
def scalars() -> Any:
    """Return what JSON has no type for."""
    return [
        (1, 2),
        {3, 4},
        frozenset({"a"}),
        b"bytes",
        bytearray(b"x"),
        10**30,
        float("nan"),
        1j,
        "\ud800",
        {"$": 1},
    ]


@stepfork.tool
def moments() -> Any:
    """Return times, ids and keys that are no text."""
    moment = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
    return {
        1: moment,
        "day": moment.date(),
        "at": moment.time(),
        "took": datetime.timedelta(1),
        None: uuid.UUID(int=7),
    }


@stepfork.tool
def objects() -> Any:
    """Return objects of every kind, one of them in two places, and one that holds itself."""
    shared = Place("Berlin")
    knot: dict[str, Any] = {"name": "knot"}
    knot["itself"] = knot
    path = PurePosixPath("orders/A-17.json")
    return [Point(1, 2), shared, shared, Parcel(1.5), Customer(name="Bo"), np.arange(3), knot, path, Order]


@stepfork.tool
def lossy() -> Any:
    """Return something that cannot be recorded."""
    return {"source": (number for number in [1])}


@stepfork.tool
def book(order: Order, db: dict[str, Any]) -> str:
    """Change both in place."""
    order.lines.append("booked")
    db["orders"][order.id] = "booked"
    return order.id


@stepfork.tool
def large(text: str) -> int:
    """Take what is too large for a line."""
    return len(text)


@stepfork.model
def ask(messages: list[dict[str, str]]) -> str:
    """Answer a conversation that grows."""
    return f"answer {len(messages)}"


@stepfork.model
def stream(number: int) -> Iterator[Any]:
    """Answer in pieces, and return something."""
    yield {"delta": "a"}
    yield ("b", number)
    return


@stepfork.tool
def refuse(order: Order) -> None:
    """Raise a group with a cause and a note."""
    try:
        raise KeyError("inner")
    except KeyError as error:
        group = ExceptionGroup("several", [Refused(order), OSError(2, "two")])
        group.add_note("noted")
        raise group from error


@stepfork.step
def handle(ticket: str) -> dict[str, Any]:
    """Use them all."""
    order = Order("A-17", decimal.Decimal("12.50"), Colour.RED)
    db: dict[str, Any] = {"orders": {f"A-{number}": "open" for number in range(200)}}
    messages = [{"role": "system", "content": "s" * 1500}]
    answers = []
    for number in range(4):
        messages.append({"role": "user", "content": f"{ticket} {number}"})
        answers.append(ask(messages))
    seen = [type(each).__name__ for each in (*scalars(), *moments().values(), *objects())]
    lossy()
    booked = [book(order, db), book(order, db)]
    pieces = list(stream(1))
    first = next(stream(2))
    try:
        refuse(order)
    except ExceptionGroup as group:
        refused = [str(error) for error in group.exceptions]
    return {
        "answers": answers,
        "seen": seen,
        "booked": [*booked, *order.lines, db["orders"]["A-17"]],
        "pieces": [pieces, first],
        "refused": refused,
        "large": large("x" * 70_000),
    }
