"""Many runs at once in one process, and many threads in one run: no call is lost, none in the wrong run."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

import stepfork
from recorded import Recorded
from stepfork._codec import decode
from stepfork._recording import read_run

PROCESSES = 8


@stepfork.tool
def look(run: int, call: int) -> str:
    return f"{run}/{call}"


@stepfork.tool
async def fetch(run: int, call: int) -> str:
    await asyncio.sleep(0)
    return f"{run}/{call}"


@stepfork.step
def part(run: int, calls: list[int]) -> list[str]:
    return [look(run, call) for call in calls]


@stepfork.step
async def apart(run: int, calls: list[int]) -> list[str]:
    return list(await asyncio.gather(*(fetch(run, call) for call in calls)))


def sync_run(folder: Path, run: int, calls: int) -> None:
    """One run: half of its calls in a step, half from two threads of a pool."""
    with stepfork.run("test", path=folder / f"{run}.jsonl", run=run):
        half = calls // 2
        assert part(run, [*range(half)]) == [f"{run}/{call}" for call in range(half)]
        with ThreadPoolExecutor(2) as pool:
            rest = [*pool.map(look, [run] * (calls - half), range(half, calls))]
        assert rest == [f"{run}/{call}" for call in range(half, calls)]


async def async_run(folder: Path, run: int, calls: int) -> None:
    """One run: its calls in two steps at once, one by one call or all at once."""
    async with stepfork.run("test", path=folder / f"{run}.jsonl", run=run):
        half = calls // 2
        first, second = await asyncio.gather(apart(run, [*range(half)]), apart(run, [*range(half, calls)]))
        assert [*first, *second] == [f"{run}/{call}" for call in range(calls)]


def in_asyncio(folder: Path, runs: Iterable[int], calls: int) -> None:
    """All runs are tasks of one event loop."""

    async def everything() -> None:
        await asyncio.gather(*(async_run(folder, run, calls) for run in runs))

    asyncio.run(everything())


def in_threads(folder: Path, runs: Iterable[int], calls: int) -> None:
    """Each run has a thread; all begin at the same moment."""
    everything = list(runs)
    barrier = threading.Barrier(len(everything))
    faults: list[BaseException] = []

    def one(run: int) -> None:
        try:
            barrier.wait()
            sync_run(folder, run, calls)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one, args=(run,)) for run in everything]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def in_processes(folder: Path, runs: Iterable[int], calls: int) -> None:
    """Eight processes, each with its share of the runs in threads."""
    everything = list(runs)
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = [everything[start::PROCESSES] for start in range(PROCESSES)]
        for done in [pool.submit(in_threads, folder, share, calls) for share in shares if share]:
            done.result()


WAYS = [in_asyncio, in_threads, in_processes]


def check(way: Callable[[Path, Iterable[int], int], None], folder: Path, runs: int, calls: int) -> None:
    """Run them all; each file must hold its own calls, each with its own answer, and no other."""
    way(folder, range(runs), calls)

    assert len([*folder.glob("*.jsonl")]) == runs
    for number in range(runs):
        run = read_run(folder / f"{number}.jsonl")
        made = [call for call in run.walk() if call.kind == "tool"]
        assert sorted((call.input["run"], call.input["call"]) for call in made) == [
            (number, call) for call in range(calls)
        ]
        assert all(decode(call.outcome.value) == f"{call.input['run']}/{call.input['call']}" for call in made)
        assert run.ended
        assert not run.incomplete


@pytest.mark.parametrize("way", WAYS[:2])
def test_twenty_runs_at_once_are_kept_apart(
    tmp_path: Path, way: Callable[[Path, Iterable[int], int], None]
) -> None:
    """As tasks, and as threads with pools of their own: 20 calls each (B17, B22)."""
    check(way, tmp_path, 20, 20)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_hundred_runs_at_once_are_kept_apart(
    tmp_path: Path, way: Callable[[Path, Iterable[int], int], None]
) -> None:
    """As tasks, as threads and in eight processes: 100 calls each (B17, B22)."""
    check(way, tmp_path, 100, 100)


@pytest.mark.parametrize("number", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_threads_that_call_one_tool_at_once_are_all_recorded(tmp_path: Path, number: int) -> None:
    """Each thread is alive when the first call is made, and each has its own answer (B22)."""
    barrier = threading.Barrier(number)
    answers: dict[int, str] = {}

    def one(call: int) -> None:
        barrier.wait()
        answers[call] = look(0, call)

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        threads = [threading.Thread(target=one, args=(call,)) for call in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(call["call"] for call in recorded.inputs("look")) == [*range(number)]
    assert sorted(answers.values()) == sorted(recorded.outputs("look"))


def test_equal_calls_at_once_are_numbered_as_they_started(tmp_path: Path) -> None:
    """Whichever ends first, each number has the answer of the call that started at that place (B20)."""
    started: list[int] = []

    @stepfork.tool
    async def draw() -> int:
        number = len(started)
        started.append(number)
        await asyncio.sleep((5 - number) / 200)
        return number

    async def agent() -> list[int]:
        return list(await asyncio.gather(*(draw() for _ in range(5))))

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        assert asyncio.run(agent()) == [0, 1, 2, 3, 4]

    assert recorded.outputs("draw") == [0, 1, 2, 3, 4]
    assert stepfork.replay(tmp_path / "run.jsonl", agent).result == [0, 1, 2, 3, 4]


def test_an_address_says_nothing_of_what_else_goes_on(tmp_path: Path) -> None:
    """Latencies decide which branch comes first, and the calls of each are counted below it alone (B20)."""
    order: list[int] = []

    @stepfork.step
    async def branch(run: int, wait: float) -> list[str]:
        await asyncio.sleep(wait)
        order.append(run)
        return [await fetch(run, 0), await fetch(run, 1), look(run, 2)]

    def addresses(path: Path, *waits: float) -> dict[str, int]:
        async def agent() -> None:
            await asyncio.gather(*(branch(run, wait) for run, wait in enumerate(waits)))

        recorded = Recorded(path)
        with recorded:
            asyncio.run(agent())
        branches = recorded.run.root.children
        return {call.address: decode(call.input["run"]) for branch in branches for call in branch.children}

    first = addresses(tmp_path / "a.jsonl", 0.03, 0.02, 0.01)
    second = addresses(tmp_path / "b.jsonl", 0.01, 0.02, 0.03)

    assert order == [2, 1, 0, 0, 1, 2]
    assert first == second
    assert set(first) == {
        f"test#1/branch#{run}/{label}" for run in (1, 2, 3) for label in ("fetch#1", "fetch#2", "look#1")
    }


def test_four_workers_at_one_moment_share_the_step_they_work_for(tmp_path: Path) -> None:
    """Each has the call that is under way, and none waits for another to leave its context (B18)."""
    at_once = threading.Barrier(4)

    @stepfork.step
    def spread() -> list[str]:
        with ThreadPoolExecutor(4) as workers:
            return [*workers.map(one, range(4))]

    @stepfork.step
    def one(call: int) -> str:
        at_once.wait(30)
        return look(0, call)

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        assert spread() == ["0/0", "0/1", "0/2", "0/3"]

    (tree,) = recorded.tree
    assert tree == {"spread#1": [{f"one#{number}": ["look#1"]} for number in range(1, 5)]}
    assert stepfork.replay(recorded.path, spread).result == ["0/0", "0/1", "0/2", "0/3"]


@pytest.mark.parametrize("pool", [ThreadPool, ThreadPoolExecutor])
def test_a_pool_of_threads_serves_two_runs_at_once(
    tmp_path: Path, pool: type[ThreadPool] | type[ThreadPoolExecutor]
) -> None:
    """Its threads began before both, and a job belongs to the run that handed it in (B17)."""
    both_are_open = threading.Barrier(2)

    def agent(run: int) -> None:
        with stepfork.run("test", path=tmp_path / f"{run}.jsonl"):
            both_are_open.wait()
            assert [*workers.map(partial(look, run), range(4))] == [f"{run}/{call}" for call in range(4)]
            both_are_open.wait()

    with pool(2) as workers:
        [*workers.map(time.sleep, [0.0, 0.0])]
        threads = [threading.Thread(target=agent, args=(run,)) for run in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for run in range(2):
        calls = read_run(tmp_path / f"{run}.jsonl").root.children
        assert [call.input["run"] for call in calls] == [run] * 4
