"""No tool's body runs in a replay, nor because of one: not late, nor in another thread or process."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import Bodies, record
from stepfork._recording import read_run
from stepfork.errors import RecordingDamaged, ReplayStopped, UnrecordedCall

bodies = Bodies()


@stepfork.tool
def close(session: int) -> None:
    bodies.ran.append(session)


@stepfork.tool
def look(order: str) -> str:
    bodies.ran.append(order)
    return f"{order} in {os.getpid()}"


@stepfork.tool
def chunks(order: str) -> Any:
    bodies.ran.append(order)
    yield order


@stepfork.tool
async def fetch(order: str) -> str:
    bodies.ran.append(order)
    return order


class Session:
    """Calls a tool when it goes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.me: Session | None = None

    def __del__(self) -> None:
        close(self.number)


def crash_with_a_session() -> None:
    session = Session(1)
    raise KeyError(f"amount of {session.number}")


def leave_a_session_in_a_cycle() -> None:
    session = Session(2)
    session.me = session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.mark.parametrize("agent", [crash_with_a_session, leave_a_session_in_a_cycle])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_left_behind_goes_before_the_replay_is_over(path: Path, agent: Callable[[], None]) -> None:
    """Locals that a traceback keeps, and cycles: their __del__ is refused, not run in earnest afterwards."""

    def look_first() -> None:
        look("A-17")
        agent()

    with suppress(KeyError):
        record(path, look_first)
    gc.collect()
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(path, look_first))
    del replayed
    _, ran_late = bodies.ran_in(gc.collect)
    assert (ran, ran_late) == (0, 0)


def test_a_stream_or_coroutine_of_a_replay_is_not_run_after_it(path: Path) -> None:
    """Handed out unconsumed, they are refused when somebody consumes them later."""

    def agent() -> dict[str, Any]:
        look("A-17")
        return {"stream": chunks("A-17"), "later": fetch("A-17")}

    async def wait_for(coroutine: Any) -> None:
        await coroutine

    record(path, agent)["later"].close()
    value = stepfork.replay(path, agent).value
    before = len(bodies.ran)
    with pytest.raises(ReplayStopped):
        list(value["stream"])
    with pytest.raises(ReplayStopped):
        asyncio.run(wait_for(value["later"]))
    assert len(bodies.ran) == before


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pool_of_processes_made_before_the_replay_runs_no_tool(path: Path, method: str) -> None:
    """What is pickled while a replay goes on refuses in every other process, and the replay says so."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()

        def agent() -> str:
            return pool.submit(look, "A-17").result()

        record(path, agent)
        with pytest.raises(UnrecordedCall, match="look was called in another process"):
            stepfork.replay(path, agent)
        assert pool.submit(look, "A-17").result() == f"A-17 in {next(iter(pool._processes))}"


def test_what_is_pickled_and_read_back_in_a_replay_is_the_same_function(path: Path) -> None:
    """Only other processes refuse."""
    import pickle

    def agent() -> str:
        copied: Callable[[str], str] = pickle.loads(pickle.dumps(look))
        assert copied is look
        return copied("A-17")

    record(path, agent)
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
    assert ran == 0
    assert replayed.result.startswith("A-17")


def test_a_worker_thread_serves_one_replay_after_another(path: Path) -> None:
    """Born in a run, or in a replay that is over, it belongs to the replay that is open now."""
    jobs: queue.Queue[tuple[str, queue.Queue[Any]]] = queue.Queue()
    workers: list[threading.Thread] = []

    def work() -> None:
        while True:
            order, answers = jobs.get()
            try:
                answers.put(look(order))
            except BaseException as error:
                answers.put(error)

    def agent() -> Any:
        if not workers:
            workers.append(threading.Thread(target=work, daemon=True))
            workers[0].start()
        answers: queue.Queue[Any] = queue.Queue()
        jobs.put(("A-17", answers))
        return answers.get(timeout=10)

    recorded = record(path, agent)
    for _ in range(2):
        replayed, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
        assert (replayed.result, ran) == (recorded, 0)
    workers.clear()
    for _ in range(3):
        replayed, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
        assert (replayed.result, ran) == (recorded, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("leave", "code"),
    [(lambda: sys.exit(3), 3), (lambda: None, 0), (lambda: look("new"), 1)],
    ids=["exits", "returns", "calls a tool"],
)
def test_a_forked_child_never_comes_out_of_a_replay(path: Path, leave: Callable[[], Any], code: int) -> None:
    """However it leaves the agent, it ends there, and does not go on as a second pytest."""
    codes = []

    def agent(forks: bool = False) -> None:
        look("A-17")
        if forks:
            child = os.fork()
            if child == 0:
                leave()
                return
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    record(path, agent)
    with suppress(UnrecordedCall):
        stepfork.replay(path, lambda: agent(forks=True))
    assert codes == [code]


def test_an_agent_that_removes_its_working_directory_is_replayed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a call was made is shown as far as it can be told."""

    def agent() -> str:
        gone = path.with_name("gone")
        gone.mkdir()
        here = Path.cwd()
        os.chdir(gone)
        gone.rmdir()
        try:
            return look("A-17")
        finally:
            os.chdir(here)

    monkeypatch.chdir(path.parent)
    recorded = record(path, agent)
    assert stepfork.replay(path, agent).result == recorded


DAMAGED = {
    "shared": {"$shared": 5},
    "shared without a value": {"$shared": [], "root": 0},
    "tuple": {"deep": [{"$tuple": None}]},
    "pairs": {"$dict": [[1]]},
    "timedelta": {"$timedelta": "x"},
    "path": {"$path": 5},
    "class": {"$object": 7, "state": {}},
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("where", ["input", "value"])
def test_a_malformed_value_is_a_damaged_recording(path: Path, where: str, value: Any) -> None:
    """It is named with file and line, whatever would have been done with it (B57)."""
    record(path, lambda: look("A-17"))
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    number, line = next((n, line) for n, line in enumerate(lines, 1) if where in line and n > 2)
    line[where] = {"order": value} if where == "input" else value
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    with pytest.raises(RecordingDamaged, match=rf"run\.jsonl:{number}"):
        read_run(path)


def test_something_raised_that_is_no_exception_is_a_damaged_recording(path: Path) -> None:
    """So whoever draws the run can rely on it."""
    with suppress(KeyError):
        record(path, crash_with_a_session)
    text = path.read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    next(line for line in lines if line.get("status") == "raised")["value"] = "no exception"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    with pytest.raises(RecordingDamaged, match="cannot be read"):
        read_run(path)
