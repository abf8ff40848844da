"""What passes through a call of any kind is what its recording holds and what a replay serves."""

from __future__ import annotations

import asyncio
import datetime
import enum
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import pytest

import stepfork
from recorded import record
from replays import Bodies
from stepfork._codec import decode

bodies = Bodies()


def look_at(value: Any) -> Any:
    """What the body of each of them does."""
    bodies.ran.append(value)
    return value


@stepfork.tool
def sync(value: Any) -> Any:
    return look_at(value)


@stepfork.tool
async def coroutine(value: Any) -> Any:
    await asyncio.sleep(0)
    return look_at(value)


@stepfork.tool
def generator(value: Any) -> Iterator[Any]:
    yield look_at(value)


@stepfork.tool
async def async_generator(value: Any) -> AsyncIterator[Any]:
    await asyncio.sleep(0)
    yield look_at(value)


async def _awaited(value: Any) -> Any:
    return await coroutine(value)


async def _first_of(value: Any) -> Any:
    (item,) = [item async for item in async_generator(value)]
    return item


def gives(name: str, value: Any) -> Any:
    """Return the value that comes out of the tool of this kind."""
    if name == "sync":
        return sync(value)
    if name == "generator":
        (item,) = generator(value)
        return item
    return asyncio.run(_awaited(value) if name == "coroutine" else _first_of(value))


every_kind = pytest.mark.parametrize("name", ["sync", "coroutine", "generator", "async_generator"])


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Order:
    sku: str
    prices: tuple[float, ...]


class Reply(pydantic.BaseModel):
    text: str
    sent: datetime.datetime


NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
VALUES: list[Any] = [
    *(float("nan"), float("inf"), -float("inf"), Decimal("NaN"), Decimal("1.10")),
    *((1, "a"), {1, 2}, frozenset({"a"}), b"\x00\xff", NOON, Colour.RED, Point(1, 2)),
    *(Order("A-17", (1.5,)), Reply(text="hello", sent=NOON), {1: "one", "1": "text", None: ()}),
    *("\ud83d", "\ude00", "\U0001f600", "a\x00b\r\n"),
    *(2**63, 2**64, 2**70, -(2**70), 19933688932870350000, 10**5000),
]


def is_the_same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type; NaN is NaN."""
    return type(one) is type(other) and bool(one == other or (one != one and other != other))


@every_kind
def test_values_come_back_as_they_were_from_a_call_of_any_kind(tmp_path: Path, name: str) -> None:
    """As arguments and as results, NaN, tuples, models, halves of an emoji, ints (B31, B32, B34, B35)."""

    def agent() -> list[Any]:
        return [gives(name, value) for value in VALUES]

    recorded = record(tmp_path / "run.jsonl", agent)
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(tmp_path / "run.jsonl", agent))

    assert ran == 0
    for served in (replayed.result, [each["value"] for each in recorded.inputs(name)]):
        assert len(served) == len(VALUES)
        assert [each for each, was in zip(served, VALUES, strict=True) if not is_the_same(each, was)] == []
    assert not any(call.lossy for call in recorded.run.walk())
    recorded.path.read_text(encoding="utf-8")


@every_kind
def test_what_a_caller_changes_later_is_not_in_the_recording_of_a_call_of_any_kind(
    tmp_path: Path, name: str
) -> None:
    """Neither its argument nor its result; what a replay serves is new each time (B37)."""

    def agent() -> list[list[str]]:
        messages = ["hello"]
        first = gives(name, messages)
        messages.append("later")
        first.append("changed")
        again = gives(name, ["hello"])
        assert again == ["hello"]
        return [first, again]

    recorded = record(tmp_path / "run.jsonl", agent)

    assert recorded.inputs(name) == [{"value": ["hello"]}] * 2
    outcomes = [call.outcome for call in recorded.run.walk() if call.name == name]
    results = [outcome.items[0] if outcome.items else outcome.value for outcome in outcomes]
    assert [decode(result) for result in results] == [["hello"]] * 2
    served = stepfork.replay(recorded.path, agent).result[1]
    assert served == ["hello"]


@every_kind
def test_calls_of_any_kind_in_threads_are_all_recorded_and_found_by_their_arguments(
    tmp_path: Path, name: str
) -> None:
    """From a pool of 8 no call is lost; started in another order each gets its own (B17, B22, B24)."""
    keys = [f"A-{number}" for number in range(48)]

    def agent(keys: list[str]) -> dict[str, Any]:
        with ThreadPoolExecutor(8) as pool:
            return dict(zip(keys, pool.map(lambda key: gives(name, key), keys), strict=True))

    recorded = record(tmp_path / "run.jsonl", lambda: agent(keys))
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(recorded.path, lambda: agent(keys[::-1])))

    assert sorted(each["value"] for each in recorded.inputs(name)) == sorted(keys)
    assert replayed.result == {key: key for key in keys}
    assert ran == 0
