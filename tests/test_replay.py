"""What a replay gives back, and that what it serves is what was recorded."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import Bodies, made, record, rerun, stops
from stepfork._replay.explain import ways_on
from stepfork.errors import ClassChanged, RecordingMissing, RootArgumentsError

bodies = Bodies()


@stepfork.tool
def sync(key: str) -> str:
    bodies.ran.append(key)
    return f"sync {key}"


@stepfork.tool
async def asynchronous(key: str) -> str:
    bodies.ran.append(key)
    return f"async {key}"


@stepfork.tool
def generator(key: str) -> Generator[str]:
    bodies.ran.append(key)
    yield from (f"{key}{number}" for number in range(3))


@stepfork.tool
async def async_generator(key: str) -> AsyncIterator[str]:
    bodies.ran.append(key)
    for number in range(3):
        yield f"{key}{number}"


@stepfork.tool
def returns_coroutine(key: str) -> Awaitable[str]:
    async def body() -> str:
        bodies.ran.append(key)
        return f"later {key}"

    return body()


@stepfork.tool
def returns_iterator(key: str) -> Iterator[str]:
    bodies.ran.append(key)
    return map(str.upper, [key, key])


class Client:
    @stepfork.tool
    def method(self, key: str) -> str:
        bodies.ran.append(key)
        return f"method {key}"

    @classmethod
    @stepfork.tool
    def of_class(cls, key: str) -> str:
        bodies.ran.append(key)
        return f"{cls.__name__} {key}"


@stepfork.step
async def every_flavour(key: str) -> list[Any]:
    chunks = [chunk async for chunk in async_generator(key)]
    later = [await asynchronous(key), await returns_coroutine(key)]
    plain = [
        sync(key),
        list(generator(key)),
        list(returns_iterator(key)),
        Client().method(key),
        Client.of_class(key),
    ]
    return [chunks, later, plain]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_no_body_runs_in_a_replay_whatever_its_flavour(path: Path) -> None:
    """Sync, async, generator, async generator, what a function returns, methods: all alike (B10)."""
    before, ran = bodies.ran_in(lambda: record(path, every_flavour, key="k"))
    assert ran == 8
    run, ran = bodies.ran_in(lambda: stepfork.replay(path, every_flavour))
    assert ran == 0
    assert run.result == before
    assert run.unused == []
    assert run.outcome.status == "returned"


async def _areplayed(path: Path) -> Any:
    return await stepfork.areplay(path, every_flavour)


def test_areplay_does_the_same_in_the_loop_that_runs(path: Path) -> None:
    """An async test awaits its replay; a sync one that tries so in a loop is told the way."""
    before = record(path, every_flavour, key="k")
    assert asyncio.run(_areplayed(path)).result == before

    async def wrong() -> None:
        with pytest.raises(stepfork.StepforkError, match="areplay"):
            stepfork.replay(path, every_flavour)

    asyncio.run(wrong())


def test_the_result_tells_of_calls_by_name_place_and_state(path: Path) -> None:
    """calls, called, never, steps, unused, outcome and the inputs and outputs of each call."""

    def agent() -> str:
        sync("a"), sync("b")
        return "done"

    record(path, lambda: (agent(), Client().method("left over")))
    run = stepfork.replay(path, agent)
    assert run.result == "done"
    assert run.outcome.status == "returned"
    assert [view.input for view in run.calls("sync")] == [{"key": "a"}, {"key": "b"}]
    assert [view.output for view in run.calls("sync")] == ["sync a", "sync b"]
    assert run.called("sync")
    assert run.called("sync", times=2)
    assert not run.called("sync", times=1)
    assert run.never("refund")
    assert not run.never("sync")
    assert not run.called("refund")
    assert [view.address for view in run.steps.children] == ["test#1/sync#1", "test#1/sync#2"]
    assert [view.address for view in run.unused] == ["test#1/Client.method#1"]
    assert "2 calls" not in repr(run)
    assert "3 calls" in repr(run)


class Denied(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"denied {code}")
        self.code = code


def test_the_exception_of_the_root_is_raised_by_result(path: Path) -> None:
    """The agent's own error, or a tool's recorded one with its type and attributes."""

    @stepfork.tool
    def pay() -> None:
        raise Denied(7)

    @stepfork.step
    def handle() -> None:
        pay()

    with pytest.raises(Denied), stepfork.run("test", path=path):
        handle()
    run = stepfork.replay(path, handle)
    with pytest.raises(Denied) as caught:
        _ = run.result
    assert caught.value.code == 7
    assert run.run.failure is not None
    assert run.run.failure.address == "test#1/handle#1/pay#1"


@dataclasses.dataclass
class State:
    rows: list[int]


@stepfork.tool
def book(state: State, row: int) -> int:
    state.rows.append(row)
    return len(state.rows)


def test_what_a_tool_changed_in_place_is_changed_again_on_the_live_object(path: Path) -> None:
    """The object and its inner list keep their identity; each call sees the state that it made."""

    def agent() -> Any:
        state = State([])
        rows = state.rows
        counts = [book(state, 1), book(state, 2)]
        return counts, state.rows, rows is state.rows

    assert rerun(path, agent).result == ([1, 2], [1, 2], True)


def test_changing_a_served_value_changes_nothing_that_is_served_later(path: Path) -> None:
    """Outcomes are decoded anew for each call."""

    @stepfork.tool
    def rows() -> list[int]:
        return [1]

    def agent() -> list[list[int]]:
        first = rows()
        first.append(99)
        return [first, rows()]

    record(path, agent)
    assert stepfork.replay(path, agent).result == [[1, 99], [1]]


@stepfork.tool
def save(id: str, at: str) -> dict[str, str]:
    return {"id": id, "at": at, "url": f"/orders/{id}"}


@stepfork.tool
def load(id: str) -> str:
    return f"row of {id}"


def test_ids_and_times_that_the_code_makes_flow_through_the_tools(path: Path) -> None:
    """A made uuid finds its call, and an outcome that echoes it holds the one made now (B71)."""
    seen: list[str] = []

    def agent() -> str:
        saved = save(str(uuid.uuid4()), datetime.now(UTC).isoformat())
        seen.append(saved["id"])
        assert saved["url"] == f"/orders/{saved['id']}"
        return load(saved["id"])

    record(path, agent)
    run = stepfork.replay(path, agent)
    assert run.frontiers == []
    assert run.unused == []
    assert run.result == f"row of {seen[1]}"
    assert seen[0] != seen[1]


def test_a_stream_serves_its_chunks_and_asking_for_more_is_a_frontier(path: Path) -> None:
    """What its consumer left early was never recorded (B82, B83)."""

    def two() -> list[str]:
        stream = generator("s")
        taken = [next(stream), next(stream)]
        stream.close()
        return taken

    run = rerun(path, two)
    assert run.result == ["s0", "s1"]
    assert run.frontiers == []
    assert stops(stepfork.replay(path, lambda: next(generator("s")))) == []
    more = stepfork.replay(path, lambda: list(generator("s")))
    assert stops(more) == ["generator#1"]
    assert "left after 2 chunks" in more.frontiers[0].why
    assert any(
        f"--stepfork-extend={more.frontiers[0].call.label}" in way for way in ways_on(more.frontiers[0])
    )


def test_a_root_that_streams_is_drawn_as_it_was_recorded(path: Path) -> None:
    """Its result is the chunks; one that was left early is left at the same chunk."""

    @stepfork.step
    def tell() -> Iterator[str]:
        yield sync("a")
        yield sync("b")
        yield "end"

    @stepfork.step
    async def tell_later() -> AsyncIterator[str]:
        yield await asynchronous("a")

    record(path, lambda: list(tell()))
    assert stepfork.replay(path, lambda: list(tell())).result == ["sync a", "sync b", "end"]

    async def drawn() -> list[str]:
        return [chunk async for chunk in tell_later()]

    assert rerun(path.with_name("b.jsonl"), drawn).result == ["async a"]


def test_a_class_that_no_longer_fits_is_an_error_of_the_replay(path: Path) -> None:
    """The agent's own except does not hide that a recorded value cannot be built (ClassChanged)."""

    @dataclasses.dataclass
    class Order:
        id: str

    globals()["Order"] = Order
    Order.__qualname__ = "Order"

    @stepfork.tool
    def fetch() -> Order:
        return Order("A")

    def agent() -> str:
        try:
            return fetch().id
        except BaseException:
            return "fallback"

    record(path, agent)

    @dataclasses.dataclass
    class Changed:
        id: str
        total: int

    Changed.__qualname__ = Changed.__name__ = "Order"
    globals()["Order"] = Changed
    with pytest.raises(ClassChanged, match="total"):
        stepfork.replay(path, agent)


@pytest.mark.parametrize(
    "argument", [{1: "a", (2, 3): [4]}, {1, 2}, b"\xff", "\ud83d", object, lambda: None, 10**50]
)
def test_odd_arguments_find_their_call(path: Path, argument: Any) -> None:
    """Unhashable, binary, half an emoji, a class, a function, a number beyond 64 bits."""

    @stepfork.tool
    def take(argument: Any) -> str:
        return "taken"

    run = rerun(path, lambda: take(argument))
    assert run.result == "taken"
    assert run.unused == []
    assert made(run)[0].moved_from is None


def test_an_exception_that_asks_to_wait_is_served_as_it_came(path: Path) -> None:
    """Ctrl-C and sys.exit(0) in a tool are recorded, and do not end the process that replays."""

    @stepfork.tool
    def leave(how: Callable[[], BaseException]) -> None:
        raise how()

    for number, kind in enumerate([KeyboardInterrupt, SystemExit]):
        file = path.with_name(f"{number}.jsonl")
        with pytest.raises(kind), stepfork.run("test", path=file):
            leave(kind)
        run = stepfork.replay(file, lambda kind=kind: leave(kind))
        with pytest.raises(kind):
            _ = run.result
        assert run.outcome.status == "suspended"
        assert run.run.failure is None


def test_a_missing_recording_says_where_it_was_looked_for(path: Path) -> None:
    """The path and the command that makes one (B80)."""
    with pytest.raises(RecordingMissing, match=r"run\.jsonl") as caught:
        stepfork.replay(path, lambda: None)
    assert "stepfork make-test" in str(caught.value)


def test_an_option_that_does_not_exist_is_refused(path: Path) -> None:
    """What is no option is an argument of the root, and that has none of this name."""
    record(path, lambda: sync("a"))
    with pytest.raises(RootArgumentsError, match="timeuot"):
        stepfork.replay(path, lambda: sync("a"), timeuot=3)


def test_several_calls_outside_of_any_step_are_children_of_the_recorded_root(path: Path) -> None:
    """A function that is no step itself stands for the block that was recorded, with all its calls."""
    run = rerun(path, lambda: (sync("a"), sync("b"), 3)[2])
    assert [call.address for call in run.run.root.children] == ["test#1/sync#1", "test#1/sync#2"]
    assert run.run.root.address == "test#1"
    assert run.outcome.value == 3


@stepfork.tool
def inner(key: str) -> None:
    raise LookupError(key)


@stepfork.tool
def outermost(key: str) -> None:
    inner(key)


@stepfork.step
def keeps_and_raises_later() -> None:
    try:
        outermost("x")
    except LookupError as error:
        kept = error
    sync("between")
    raise kept


def test_where_an_exception_was_first_seen_is_the_same_in_the_replay(path: Path) -> None:
    """Deep in a served tool, or kept and raised elsewhere: the failure is the recorded one."""
    with pytest.raises(LookupError):
        record(path, keeps_and_raises_later)
    run = stepfork.replay(path, keeps_and_raises_later)
    recorded = run.recording.run.failure
    assert recorded is not None
    assert recorded.address == "test#1/keeps_and_raises_later#1/outermost#1/inner#1"
    assert run.run.failure == recorded
