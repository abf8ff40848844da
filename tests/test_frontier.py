"""A call that the recording cannot answer stops the agent, whatever the agent makes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import Bodies, made, record, rerun, stops
from stepfork.errors import ReplayStopped, UnrecordedCall

bodies = Bodies()


@stepfork.tool
def refund(order: str, amount: int = 0) -> str:
    bodies.ran.append(order)
    return f"refunded {order}"


@stepfork.tool
async def pay(order: str) -> str:
    bodies.ran.append(order)
    return f"paid {order}"


@stepfork.step
def decide(order: str) -> str:
    try:
        return refund(order)
    except Exception:
        return "fallback"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def empty(path: Path) -> Path:
    """A recording without a single tool call."""
    record(path, lambda: None)
    return path


def swallowed_by_except_exception() -> str:
    try:
        return refund("new")
    except Exception:
        return "fallback"


def swallowed_by_except_base_exception() -> str:
    try:
        return refund("new")
    except BaseException:
        return "fallback"


def swallowed_by_finally() -> str:
    try:
        refund("new")
    finally:
        return "fallback"  # noqa: B012


def swallowed_in_a_thread() -> str:
    thread = threading.Thread(target=refund, args=("new",))
    thread.start()
    thread.join()
    return "fallback"


async def swallowed_by_gather() -> str:
    await asyncio.gather(pay("new"), return_exceptions=True)
    return "fallback"


async def swallowed_by_a_task_group() -> str:
    with suppress(BaseException):
        async with asyncio.TaskGroup() as group:
            group.create_task(pay("new"))
    return "fallback"


async def swallowed_in_a_task_never_awaited() -> str:
    task = asyncio.create_task(pay("new"))
    await asyncio.sleep(0)
    return f"fallback {task.done()}"


async def swallowed_by_shield() -> str:
    with suppress(BaseException):
        await asyncio.shield(asyncio.ensure_future(pay("new")))
    return "fallback"


async def swallowed_by_future_exception() -> str:
    task = asyncio.ensure_future(pay("new"))
    await asyncio.wait([task])
    return f"fallback {type(task.exception())}"


SWALLOWED = [value for name, value in sorted(globals().items()) if name.startswith("swallowed_")]


@pytest.mark.parametrize("agent", SWALLOWED, ids=lambda agent: agent.__name__)
def test_a_swallowed_stop_is_a_stop_all_the_same(empty: Path, agent: Callable[[], Any]) -> None:
    """The body does not run, the call stands in the result, and result raises (B27)."""
    run, ran = bodies.ran_in(lambda: stepfork.replay(empty, agent))
    assert ran == 0
    assert len(run.frontiers) == 1
    with pytest.raises(UnrecordedCall):
        _ = run.result
    (call,) = made(run)
    assert call.unrecorded
    assert call.outcome.status == "stopped"


def test_an_agents_own_except_exception_lets_the_stop_through(empty: Path) -> None:
    """The stop is no Exception: a fallback does not take its place."""
    run = stepfork.replay(empty, lambda: decide("new"))
    assert [call.outcome.status for call in run.run.walk()] == ["stopped", "stopped", "stopped"]


def test_a_second_call_after_a_caught_stop_is_stopped_too(empty: Path) -> None:
    """Stopping is sticky: each new call is noted, and each body stays unexecuted."""

    def agent() -> None:
        for order in ("b", "a"):
            with suppress(BaseException):
                refund(order)

    run, ran = bodies.ran_in(lambda: stepfork.replay(empty, agent))
    assert ran == 0
    assert stops(run) == ["refund#1", "refund#2"]
    assert [call.input["order"] for call in made(run)] == ["a", "b"]


def test_recorded_calls_are_still_served_after_a_stop(path: Path) -> None:
    """Unanswered ones are numbered after all recorded ones."""

    def agent() -> str:
        with suppress(BaseException):
            refund("new")
        return refund("old")

    run = rerun(path, agent, lambda: (refund("old"), refund("older")))
    assert [(call.label, call.input["order"]) for call in made(run)] == [
        ("refund#1", "old"),
        ("refund#3", "new"),
    ]
    assert [view.address for view in run.unused] == ["test#1/refund#2"]


def test_an_exception_that_only_came_of_the_stop_is_no_failure(empty: Path) -> None:
    """Raised while the stop is handled it hides nothing; so does fail() called there."""

    def agent() -> None:
        try:
            refund("new")
        except BaseException as error:
            stepfork.fail("fallback")
            raise ValueError("gave up") from error

    assert stepfork.replay(empty, agent).run.failure is None


def test_a_failure_beside_a_swallowed_stop_is_a_failure(path: Path) -> None:
    """An agent that swallows the stop and fails as it did before has not been fixed."""

    async def before() -> None:
        raise KeyError("amount")

    async def now() -> None:
        await asyncio.gather(pay("new"), return_exceptions=True)
        raise KeyError("amount")

    with suppress(KeyError):
        record(path, before)
    run = stepfork.replay(path, now)
    assert run.run.failure is not None
    assert run.run.failure.type == "builtins:KeyError"
    assert len(run.frontiers) == 1


def test_a_repeat_says_how_many_calls_were_recorded(path: Path) -> None:
    """'recorded 2 calls, this is call 3', and where each was made (B26)."""

    def agent() -> None:
        refund("A-17")
        refund("A-17")
        refund("A-17")

    run = rerun(path, agent, lambda: (refund("A-17"), refund("A-17")))
    with pytest.raises(UnrecordedCall) as caught:
        _ = run.result
    text = str(caught.value)
    assert "recorded 2 calls, this is call 3" in text
    sites = [line.split()[-1] for line in text.splitlines() if "test_frontier.py:" in line]
    lines = [int(site.rpartition(":")[2]) for site in sites]
    assert len(lines) == 3
    assert lines[0] == lines[1] + 2 == lines[2] + 1


def test_the_message_shows_recorded_now_and_only_what_differs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's line, the nearest recorded call, the differing paths, the ways on; in columns (B80)."""
    monkeypatch.chdir(path.parent)
    run = rerun(path, lambda: refund("A-17", 2), lambda: refund("A-17", 1))
    with pytest.raises(UnrecordedCall) as caught:
        _ = run.result
    head, recorded, now, differs, *ways = str(caught.value).splitlines()
    assert head.split() == ["SF201", "unrecorded", "call", "at", "test#1/refund#2", "run.jsonl"]
    assert recorded.split() == ["recorded", 'refund(order="A-17",', "amount=1)", "unused"]
    assert now.split()[:3] == ["now", 'refund(order="A-17",', "amount=2)"]
    assert now.split()[3].partition(":")[0].endswith("test_frontier.py")
    assert differs.split(maxsplit=1) == ["differs", "amount: 1 -> 2"]
    assert recorded.index("unused") == head.index("run.jsonl") == now.index(now.split()[3])
    assert "override=" in ways[0]
    assert "--stepfork-extend" in ways[1]


def test_the_lines_of_the_message_fit_a_terminal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the arguments: name, place, and what differs are all seen (B80)."""
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("COLUMNS", "100")

    def agent(end: str) -> None:
        refund("A-17" + "x" * 300 + end, 1)

    run = rerun(path, lambda: agent("now"), lambda: agent("then"))
    with pytest.raises(UnrecordedCall) as caught:
        _ = run.result
    lines = str(caught.value).splitlines()
    assert max(map(len, lines)) <= 100
    now, differs = (next(line for line in lines if line.split()[0] == word) for word in ("now", "differs"))
    assert "refund(order=" in now
    assert "amount=1" in now
    assert "test_frontier.py:" in now
    assert 'then"' in differs
    assert 'now"' in differs


def test_a_long_address_puts_the_recording_on_a_line_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line is never padded beyond the terminal (B80)."""
    monkeypatch.setenv("COLUMNS", "60")
    run = rerun(path, lambda: refund("A-17", 2), lambda: refund("A-17", 1))
    with pytest.raises(UnrecordedCall) as caught:
        _ = run.result
    head, *_, last = (
        line for line in str(caught.value).splitlines() if "/run.jsonl" in line or "SF201" in line
    )
    assert head == "SF201 unrecorded call at test#1/refund#2"
    assert last.split() == ["in", str(path)]


def test_a_renamed_tool_is_told_how_to_keep_its_name(path: Path) -> None:
    """Where only the name differs, name= is the way."""

    @stepfork.tool
    def give_back(order: str, amount: int = 0) -> None: ...

    run = rerun(path, lambda: give_back("A-17"), lambda: refund("A-17"))
    with pytest.raises(UnrecordedCall, match=r'@stepfork\.tool\(name="refund"\)'):
        _ = run.result


def test_what_a_tool_changed_must_have_its_place(path: Path) -> None:
    """A recorded change that does not fit the live argument stops there instead of corrupting it."""

    @stepfork.tool(match=("key",))
    def note(key: str, state: Any) -> None:
        state["rows"].append(key)

    record(path, lambda: note("k", {"rows": []}))
    run = stepfork.replay(path, lambda: note("k", {}))
    assert stops(run) == ["note#1"]
    assert "state" in run.frontiers[0].why


def test_the_stop_itself_never_leaves_replay(empty: Path) -> None:
    """It derives from BaseException so that agents let it through; the caller sees an UnrecordedCall."""
    run = stepfork.replay(empty, lambda: refund("new"))
    assert not issubclass(ReplayStopped, Exception)
    assert isinstance(run.stop_error(), UnrecordedCall)
