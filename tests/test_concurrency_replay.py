"""Tasks, threads and processes in a replay: each call gets its own outcome, and no body runs."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import Bodies, made, record, rerun, stops
from stepfork._recording import read_run
from stepfork._replay.result import Replayed
from stepfork.errors import AmbiguousReplay

bodies = Bodies()


@stepfork.tool
async def embed(text: str, seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    bodies.ran.append(text)
    return f"<{text}:{len(bodies.ran)}>"


@stepfork.tool
def look(key: Any) -> str:
    bodies.ran.append(key)
    return f"{key}:{len(bodies.ran)}"


@stepfork.step
async def work(key: str, wait: float = 0.0) -> str:
    await asyncio.sleep(wait)
    return await embed(key)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def drawn(run: Replayed) -> str:
    """Every call in its place, with its arguments and how it ended."""
    return "\n".join(f"{call.address} {call.input} {call.outcome.status}" for call in run.run.walk())


def test_gathered_calls_get_their_own_outcome_in_a_stable_order(path: Path) -> None:
    """Recorded with latencies 30/20/10 ms, replayed with none, 50 times (B20)."""
    waits = {"a": 0.03, "b": 0.02, "c": 0.01}

    async def agent() -> list[str]:
        return await asyncio.gather(*(embed(key, wait) for key, wait in waits.items()))

    before = record(path, agent)
    runs = [stepfork.replay(path, agent) for _ in range(50)]
    assert all(run.result == before for run in runs)
    assert {tuple(call.address for call in made(run)) for run in runs} == {
        ("test#1/embed#1", "test#1/embed#2", "test#1/embed#3")
    }


def test_concurrent_calls_are_found_by_their_arguments(path: Path) -> None:
    """The order of starting is swapped in the replay: dog and cat keep their own (B24)."""

    async def agent(*texts: str) -> dict[str, str]:
        return dict(zip(texts, await asyncio.gather(*map(embed, texts)), strict=True))

    before = record(path, lambda: agent("dog", "cat"))
    run = stepfork.replay(path, lambda: agent("cat", "dog"))
    assert run.result == before
    assert [call.input["text"] for call in made(run)] == ["dog", "cat"]


def test_three_equal_concurrent_calls_that_ended_in_reverse_order_keep_their_outcomes(path: Path) -> None:
    """Equal concurrent calls are told apart by the order in which they were started."""
    waits = iter([0.03, 0.02, 0.01])

    @stepfork.tool
    async def ticket() -> str:
        await asyncio.sleep(wait := next(waits))
        return f"waited {wait}"

    async def agent() -> list[str]:
        return list(await asyncio.gather(ticket(), ticket(), ticket()))

    assert rerun(path, agent).result == ["waited 0.03", "waited 0.02", "waited 0.01"]


def test_several_frontiers_are_numbered_by_their_arguments(path: Path) -> None:
    """Whatever the latencies of 50 runs, message, numbers and document are the same; siblings are cut off."""

    @stepfork.step
    async def sleeper() -> None:
        await asyncio.sleep(60)

    async def agent() -> None:
        keys = ["d", "b", "a", "c"]
        waits = [random.random() / 500 for _ in keys]
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper())
            await asyncio.gather(
                *(work(key, wait=0) for key in keys),
                *(embed(key) for key in random.sample(keys, 4)),
                *(asyncio.sleep(wait) for wait in waits),
                return_exceptions=True,
            )
            await embed("last")

    record(path, lambda: None)
    seen = set()
    for _ in range(50):
        run = stepfork.replay(path, agent)
        seen.add((tuple(frontier.call.address for frontier in run.frontiers), drawn(run)))
    assert len(seen) == 1
    addresses, drawing = seen.pop()
    assert addresses[-5:] == tuple(f"test#1/embed#{number}" for number in range(1, 6))
    assert "sleeper#1 {} cut_off" in drawing


def test_new_steps_of_threads_are_numbered_by_their_arguments(path: Path) -> None:
    """Threads race for their turn; what they made stands in the same order each time."""

    @stepfork.step
    def job(key: str) -> None:
        time.sleep(random.random() / 300)
        with suppress(BaseException):
            look(key)

    def agent() -> None:
        threads = [threading.Thread(target=job, args=(key,)) for key in random.sample("abcd", 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    record(path, lambda: None)
    assert len({drawn(stepfork.replay(path, agent)) for _ in range(10)}) == 1


def in_pool(act: Callable[[Any], Any], keys: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(act, keys))


def in_executor(act: Callable[[Any], Any], keys: list[Any]) -> list[Any]:
    async def run() -> list[Any]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, act, key) for key in keys))

    return asyncio.run(run())


def in_threads(act: Callable[[Any], Any], keys: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    threads = [threading.Thread(target=lambda key=key: found.update({key: act(key)})) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[key] for key in keys]


_jobs: queue.SimpleQueue[tuple[Callable[[Any], Any], Any, queue.SimpleQueue[Any]]] = queue.SimpleQueue()


def _serve_jobs() -> None:
    while True:
        act, key, answers = _jobs.get()
        answers.put(act(key))


threading.Thread(target=_serve_jobs, daemon=True).start()


def in_an_old_thread(act: Callable[[Any], Any], keys: list[Any]) -> list[Any]:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for key in keys:
        _jobs.put((act, key, answers))
    return [answers.get() for _ in keys]


@pytest.mark.parametrize("spread", [in_pool, in_executor, in_threads, in_an_old_thread])
def test_tools_in_threads_are_answered_and_never_run(path: Path, spread: Callable[..., list[Any]]) -> None:
    """ThreadPoolExecutor, run_in_executor, threads, and threads older than the run (B17)."""
    before = record(path, lambda: spread(look, [1, 2, 3]))
    run, ran = bodies.ran_in(lambda: stepfork.replay(path, lambda: spread(look, [1, 2, 3])))
    assert ran == 0
    assert run.result == before
    assert run.unused == []
    stopped, ran = bodies.ran_in(lambda: stepfork.replay(path, lambda: spread(suppressed, [8, 9])))
    assert ran == 0
    assert stops(stopped) == ["look#4", "look#5"]
    assert [frontier.call.input["key"] for frontier in stopped.frontiers] == [8, 9]


def suppressed(key: Any) -> None:
    with suppress(BaseException):
        look(key)


def test_a_call_without_context_beside_two_replays_makes_both_fail(path: Path) -> None:
    """It could belong to either: it is refused, and both replays say so loudly (B17)."""
    record(path, lambda: look(1))
    meet = threading.Barrier(3, timeout=10)

    def agent() -> str:
        meet.wait()
        meet.wait()
        return look(1)

    def outsider() -> None:
        meet.wait()
        suppressed(1)
        meet.wait()

    raised: list[BaseException] = []

    def replaying() -> None:
        try:
            stepfork.replay(path, agent)
        except AmbiguousReplay as error:
            raised.append(error)

    threads = [threading.Thread(target=act) for act in (replaying, replaying, outsider)]

    def run_all() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    _, ran = bodies.ran_in(run_all)
    assert ran == 0
    assert len(raised) == 2
    assert "2 replays are open" in str(raised[0])


def test_two_replays_side_by_side_keep_their_answers_apart(path: Path) -> None:
    """With context on, each is answered from its own recording."""
    files = [path.with_name(f"{number}.jsonl") for number in range(2)]
    before = [record(file, lambda: [look("same") for _ in range(20)]) for file in files]
    with ThreadPoolExecutor(2) as pool:
        runs = list(
            pool.map(lambda file: stepfork.replay(file, lambda: [look("same") for _ in range(20)]), files)
        )
    assert [run.result for run in runs] == before


@pytest.mark.parametrize("has_context", [True, False])
def test_a_thread_left_over_from_a_replay_runs_no_body(path: Path, has_context: bool) -> None:
    """After the end its calls are refused, with context or without."""
    record(path, lambda: look(1))
    go, outcome = threading.Event(), []

    def late() -> None:
        go.wait(10)
        try:
            look(2)
        except BaseException as error:
            outcome.append(str(error))

    def agent() -> threading.Thread:
        thread = threading.Thread(target=late)
        thread.start()
        return thread

    async def agent_with_context() -> Any:
        task = asyncio.get_running_loop().run_in_executor(None, late)
        asyncio.get_running_loop().call_later(0.05, go.set)
        return task and None

    run = stepfork.replay(path, agent_with_context if has_context else agent)
    go.set()
    if run.value is not None:
        run.value.join()
    assert len(outcome) == 1
    assert "2" not in map(str, bodies.ran[-1:])
    assert outcome[0].startswith(("look was called after its replay had ended", "test#1/look#2"))


async def _cancelled() -> list[str]:
    async def slow(key: str) -> str:
        try:
            return await asyncio.wait_for(embed(key, 30), timeout=0.02)
        except TimeoutError:
            return "too slow"

    return [await slow("a"), await embed("b")]


def test_a_call_that_was_cancelled_is_cancelled_again(path: Path) -> None:
    """wait_for runs out in the replay as it did: the served call just waits for it."""
    assert rerun(path, _cancelled).result[0] == "too slow"
    impatient = stepfork.replay(path, lambda: embed("a", 30), timeout=0.2)
    assert impatient.timed_out


def test_siblings_that_a_task_group_cancelled_are_cancelled_again(path: Path) -> None:
    """One fails, the others were cut: the outcomes of a replay are the same."""

    @stepfork.tool
    async def fails() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("no")

    async def agent() -> list[str]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(embed("slow", 30))
                group.create_task(fails())
        except* ValueError:
            failed = ["failed"]
        return failed

    run = rerun(path, agent)
    assert run.result == ["failed"]
    assert run.unused == []
    assert run.frontiers == []
    assert [call.outcome.status for call in made(run)] == ["suspended", "raised"]


def test_a_background_task_that_the_end_of_the_run_cut_off_is_no_frontier(path: Path) -> None:
    """It was asking when the root returned; it asks again, and the root returns again."""

    @stepfork.tool
    async def poll(number: int) -> int:
        await asyncio.sleep(0 if number < 3 else 30)
        return number

    async def watch() -> None:
        for number in range(100):
            await poll(number)

    @stepfork.step
    async def root() -> str:
        task = asyncio.create_task(watch())
        result = await embed("x", 0.03)
        assert not task.done()
        return result

    run = rerun(path, root)
    assert run.frontiers == []
    assert run.unused == []
    assert run.result.startswith("<x")


@stepfork.tool
async def refuse(key: str) -> str:
    """Raises."""
    raise LookupError(key)


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
def test_the_failure_in_task_groups_is_the_one_exception_in_them(tmp_path: Path, keys: list[str]) -> None:
    """It has its own type and stands where it was raised; of several, the group is the failure."""

    async def agent() -> None:
        async with asyncio.TaskGroup(), asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(refuse(key))

    path = tmp_path / "run.jsonl"
    with pytest.raises(ExceptionGroup):
        record(path, agent)
    recorded, now = read_run(path).failure, stepfork.replay(path, agent).run.failure
    assert recorded is not None
    assert now == recorded
    one, several = ("builtins:LookupError", "test#1/refuse#1"), ("builtins:ExceptionGroup", "test#1")
    assert (recorded.type, recorded.address) == (one if len(keys) == 1 else several)
