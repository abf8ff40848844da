"""Outcomes of calls that overlapped come in the recorded order, and nobody is kept waiting for it.

The recordings are written by hand here, so that any spans can be had.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from properties import thoroughly
from replays import record
from stepfork._calls import Call, Outcome
from stepfork._events import (
    FORMAT_VERSION,
    CallEnded,
    CallStarted,
    Event,
    ItemYielded,
    RunEnded,
    RunStarted,
    encode_line,
)
from stepfork._recording import read_run
from stepfork._replay.arrival import arrivals_of
from stepfork._replay.overlaps import ended_together, overlapping
from stepfork._replay.result import Replayed
from stepfork.errors import ReplayStopped

SECONDS = 0.01
"""Between two lines of a recording."""


@stepfork.tool
async def get(key: str) -> str:
    raise AssertionError(key)


@stepfork.tool
def read(key: str) -> str:
    raise AssertionError(key)


@stepfork.model
async def stream(key: str) -> AsyncIterator[str]:
    raise AssertionError(key)
    yield ""


@stepfork.model
def pieces(key: str) -> Iterator[str]:
    raise AssertionError(key)
    yield ""


def written(
    path: Path, name: str, moments: Iterable[str], *, shape: Any = "value", apart: float = SECONDS
) -> Path:
    """Write a run: each moment is ``+a`` (the call about a starts), ``.a`` (a chunk) or ``-a`` (its end)."""
    lines: list[Event] = [
        RunStarted(FORMAT_VERSION, "r1", "test", "0", 0.0, 1),
        CallStarted("test#1", "step", {}),
    ]
    numbers: dict[str, int] = {}
    chunks: dict[str, int] = {}
    at = 0.0
    for moment in moments:
        at += apart
        kind, key = moment[0], moment[1:]
        number = numbers.setdefault(key, len(numbers) + 1)
        address = f"test#1/{name}#{number}"
        match kind:
            case "+":
                lines.append(CallStarted(address, "tool", {"key": key}, at))
            case ".":
                chunks[key] = chunks.get(key, 0) + 1
                lines.append(ItemYielded(address, f"{key}{chunks[key]}"))
            case "-":
                value = None if shape != "value" else f"<{key}>"
                lines.append(CallEnded(address, "returned", value, shape, at=at))
    lines += [CallEnded("test#1", "returned", None, at=at), RunEnded(at)]
    path.write_bytes(b"".join(map(encode_line, lines)))
    return path


def fan_out(keys: Iterable[str], seen: list[str]) -> Callable[[], Any]:
    """Return an agent that asks about all of these at once and notes what comes as it comes."""

    async def agent() -> None:
        async def one(key: str) -> None:
            await get(key)
            seen.append(key)

        await asyncio.gather(*map(one, keys))

    return agent


def threads_out(keys: Iterable[str], seen: list[str]) -> Callable[[], Any]:
    """The same with a thread for each."""

    def one(key: str) -> None:
        read(key)
        seen.append(key)

    def agent() -> None:
        threads = [threading.Thread(target=one, args=(key,)) for key in keys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return agent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


REVERSED = ["+a", "+b", "+c", "-c", "-b", "-a"]


@pytest.mark.parametrize(("name", "spread"), [("get", fan_out), ("read", threads_out)])
def test_outcomes_come_in_the_recorded_order(path: Path, name: str, spread: Any) -> None:
    """Whatever was asked first."""
    written(path, name, REVERSED)
    for keys in ("abc", "cba", "bca"):
        seen: list[str] = []
        assert stepfork.replay(path, spread(keys, seen)).unused == []
        assert seen == ["c", "b", "a"]


def test_a_run_without_overlaps_has_no_order_of_arrivals(path: Path) -> None:
    """Nothing is looked at in its replays."""
    run = read_run(written(path, "get", ["+a", "-a", "+b", "-b"]))
    assert overlapping(run.root) == []
    assert arrivals_of(run.root, int, int) is None


def test_all_calls_that_overlap_are_found_and_no_others(path: Path) -> None:
    """Also one that began before another and ended after it."""
    run = read_run(written(path, "get", ["+a", "-a", "+b", "+c", "-c", "+d", "-d", "-b", "+e", "-e"]))
    assert {call.input["key"] for call in overlapping(run.root)} == {"b", "c", "d"}


def test_what_is_inside_a_tool_does_not_overlap_it() -> None:
    """A tool that calls tools is answered as a whole."""
    inner = Call("tool", "get", "test#1/outer#1/get#1", {}, Outcome("returned"), span=(3, 4))
    outer = Call("tool", "outer", "test#1/outer#1", {}, Outcome("returned"), children=[inner], span=(2, 5))
    assert overlapping(Call("step", "test", "test#1", {}, Outcome("returned"), children=[outer])) == []


@pytest.mark.parametrize(("name", "spread"), [("get", fan_out), ("read", threads_out)])
@pytest.mark.parametrize("left", ["a", "b", "c", "ab", "ac", "bc"])
def test_a_fixed_agent_that_asks_less_gets_the_rest_in_order(
    path: Path, left: str, name: str, spread: Any
) -> None:
    """What is not asked any more holds nobody up for long."""
    written(path, name, REVERSED)
    seen: list[str] = []
    run = stepfork.replay(path, spread(left, seen), timeout=20)
    assert not run.timed_out
    assert seen == sorted(left, reverse=True)


@pytest.mark.parametrize(("name", "spread"), [("get", fan_out), ("read", threads_out)])
@pytest.mark.parametrize("asked", ["abc", "ab"])
def test_a_clock_that_a_test_has_stopped_holds_nobody_up(
    path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, name: str, spread: Any
) -> None:
    """Tests freeze the time, in the midst of other threads too."""
    written(path, name, REVERSED)
    seen: list[str] = []
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    with monkeypatch.context() as frozen:
        for clock in ("monotonic", "perf_counter", "time"):
            frozen.setattr(time, clock, lambda: 1000.0)
        run = stepfork.replay(path, spread(asked, seen), timeout=5)
    done.set()
    other.join()
    assert not run.timed_out
    assert seen == sorted(asked, reverse=True)


def test_a_fixed_agent_that_asks_one_after_the_other_gets_its_answers(path: Path) -> None:
    """What came first in the recording cannot be asked before the other has come."""
    written(path, "get", REVERSED)

    async def agent() -> list[str]:
        return [await get(key) for key in "abc"]

    run = stepfork.replay(path, agent, timeout=20)
    assert run.result == ["<a>", "<b>", "<c>"]


def test_a_call_made_only_after_a_sleep_is_waited_for(path: Path) -> None:
    """In the recording it had come back before the other did."""
    written(path, "get", ["+a", "+b", "-b", "-a"], apart=0.05)
    seen: list[str] = []

    async def agent() -> None:
        async def late() -> None:
            await asyncio.sleep(0.03)
            await get("b")
            seen.append("b")

        async def early() -> None:
            await get("a")
            seen.append("a")

        await asyncio.gather(early(), late())

    assert stepfork.replay(path, agent).unused == []
    assert seen == ["b", "a"]


def test_chunks_of_parallel_streams_come_as_they_came(path: Path) -> None:
    """One by one, and not each stream as a whole."""
    moments = ["+a", "+b", ".b", ".a", ".a", ".b", "-b", ".a", "-a"]
    written(path, "stream", moments, shape="astream")
    seen: list[str] = []

    async def agent() -> None:
        async def one(key: str) -> None:
            async for piece in stream(key):
                seen.append(piece)
            seen.append(key)

        await asyncio.gather(one("a"), one("b"))

    stepfork.replay(path, agent)
    assert seen == ["b1", "a1", "a2", "b2", "b", "a3", "a"]


def test_chunks_in_threads_come_as_they_came(path: Path) -> None:
    """The same for plain generators, each drawn by a thread."""
    moments = ["+a", "+b", ".b", ".a", ".a", ".b", "-b", ".a", "-a"]
    written(path, "pieces", moments, shape="stream")
    seen: list[str] = []

    def one(key: str) -> None:
        for piece in pieces(key):
            seen.append(piece)

    def agent() -> None:
        with ThreadPoolExecutor() as pool:
            for key in "ab":
                pool.submit(one, key)

    stepfork.replay(path, agent)
    assert seen == ["b1", "a1", "a2", "b2", "a3"]


def test_several_that_one_turn_of_the_loop_brought_come_together(path: Path) -> None:
    """An agent that takes up all that is done takes up the same again."""
    written(path, "get", ["+a", "+b", "+c", "-c", "-a", "+d", "-d", "-b"], apart=0.0005)
    batches: list[list[str]] = []

    async def agent() -> None:
        tasks = {asyncio.create_task(get(key)): key for key in "abc"}
        pending = set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            batches.append(sorted(tasks[task] for task in done))
            if len(batches) == 1:
                await get("d")

    root = read_run(path).root
    assert len(list(ended_together(root, overlapping(root)))) == 2
    stepfork.replay(path, agent)
    assert batches == [["a", "c"], ["b"]]


def test_any_number_may_come_together(path: Path) -> None:
    """As many as a stack is deep are no more than any others."""
    keys = [str(number) for number in range(sys.getrecursionlimit() + 100)]
    written(path, "get", [f"{sign}{key}" for sign in "+-" for key in keys], apart=0.00001)
    seen: list[str] = []
    assert not stepfork.replay(path, fan_out(keys, seen)).timed_out
    assert seen == keys


def test_a_sync_call_on_the_thread_of_an_event_loop_never_waits(path: Path) -> None:
    """Whoever it would wait for could not run."""
    written(path, "read", REVERSED)

    async def agent() -> list[str]:
        return [read(key) for key in "abc"]

    assert stepfork.replay(path, agent, timeout=20).result == ["<a>", "<b>", "<c>"]


def test_a_thread_does_not_wait_for_ever_for_a_loop_that_waits_for_it(path: Path) -> None:
    """A coroutine blocks its loop until the thread is done, and another task's answer should come before."""
    written(path, "get", ["+a", "+b", "-a", "-b"])
    seen: list[str] = []

    async def agent() -> None:
        async def waits() -> None:
            await get("a")
            seen.append("a")

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        thread = threading.Thread(target=lambda: seen.append(asyncio.run(get_b())))
        thread.start()
        thread.join()
        await task

    async def get_b() -> str:
        return await get("b")

    run = stepfork.replay(path, agent, timeout=30)
    assert not run.timed_out
    assert sorted(seen) == ["<b>", "a"]


def test_a_coroutine_that_no_loop_drives_is_answered_at_once(path: Path) -> None:
    """There is no future that it could wait for."""
    written(path, "get", REVERSED)

    def agent() -> Any:
        with pytest.raises(StopIteration) as stopped:
            get("a").send(None)
        return stopped.value.value

    assert stepfork.replay(path, agent).result == "<a>"


def test_an_injected_outcome_comes_in_the_place_of_the_recorded_one(path: Path) -> None:
    """What stands in for an outcome comes when that would have come."""
    written(path, "get", REVERSED)
    seen: list[str] = []
    run = stepfork.replay(path, fan_out("abc", seen), override={"get#2": "other"})
    assert seen == ["c", "b", "a"]
    assert run.error is None


def test_a_frontier_among_parallel_calls_holds_nobody_up(path: Path) -> None:
    """The call that is not recorded stops at once; the others are answered."""
    written(path, "get", REVERSED)
    seen: list[str] = []

    async def agent() -> None:
        async def one(key: str) -> None:
            try:
                await get(key)
                seen.append(key)
            except ReplayStopped:
                seen.append("stopped")

        await asyncio.gather(*map(one, ("a", "new", "c")))

    run = stepfork.replay(path, agent, timeout=20)
    assert [frontier.call.input["key"] for frontier in run.frontiers] == ["new"]
    assert seen == ["stopped", "c", "a"]


def test_who_is_cancelled_while_it_waits_makes_room(path: Path) -> None:
    """The next one comes."""
    written(path, "get", REVERSED)

    async def agent() -> str:
        tasks = [asyncio.create_task(get(key)) for key in "abc"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[2].cancel()
        return await tasks[0]

    assert stepfork.replay(path, agent, timeout=20).result == "<a>"


def test_a_task_that_spins_until_a_call_is_back_does_not_hold_it_up(path: Path) -> None:
    """An event loop that is never idle is not waited for."""
    written(path, "get", REVERSED)
    seen: list[str] = []

    async def agent() -> None:
        task = asyncio.create_task(fan_out("abc", seen)())
        while not task.done():
            await asyncio.sleep(0)

    assert not stepfork.replay(path, agent, timeout=20).timed_out
    assert seen == ["c", "b", "a"]


def test_a_thread_that_computes_does_not_hold_calls_up_for_long(path: Path) -> None:
    """A process that is never still is not waited for."""
    written(path, "read", REVERSED)
    seen: list[str] = []

    def agent() -> None:
        over = threading.Event()

        def compute() -> None:
            while not over.is_set():
                sum(range(1000))

        computing = threading.Thread(target=compute, daemon=True)
        computing.start()
        try:
            threads_out("abc", seen)()
        finally:
            over.set()
            computing.join()

    assert not stepfork.replay(path, agent, timeout=30).timed_out
    assert sorted(seen) == ["a", "b", "c"]


def test_what_runs_on_after_the_root_comes_in_order_too(path: Path) -> None:
    """Tasks that the root left behind reach their end as they did."""
    written(path, "get", REVERSED)
    seen: list[str] = []
    tasks: list[Any] = []

    async def agent() -> None:
        tasks.append(asyncio.create_task(fan_out("abc", seen)()))
        await asyncio.sleep(0)

    stepfork.replay(path, agent)
    assert seen == ["c", "b", "a"]


def test_futures_that_were_done_before_somebody_looked_come_in_order(path: Path) -> None:
    """``as_completed`` takes what is done already in any order: nothing is, before it waits."""
    written(path, "read", REVERSED)
    for _ in range(10):

        def agent() -> list[str]:
            with ThreadPoolExecutor() as pool:
                futures = [pool.submit(read, key) for key in "abc"]
                sum(range(20_000))
                return [future.result() for future in as_completed(futures)]

        assert stepfork.replay(path, agent).result == ["<c>", "<b>", "<a>"]


LOOKERS = """
import gc, threading, time
from stepfork._frames import current_frames

gc.callbacks.append(lambda *_: time.sleep(0.0005))
gc.set_threshold(1)

def deeper(levels):
    if levels:
        return deeper(levels - 1)
    time.sleep(0.0001)
    return current_frames()

def work():
    for _ in range(30):
        deeper(5)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert gc.isenabled()
"""


def test_threads_that_look_at_each_other_never_wait_for_each_other() -> None:
    """Whatever the collector runs meanwhile; CPython 3.11 itself would stand still for ever."""
    subprocess.run([sys.executable, "-c", LOOKERS], check=True, timeout=60)


def test_the_time_limit_ends_a_wait(path: Path) -> None:
    """A replay that waits for its turn is stopped like any other."""
    record(path, lambda: None)
    written(path, "read", REVERSED)
    stopped = threading.Event()

    def agent() -> None:
        threading.Thread(target=lambda: stopped.wait(5)).start()
        read("a")
        stopped.wait(5)

    run: Replayed = stepfork.replay(path, agent, timeout=0.5)
    stopped.set()
    assert run.timed_out


KEYS = "abcdef"


@st.composite
def fan_outs(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Make a recording's moments, and which of its calls are made now, in which order."""
    open_keys: list[str] = []
    waiting = list(KEYS[: draw(st.integers(2, len(KEYS)))])
    moments: list[str] = []
    made = draw(st.permutations(waiting))
    while waiting or open_keys:
        if waiting and (not open_keys or draw(st.booleans())):
            open_keys.append(waiting.pop(0))
            moments.append(f"+{open_keys[-1]}")
        else:
            key = open_keys.pop(draw(st.integers(0, len(open_keys) - 1)))
            moments.append(f"-{key}")
    omitted = draw(st.sets(st.sampled_from(made), max_size=2))
    return moments, [key for key in made if key not in omitted]


def arrived_in_order(path: Path, seen: list[str]) -> bool:
    """Whether those that overlapped some call came as they did in the recording."""
    ends = {call.input["key"]: call.span[1] for call in overlapping(read_run(path).root)}
    came = [ends[key] for key in seen if key in ends]
    return came == sorted(came)


@thoroughly(100)
@given(fan_outs())
def test_any_fan_out_comes_in_its_recorded_order(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[str], list[str]]
) -> None:
    """Whatever the spans, and whichever calls are missing now: never a hang, always the order."""
    moments, made = drawn
    path = written(tmp_path_factory.mktemp("fan") / "run.jsonl", "get", moments, apart=0.001)
    seen: list[str] = []
    run = stepfork.replay(path, fan_out(made, seen), timeout=20)
    assert not run.timed_out
    assert sorted(seen) == sorted(made)
    assert arrived_in_order(path, seen)


@thoroughly(40)
@given(fan_outs())
def test_any_fan_out_of_threads_comes_in_its_recorded_order(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[str], list[str]]
) -> None:
    """The same for threads."""
    moments, made = drawn
    path = written(tmp_path_factory.mktemp("fan") / "run.jsonl", "read", moments, apart=0.001)
    seen: list[str] = []
    run = stepfork.replay(path, threads_out(made, seen), timeout=20)
    assert not run.timed_out
    assert sorted(seen) == sorted(made)
    assert arrived_in_order(path, seen)
