"""Recording never changes the agent: its files, its results, its exceptions, its time."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import signal
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

import stepfork
from project import Project
from recorded import Recorded, record
from stepfork import _context, _warn


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_warn, "_said", set())


@stepfork.tool
def lookup(value: Any) -> Any:
    """Return what it was given."""
    return value


def test_a_call_that_outlives_its_run_writes_into_no_file_of_the_agents(tmp_path: Path) -> None:
    """The number of a closed descriptor belongs to whoever opens a file next."""
    go_on = threading.Event()

    @stepfork.tool
    def slow() -> str:
        go_on.wait(10)
        return "late"

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        thread = threading.Thread(target=slow)
        thread.start()
        while "slow#1" not in recorded.path.read_text():
            time.sleep(0.01)
    with (tmp_path / "mine.txt").open("w+") as file:
        go_on.set()
        thread.join()
        file.write("mine")
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert recorded.call("slow#1").outcome.status == "unfinished"


def test_an_agent_that_closes_every_descriptor_keeps_its_own_files(project: Project) -> None:
    """As daemons do: the journal's number may be another file from then on; neither written to nor closed."""
    project.write(
        {
            "agent.py": """
                import os, stepfork

                @stepfork.tool
                def lookup(value):
                    return value

                @stepfork.step
                def handle():
                    os.closerange(3, 64)
                    mine = [open(f"mine{number}.txt", "w+") for number in range(8)]
                    result = lookup("x")
                    for file in mine:
                        file.write("mine")
                        file.close()
                    return result

                print(handle(), {open(f"mine{number}.txt").read() for number in range(8)})
            """
        }
    )
    done = project.run("python", "agent.py")
    assert done.out == "x {'mine'}\n", done
    assert done.err.count("RuntimeWarning") == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals here")
def test_a_signal_handler_may_call_a_tool_at_any_moment(tmp_path: Path) -> None:
    """Also in the middle of another call's record."""

    def agent() -> None:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            lookup({"a": 1})

    previous = signal.signal(signal.SIGALRM, lambda *_: lookup("tick"))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        recorded = record(tmp_path / "run.jsonl", agent)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert {"value": "tick"} in recorded.inputs("lookup")


@pytest.mark.parametrize("obstacle", ["warnings are errors", "stderr is closed"])
def test_a_fault_of_ours_never_reaches_the_agent(project: Project, obstacle: str) -> None:
    """Whatever becomes of the warning (B12)."""
    before = {
        "warnings are errors": "import warnings; warnings.simplefilter('error')",
        "stderr is closed": "import sys; sys.stderr.close()",
    }
    project.write(
        {
            "agent.py": f"""
                import os, stepfork
                {before[obstacle]}

                @stepfork.tool
                def lookup(value):
                    os.closerange(3, 64)
                    return value

                @stepfork.step
                def handle():
                    return lookup("x")

                print(handle())
            """
        }
    )
    done = project.run("python", "agent.py")
    assert (done.code, done.out) == (0, "x\n"), done


def test_an_object_that_answers_to_every_name_can_be_a_step(project: Project) -> None:
    """Looking for its source comes to an end (B11)."""
    project.write(
        {
            "agent.py": """
                import stepfork
                from unittest.mock import Mock

                print(stepfork.step(Mock(return_value=3), name="mocked")(1))
            """
        }
    )
    assert project.run("python", "agent.py", timeout=30).out == "3\n"


def test_a_stream_that_is_dropped_ends_its_run(tmp_path: Path) -> None:
    """A returned generator or iterator that nobody consumes holds no descriptor and no run open (B82)."""

    @stepfork.tool
    def generator() -> Iterator[int]:
        return (number for number in range(3))

    @stepfork.tool
    def iterator() -> Iterator[int]:
        return iter([1, 2])

    def agent() -> None:
        generator()
        next(iterator())
        gc.collect()

    recorded = record(tmp_path / "run.jsonl", agent)
    assert [recorded.call(f"{name}#1").outcome.status for name in ("generator", "iterator")] == [
        "closed_early"
    ] * 2


def test_roots_that_return_streams_leave_nothing_open(project: Project) -> None:
    """A hundred of them do not use up the descriptors of the process."""
    project.write(
        {
            "agent.py": """
                import resource, stepfork

                @stepfork.step
                def handle(number):
                    return (each for each in range(number))

                resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
                for _ in range(100):
                    handle(3)
                print(open("agent.py").readline().strip(), stepfork._context._open)
            """
        }
    )
    assert project.run("python", "agent.py").out == "import resource, stepfork []\n"


@pytest.mark.anyio
async def test_a_call_that_does_not_fit_leaves_no_run_open() -> None:
    """Neither of a coroutine nor of a generator."""

    @stepfork.step
    async def coroutine() -> None: ...

    @stepfork.step
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError):
        await coroutine(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        list(generator(1))  # type: ignore[call-arg]
    assert _context._open == []


class EvilClass:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("do not ask")


class EvilMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError("do not ask")


class Evil(metaclass=EvilMeta): ...


@pytest.mark.parametrize("make", [EvilClass, lambda: type.__call__(Evil), MagicMock, Mock])
def test_the_very_object_that_a_tool_returns_reaches_the_caller(tmp_path: Path, make: Any) -> None:
    """Nothing is asked of it that it might answer with an exception (B11)."""
    value = make()
    results = []

    record(tmp_path / "run.jsonl", lambda: results.append(stepfork.tool(lambda: value, name="make")()))

    assert results[0] is value


def test_a_worker_that_was_started_in_one_run_serves_the_next(tmp_path: Path) -> None:
    """What it does then belongs to the run that is open then."""
    jobs: queue.Queue[Any] = queue.Queue()

    def work() -> None:
        for value, done in iter(jobs.get, None):
            lookup(value)
            done.set()

    def agent(value: str) -> None:
        done = threading.Event()
        jobs.put((value, done))
        assert done.wait(10)

    worker = threading.Thread(target=work)
    first = Recorded(tmp_path / "a.jsonl")
    with first:
        worker.start()
        agent("a")
    second = record(tmp_path / "b.jsonl", lambda: agent("b"))
    jobs.put(None)
    worker.join()

    assert [first.inputs("lookup"), second.inputs("lookup")] == [[{"value": "a"}], [{"value": "b"}]]


def test_a_stream_left_at_the_loops_end_is_closed_without_noise(tmp_path: Path, capfd: Any) -> None:
    """The loop closes our generator, and that closes the agent's (B15)."""
    kept = []

    @stepfork.tool
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)

    async def agent() -> None:
        kept.append(stream())
        await anext(kept[0])

    with warnings.catch_warnings(), Recorded(tmp_path / "run.jsonl"):
        warnings.simplefilter("error")
        asyncio.run(agent())
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_full_disk_loses_the_record_and_nothing_else(project: Project) -> None:
    """A limit on the size of files stands for the disk: one warning, the same result."""
    project.write(
        {
            "agent.py": """
                import resource, signal, sys, stepfork

                @stepfork.tool
                def lookup(value):
                    return value * 2

                @stepfork.step
                def handle():
                    return [len(lookup("x" * 500)) for _ in range(20)]

                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                sys.dont_write_bytecode = True  # or it would be a part of it
                resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
                print(handle() == [1000] * 20)
            """
        }
    )
    done = project.run("python", "agent.py")
    assert done.out == "True\n"
    assert done.err.count("RuntimeWarning") == 1, done


def test_a_failed_run_is_handed_over_when_it_has_ended(project: Project) -> None:
    """``on_failed`` gets the path of a whole journal; what it raises costs a warning (B12)."""
    project.write(
        {
            "agent.py": """
                import stepfork

                def hand_over(path):
                    print(path.read_text().splitlines()[-1][:16], path.parent.name)
                    raise OSError("no network")

                stepfork.configure(on_failed=hand_over)

                @stepfork.step
                def handle(fails):
                    return {}["amount"] if fails else 0

                handle(False)
                try:
                    handle(True)
                except KeyError:
                    print("caught")
            """
        }
    )
    done = project.run("python", "agent.py")
    assert done.out == '{"event":"close" runs\ncaught\n'
    assert done.err.count("on_failed raised OSError: no network") == 1
