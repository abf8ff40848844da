"""Streams are recorded as they are consumed, and nothing of them changes for the consumer."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepfork
from recorded import Recorded, record
from stepfork._codec import decode
from stepfork.errors import StandInTouched


@stepfork.tool
def leaf(number: int) -> int:
    return number


@stepfork.tool
def count(top: int) -> Generator[int, None, str]:
    yield from range(top)
    return "end"


@stepfork.tool
async def acount(top: int) -> AsyncIterator[int]:
    for number in range(top):
        yield number


def chunks(recorded: Recorded, label: str) -> list[Any]:
    """The recorded chunks of a call."""
    return [decode(item) for item in recorded.call(label).outcome.items or ()]


def test_a_generator_is_recorded_chunk_by_chunk_with_its_return_value(tmp_path: Path) -> None:
    """All that a consumer can see of a generator is in the record."""
    result = []

    def agent() -> None:
        stream = count(3)
        assert inspect.isgenerator(stream)
        try:
            while True:
                result.append(next(stream))
        except StopIteration as stop:
            result.append(stop.value)

    recorded = record(tmp_path / "run.jsonl", agent)

    assert result == [0, 1, 2, "end"]
    assert chunks(recorded, "count#1") == [0, 1, 2]
    assert recorded.call("count#1").outcome.status == "returned"
    assert decode(recorded.call("count#1").outcome.value) == "end"


@pytest.mark.anyio
async def test_an_async_generator_is_recorded_chunk_by_chunk(tmp_path: Path) -> None:
    """Async generator functions are no sync functions (B02)."""
    recorded = Recorded(tmp_path / "run.jsonl")
    async with recorded:
        stream = acount(2)
        assert inspect.isasyncgen(stream)
        assert [number async for number in stream] == [0, 1]

    assert chunks(recorded, "acount#1") == [0, 1]
    assert recorded.call("acount#1").outcome.shape == "astream"


def test_send_and_throw_reach_the_generator(tmp_path: Path) -> None:
    """A coroutine-style generator works as if it were not decorated."""

    @stepfork.tool
    def echo() -> Generator[str, str, None]:
        said = yield "ready"
        try:
            yield said.upper()
        except KeyError as error:
            yield f"caught {error}"

    def agent() -> None:
        stream = echo()
        assert [next(stream), stream.send("hello"), stream.throw(KeyError(1))] == [
            "ready",
            "HELLO",
            "caught 1",
        ]

    assert chunks(record(tmp_path / "run.jsonl", agent), "echo#1") == ["ready", "HELLO", "caught 1"]


@pytest.mark.parametrize("leave", ["close", "break", "drop"])
def test_a_stream_left_early_is_recorded_as_such(tmp_path: Path, leave: str) -> None:
    """The consumed chunks are kept, the generator's finally runs, it is no error (B82)."""
    finished = []

    @stepfork.tool
    def endless() -> Iterator[int]:
        try:
            number = 0
            while True:
                yield (number := number + 1)
        finally:
            finished.append(True)

    def agent() -> None:
        stream: Any = endless()
        assert [next(stream), next(stream)] == [1, 2]
        if leave == "close":
            stream.close()
        elif leave == "break":
            for _ in stream:
                break
        del stream
        gc.collect()

    recorded = record(tmp_path / "run.jsonl", agent)

    assert finished == [True]
    assert recorded.call("endless#1").outcome.status == "closed_early"
    assert chunks(recorded, "endless#1")[:2] == [1, 2]
    assert recorded.run.failure is None


def test_a_stream_that_an_exception_has_left_ends_with_the_run(tmp_path: Path) -> None:
    """(B82) The loop closes an async generator later than the run ends; it was left early all the same."""

    async def agent() -> None:
        async with recorded:
            async for item in acount(5):
                if item == 2:
                    raise LookupError(item)

    recorded = Recorded(tmp_path / "run.jsonl")
    with pytest.raises(LookupError):
        asyncio.run(agent())

    outcome = recorded.call("acount#1").outcome
    assert (outcome.status, outcome.items, outcome.shape) == ("closed_early", [0, 1, 2], "astream")


def test_leaving_an_async_stream_early_makes_no_noise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No context token is reset across a yield, whoever closes the generator (B15)."""
    closers = []

    async def agent() -> None:
        async for _ in acount(5):
            break
        stream: Any = acount(5)
        await anext(stream)
        closers.append(await asyncio.create_task(stream.aclose()))
        gc.collect()
        await asyncio.sleep(0)

    recorded = Recorded(tmp_path / "run.jsonl")
    with warnings.catch_warnings(), recorded:
        warnings.simplefilter("error")
        asyncio.run(agent())
        gc.collect()

    assert closers == [None]
    assert [recorded.call(f"acount#{number}").outcome.status for number in (1, 2)] == ["closed_early"] * 2
    assert not caplog.records


def test_an_error_in_the_middle_of_a_stream_keeps_what_came_before(tmp_path: Path) -> None:
    """A stream that breaks has chunks and an exception."""

    @stepfork.tool
    def breaking() -> Iterator[int]:
        yield 1
        raise ConnectionError("reset")

    def agent() -> None:
        with pytest.raises(ConnectionError):
            list(breaking())

    recorded = record(tmp_path / "run.jsonl", agent)

    assert chunks(recorded, "breaking#1") == [1]
    assert recorded.call("breaking#1").outcome.status == "raised"


@pytest.mark.anyio
async def test_calls_inside_a_stream_are_its_children_and_no_others(tmp_path: Path) -> None:
    """What the consumer calls between two chunks belongs to the consumer (B14)."""

    @stepfork.step
    async def stream() -> AsyncIterator[int]:
        yield leaf(1)
        yield leaf(2)

    @stepfork.step
    def sync_stream() -> Iterator[int]:
        yield leaf(1)
        yield leaf(2)

    recorded = Recorded(tmp_path / "run.jsonl")
    async with recorded:
        async for _ in stream():
            leaf(3)
        for _ in sync_stream():
            leaf(4)

    assert recorded.tree == [
        {"stream#1": ["leaf#1", "leaf#2"]},
        "leaf#1",
        "leaf#2",
        {"sync_stream#1": ["leaf#1", "leaf#2"]},
        "leaf#3",
        "leaf#4",
    ]


def test_a_returned_iterator_is_not_drained(tmp_path: Path) -> None:
    """A plain function that returns a generator or iterator is recorded as it is consumed (B83)."""
    drawn = []

    def draw() -> Iterator[int]:
        for number in range(3):
            drawn.append(number)
            yield number

    @stepfork.tool
    def generator() -> Iterator[int]:
        return draw()

    @stepfork.tool
    def iterator() -> Iterator[int]:
        return iter([7, 8])

    def agent() -> None:
        stream = generator()
        assert drawn == []
        assert next(stream) == 0
        assert drawn == [0]
        assert [*stream, *iterator()] == [1, 2, 7, 8]

    recorded = record(tmp_path / "run.jsonl", agent)

    assert chunks(recorded, "generator#1") == [0, 1, 2]
    assert chunks(recorded, "iterator#1") == [7, 8]


def test_a_stream_inside_a_result_is_not_touched(tmp_path: Path) -> None:
    """A placeholder stands for it and the call is lossy: nothing is drawn from it (B83)."""

    @stepfork.tool
    def opened() -> tuple[Iterator[int], dict[str, int]]:
        return (number for number in range(3)), {"pages": 2}

    results: list[Any] = []

    def agent() -> dict[str, int]:
        stream, meta = opened()
        results.append(stream)
        return meta

    recorded = record(tmp_path / "run.jsonl", agent)

    assert [*results.pop()] == [0, 1, 2]
    assert recorded.call("opened#1").lossy
    assert stepfork.replay(recorded.path, agent).result == {"pages": 2}
    with pytest.raises(StandInTouched, match="generator"):
        list(results.pop())


@pytest.mark.anyio
async def test_a_plain_function_may_return_something_to_await(tmp_path: Path) -> None:
    """Coroutines, tasks and futures are recorded with what they come to (B02)."""

    async def later(value: str) -> str:
        await asyncio.sleep(0)
        return value

    @stepfork.tool(name="coroutine")
    def coroutine() -> Awaitable[str]:
        return later("c")

    @stepfork.tool(name="task")
    def task() -> asyncio.Task[str]:
        return asyncio.get_running_loop().create_task(later("t"))

    recorded = Recorded(tmp_path / "run.jsonl")
    async with recorded:
        started = task()
        assert isinstance(started, asyncio.Task)
        assert (await coroutine(), await started) == ("c", "t")

    assert [recorded.outputs("coroutine"), recorded.outputs("task")] == [["c"], ["t"]]
    assert recorded.call("coroutine#1").outcome.shape == "awaitable"


def test_a_file_that_a_tool_returns_is_no_stream(tmp_path: Path) -> None:
    """What can be iterated over but is more than an iterator stays what it is."""

    @stepfork.tool
    def opened() -> Any:
        return Path(__file__).open(encoding="utf-8")

    def agent() -> None:
        with opened() as file:
            assert file.readline().startswith('"""Streams')

    assert record(tmp_path / "run.jsonl", agent).call("opened#1").lossy
