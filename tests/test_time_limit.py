"""A replay that takes too long is stopped, wherever it waits, and leaves no alarm behind."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import record
from stepfork.errors import ReplayStopped, ReplayTimeout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    record(path, lambda: None)
    return path


@pytest.fixture(autouse=True)
def _no_alarm_is_left() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def sleeps() -> None:
    time.sleep(30)


def spins() -> None:
    while True:
        pass


def sleeps_in_small_pieces() -> None:
    for _ in range(1000):
        time.sleep(0.01)


def joins_a_blocked_thread() -> None:
    thread = threading.Thread(target=threading.Event().wait, args=(30,), daemon=True)
    thread.start()
    thread.join()


def swallows_once() -> None:
    with suppress(BaseException):
        time.sleep(30)
    time.sleep(30)


async def awaits() -> None:
    await asyncio.sleep(30)


async def spins_in_a_loop() -> None:
    while True:
        await asyncio.sleep(0)


async def blocks_the_loop() -> None:
    time.sleep(30)


async def waits_for_a_task() -> None:
    await asyncio.gather(asyncio.create_task(awaits()), return_exceptions=True)
    await awaits()


AGENTS = [
    sleeps,
    spins,
    joins_a_blocked_thread,
    awaits,
    spins_in_a_loop,
    blocks_the_loop,
]


def test_a_loop_that_is_stopped_in_the_middle_of_its_own_code_goes_on(path: Path) -> None:
    """An exception there would lose the task that was to be stopped, and the replay would never end."""
    assert all(stepfork.replay(path, spins_in_a_loop, timeout=0.03).timed_out for _ in range(20))


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_whatever_takes_too_long_is_stopped(path: Path, agent: Callable[[], Any]) -> None:
    """Sleeping, spinning, blocked or awaiting: result raises ReplayTimeout."""
    began = time.monotonic()
    run = stepfork.replay(path, agent, timeout=0.15)
    assert time.monotonic() - began < 30
    assert run.timed_out
    with pytest.raises(ReplayTimeout, match=r"0\.15 s"):
        _ = run.result


def test_a_swallowed_stop_comes_again(path: Path) -> None:
    """In a sync agent and in an async one."""
    for agent in (swallows_once, waits_for_a_task):
        assert stepfork.replay(path, agent, timeout=0.1).timed_out


def test_an_agent_that_swallows_everything_is_stopped_in_the_end(path: Path) -> None:
    """After some tries the exception comes so often that no handler keeps up."""

    def never_ends() -> None:
        while True:
            with suppress(BaseException):
                time.sleep(30)

    assert stepfork.replay(path, never_ends, timeout=0.1).timed_out


def test_a_stop_in_areplay_leaves_the_loop_of_the_test_alone(path: Path) -> None:
    """The loop belongs to somebody else: it goes on after the replay, and its task is not cancelled."""

    async def test() -> str:
        for agent in (awaits, blocks_the_loop):
            run = await stepfork.areplay(path, agent, timeout=0.1)
            assert run.timed_out
        await asyncio.sleep(0.01)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return "went on"

    assert asyncio.run(test()) == "went on"


def test_a_cancelled_areplay_is_cancelled(path: Path) -> None:
    """Somebody who cancels the test's task must not be told that the agent ended."""

    async def test() -> None:
        await asyncio.wait_for(stepfork.areplay(path, awaits), timeout=0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(test())


def test_an_alarm_that_was_set_before_is_set_again(path: Path) -> None:
    """pytest-timeout and others keep their handler, and their time goes on meanwhile."""
    rang: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: rang.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        assert stepfork.replay(path, lambda: time.sleep(0.2), timeout=0.3).error is None
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] < 0.3
        time.sleep(0.3)
        assert rang == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_an_alarm_that_is_due_earlier_rings_in_its_time(path: Path) -> None:
    """Somebody else's shorter limit is not put off by ours."""

    def ring(_number: int, _frame: Any) -> None:
        raise TimeoutError("theirs")

    previous = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        run = stepfork.replay(path, sleeps, timeout=20)
        assert isinstance(run.error, TimeoutError)
        assert not run.timed_out
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_outside_of_the_main_thread_there_is_a_limit_too(path: Path) -> None:
    """Code that runs is stopped; so is a loop that waits."""
    runs: list[Any] = []

    def play() -> None:
        for agent in (spins, awaits, sleeps_in_small_pieces):
            runs.append(stepfork.replay(path, agent, timeout=0.1))
        with suppress(ReplayStopped):
            sum(range(10**6))
            runs.append("no exception is left over")

    thread = threading.Thread(target=play)
    thread.start()
    thread.join(20)
    assert [run.timed_out for run in runs[:3]] == [True, True, True]
    assert runs[3:] == ["no exception is left over"]
