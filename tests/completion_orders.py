"""Replays in which calls come back in another order each time, for all that the scheduler can do.

Nothing of the agent and nothing of the order of arrivals is changed: answers take some turns of the event
loop; threads and the jobs of pools begin late, call late, and go on late.
"""

from __future__ import annotations

import importlib
import random
import sys
import time
import types
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import stepfork
from stepfork import _served
from stepfork._calls import Plain, Run
from stepfork._codec import canonical
from stepfork._recording import read_run
from stepfork._replay.maker import loop_runs_here
from stepfork._replay.result import Replayed
from stepfork._replay.serve import Recorded
from stepfork._replay.session import Replay
from stepfork._verdict.assess import document_of

RECORDINGS = Path(__file__).parent / "recordings" / "parallel"

Facts = list[tuple[str, str, bytes, str, bytes]]


def agent_of(path: Path) -> Callable[..., Any]:
    """Return the agent of a recording; skips the test where it cannot be imported here."""
    entry = read_run(path).entry
    assert entry is not None
    try:
        found: Any = importlib.import_module(entry.module)
    except ModuleNotFoundError as error:
        pytest.skip(f"the agent of {path.name} needs {error.name}")
    for name in entry.qualname.split("."):
        found = getattr(found, name)
    agent: Callable[..., Any] = found
    return agent


def facts_of(run: Run) -> Facts:
    """Every call with its place, its arguments and how it ended; of steps what they came to, too."""
    return [
        (
            call.kind,
            call.address,
            canonical(call.input),
            call.outcome.status,
            canonical([_placeless(call.outcome.value), call.outcome.items]) if call.kind == "step" else b"",
        )
        for call in run.walk()
    ]


def _placeless(plain: Plain) -> Plain:
    """Leave out in which line an exception was raised: in a replay that is one of ours."""
    if isinstance(plain, list):
        return [_placeless(part) for part in plain]
    if isinstance(plain, dict):
        return {key: _placeless(part) for key, part in plain.items() if key != "at"}
    return plain


def drawn(run: Replayed) -> tuple[Facts, str]:
    """What a replay came to: its calls, and the document of its snapshot."""
    assert run.unused == []
    return facts_of(run.run), repr(document_of(run, test="test"))


def replayed_in(path: Path, agent: Callable[..., Any], seed: int) -> Replayed:
    """Replay in the order of this seed."""
    with shuffled(seed):
        return stepfork.replay(path, agent)


@contextmanager
def shuffled(seed: int) -> Iterator[None]:
    """Let everything that runs in the block be late at random."""
    chance = random.Random(seed)
    interval = sys.getswitchinterval()
    with pytest.MonkeyPatch.context() as patched:
        _shuffle_loops(patched, chance)
        _shuffle_threads(patched, chance)
        sys.setswitchinterval(chance.choice([1e-5, 1e-4, 5e-3]))
        try:
            yield
        finally:
            sys.setswitchinterval(interval)


def _shuffle_loops(patched: pytest.MonkeyPatch, chance: random.Random) -> None:
    one_turn = _served._one_turn

    def turns() -> Generator[None, None, None]:
        for _ in range(chance.randrange(1, 12)):
            yield from one_turn()

    patched.setattr(_served, "_one_turn", types.coroutine(turns))


def _shuffle_threads(patched: pytest.MonkeyPatch, chance: random.Random) -> None:
    start, submit, enter, value = Thread.run, ThreadPoolExecutor.submit, Replay.enter, Recorded.value

    def late_run(thread: Thread) -> None:
        time.sleep(chance.random() / 500)
        start(thread)

    def late_submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        def late(*args: Any, **kwargs: Any) -> Any:
            time.sleep(chance.random() / 500)
            return function(*args, **kwargs)

        return submit(pool, late, *args, **kwargs)

    def late_enter(session: Replay, *args: Any) -> Any:
        if not loop_runs_here():
            time.sleep(chance.random() / 1000)
        return enter(session, *args)

    def late_value(answer: Recorded) -> Any:
        result = value(answer)
        if not loop_runs_here():
            until = time.perf_counter() + chance.random() / 1000
            while time.perf_counter() < until:  # as if it had lost the processor: it sleeps for nothing
                pass
        return result

    patched.setattr(Thread, "run", late_run)
    patched.setattr(ThreadPoolExecutor, "submit", late_submit)
    patched.setattr(Replay, "enter", late_enter)
    patched.setattr(Recorded, "value", late_value)
