"""Past the end of the recording: calls that run live once and answer offline from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import Bodies, made, record, stops
from stepfork._paths import extension_paths
from stepfork._replay.conduct import Conductor
from stepfork._replay.load import load_recording
from stepfork._replay.result import Replayed
from stepfork.errors import OptionError

bodies = Bodies()


@stepfork.tool
def refund(order: str, log: list[str] | None = None) -> str:
    bodies.ran.append(order)
    if log is not None:
        log.append(order)
    return f"refunded {order} ({len(bodies.ran)})"


@stepfork.model
def ask(prompt: str) -> str:
    bodies.ran.append(prompt)
    return f"reply to {prompt}"


@stepfork.tool
def fails(key: str) -> str:
    bodies.ran.append(key)
    raise OSError(key)


@stepfork.tool
def stream(key: str) -> Iterator[str]:
    bodies.ran.append(key)
    yield from key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    record(path, lambda: (refund("old"), ask("first")))
    return path


def extend(path: Path, function: Callable[..., Any], *addresses: str) -> Replayed:
    """Replay as ``pytest --stepfork-extend`` does."""
    return Conductor(
        load_recording(path),
        function,
        override={},
        live=frozenset(),
        tolerance={},
        timeout=None,
        extend=addresses,
        provided={},
    ).play()


def test_unanswered_calls_run_once_and_answer_offline_from_then_on(path: Path) -> None:
    """The recording stays as it is; beside it lies one file that holds what came of them."""
    before = path.read_bytes()

    def agent() -> list[Any]:
        return [refund("old"), refund("new"), list(stream("ab")), ask("first")]

    assert stops(stepfork.replay(path, agent)) == ["refund#2"]
    live, ran = bodies.ran_in(lambda: extend(path, agent))
    assert ran == 2
    assert live.extended == ["test#1/refund#2", "test#1/stream#1"]
    assert path.read_bytes() == before
    assert len(extension_paths(path)) == 1
    offline, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
    assert ran == 0
    assert offline.result == live.result
    assert offline.unused == []
    assert [call.label for call in made(offline) if call.extended] == ["refund#2", "stream#1"]
    _, ran = bodies.ran_in(lambda: extend(path, agent))
    assert ran == 0
    assert len(extension_paths(path)) == 1


def test_a_stale_reply_is_asked_for_anew_and_stands_for_the_old_one(path: Path) -> None:
    """The new prompt gets the new reply, the old prompt still gets the old one."""
    assert stepfork.replay(path, lambda: ask("second")).stale
    _, ran = bodies.ran_in(lambda: extend(path, lambda: ask("second")))
    assert ran == 1
    offline = stepfork.replay(path, lambda: ask("second"))
    assert offline.result == "reply to second"
    assert offline.stale == []
    assert stepfork.replay(path, lambda: ask("first")).result == "reply to first"
    third = stepfork.replay(path, lambda: ask("third"))
    assert third.result == "reply to second"
    assert len(third.stale) == 1


def test_an_address_names_the_one_call_that_runs_live(path: Path) -> None:
    """Its new outcome stands for the recorded one; the newest of several extensions counts."""
    first = extend(path, lambda: refund("old"), "refund#1").result
    assert stepfork.replay(path, lambda: refund("old")).result == first
    second = extend(path, lambda: refund("old"), "refund#1").result
    assert second != first
    assert len(extension_paths(path)) == 2
    assert stepfork.replay(path, lambda: refund("old")).result == second
    assert stops(extend(path, lambda: refund("new"), "refund#1")) == ["refund#2"]


def test_an_address_that_names_no_call_fails_with_near_ones(path: Path) -> None:
    """A slip of the pen must not pass for a live call."""
    with pytest.raises(OptionError, match="refnd#1 names no call") as caught:
        extend(path, lambda: refund("old"), "refnd#1")
    assert ("near", "refund#1") in caught.value.detail
    assert extend(path, lambda: refund("new"), "refund#2").extended == ["test#1/refund#2"]


def test_an_address_that_names_several_calls_or_a_step_is_refused_before_anything_runs(path: Path) -> None:
    """Which of them is to run live, only the caller knows."""

    @stepfork.step
    def plan(order: str) -> str:
        return refund(order)

    def agent() -> None:
        plan("a")
        plan("b")

    two = path.with_name("two.jsonl")
    record(two, agent)
    before = len(bodies.ran)
    with pytest.raises(OptionError, match=r"(?s)2 calls.*plan#1/refund#1.*plan#2/refund#1"):
        extend(two, agent, "refund#1")
    with pytest.raises(OptionError, match="plan#1 names a step"):
        extend(two, agent, "plan#1")
    assert len(bodies.ran) == before
    run = extend(two, agent, "plan#2/refund#1")
    assert (run.extended, len(bodies.ran)) == (["test#1/plan#2/refund#1"], before + 1)


def test_what_a_live_call_raises_is_kept_as_its_outcome(path: Path) -> None:
    """The agent gets the exception, now and offline."""

    def agent() -> str:
        try:
            return fails("k")
        except OSError as error:
            return f"failed: {error}"

    assert extend(path, agent).result == "failed: k"
    offline, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
    assert offline.result == "failed: k"
    assert ran == 0


def test_what_a_live_call_changed_in_place_is_kept_too(path: Path) -> None:
    """Offline the argument is changed again."""

    def agent() -> list[str]:
        log: list[str] = []
        refund("new", log)
        return log

    assert extend(path, agent).result == ["new"]
    assert stepfork.replay(path, agent).result == ["new"]


def test_a_live_call_that_was_cancelled_is_not_kept(path: Path) -> None:
    """It has no outcome that could be served."""

    @stepfork.tool
    async def slow() -> None:
        await asyncio.sleep(30)

    async def agent() -> str:
        try:
            await asyncio.wait_for(slow(), 0.02)
        except TimeoutError:
            return "too slow"
        return "done"

    assert extend(path, agent).result == "too slow"
    assert extension_paths(path) == []


def test_each_live_call_is_kept_at_once(path: Path) -> None:
    """An agent that crashes after two calls has paid for two and keeps both."""

    def agent() -> None:
        refund("x")
        refund("y")
        raise KeyError("later")

    extend(path, agent)
    run, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
    assert ran == 0
    assert run.frontiers == []
    assert len(extension_paths(path)) == 1
    with pytest.raises(KeyError):
        _ = run.result


def test_what_a_live_call_calls_inside_is_part_of_it(path: Path) -> None:
    """A tool's body runs whole: its own tools are no calls of the replay."""

    @stepfork.tool
    def outer() -> str:
        return refund("inside")

    run, ran = bodies.ran_in(lambda: extend(path, outer))
    assert ran == 1
    assert [call.label for call in made(run)] == ["outer#1"]
    assert stepfork.replay(path, outer).result == run.result


def test_live_sends_the_calls_of_a_name_out_and_keeps_nothing(path: Path) -> None:
    """live= is for this replay only."""
    run, ran = bodies.ran_in(lambda: stepfork.replay(path, lambda: refund("old"), live={"refund"}))
    assert ran == 1
    assert run.result.endswith(f"({len(bodies.ran)})")
    assert extension_paths(path) == []
