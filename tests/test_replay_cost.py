"""What a replay costs grows with what was recorded, and no faster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import record


@stepfork.tool
def look(key: Any) -> dict[str, Any]:
    return {"key": key, "score": 0.5}


@stepfork.tool(repeats=True)
def poll(key: str) -> str:
    return "pending"


@stepfork.tool
def outer(key: int) -> int:
    look(key)
    return key


@stepfork.model
def ask(messages: list[dict[str, str]]) -> str:
    return f"reply {len(messages)}"


@stepfork.step
def step(key: int) -> Any:
    return look(key)


def steps(keys: list[int], _changed: bool) -> None:
    for key in keys:
        step(key)


def equal_calls(keys: list[int], _changed: bool) -> None:
    for _ in keys:
        look("same")


def reversed_steps(keys: list[int], changed: bool) -> None:
    for key in reversed(keys) if changed else keys:
        step(key)


def renamed(keys: list[int], changed: bool) -> None:
    with stepfork.run("new" if changed else "old"):
        for key in keys:
            look(key)


def drifting(keys: list[int], changed: bool) -> None:
    for key in keys:
        look(key + (0.5 + 1e-12 if changed else 0.5))


def nested(keys: list[int], _changed: bool) -> None:
    for key in keys:
        outer(key)


def polled(keys: list[int], changed: bool) -> None:
    for _ in keys + keys * changed:
        poll("job")


def none_is_made(keys: list[int], changed: bool) -> None:
    for key in keys * (not changed):
        look(key)


def none_is_answered(keys: list[int], changed: bool) -> None:
    for key in keys:
        with suppress(BaseException):
            look(-key if changed else key)


def new_steps(keys: list[int], changed: bool) -> None:
    for key in keys * changed:
        with suppress(BaseException):
            step(key)


def stale(keys: list[int], changed: bool) -> None:
    for key in keys:
        ask([{"role": "user", "content": f"{key} {changed} 0.5 {{}}"}])


def _work(path: Path, agent: Callable[[list[int], bool], None], size: int) -> int:
    """Count the function calls of one replay, and of looking at what is left over."""
    keys = list(range(1, size + 1))
    path = path / f"{size}.jsonl"
    record(path, lambda: agent(keys, False))
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run = stepfork.replay(path, lambda: agent(keys, True))
        _ = run.unused, run.stale
    finally:
        sys.setprofile(None)
    return calls


AGENTS = [
    steps,
    equal_calls,
    reversed_steps,
    renamed,
    drifting,
    nested,
    polled,
    none_is_made,
    none_is_answered,
    new_steps,
    stale,
]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_four_times_the_calls_are_about_four_times_the_work(
    tmp_path: Path, agent: Callable[[list[int], bool], None]
) -> None:
    """Whichever rule answers the calls, and also where none does."""
    _work(tmp_path, agent, 10)  # what is done once and kept
    once, more = _work(tmp_path, agent, 60), _work(tmp_path, agent, 240)
    assert more < 5 * once, f"{once} function calls for 60, {more} for 240"
