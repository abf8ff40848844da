"""What is read, and what is noticed, when a replay is judged."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import stepfork
from replays import record
from stepfork import tolerance
from stepfork._replay.result import Replayed
from stepfork._verdict import snapshot as _snapshot
from stepfork._verdict.assess import assess, document_of, unused_rules


@stepfork.step(tolerance={"score": tolerance.approx(rel=0.1), "scor": tolerance.approx(rel=0.1)})
def rate(text: str) -> dict[str, float]:
    if not text:
        raise ValueError("no text")
    return {"score": 0.5}


@stepfork.step(tolerance={"$.output.cost": tolerance.anything()})
def fails() -> float:
    raise ValueError("no price")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def unused(replayed: Replayed) -> list[str]:
    """Return what is told of the rules once the replay was judged."""
    assess(replayed, replayed.recording.path.with_name("none.yaml"), "test_it")
    return list(unused_rules(replayed))


def test_a_key_that_matched_nothing_is_told_with_its_call(path: Path) -> None:
    """A misspelt key of a decorator or of the test is told, one of both alike once (B69)."""
    record(path, lambda: rate("late"))
    assert unused(stepfork.replay(path, lambda: rate("late"))) == ["tolerance 'scor' matched nothing in rate"]
    given = {"scor": tolerance.anything(), "text": tolerance.anything()}
    assert unused(stepfork.replay(path, lambda: rate("late"), tolerance=given)) == [
        "tolerance 'scor' matched nothing in this run"
    ]


def test_nothing_is_told_of_the_rules_of_calls_that_did_not_return(path: Path) -> None:
    """Where there is no output a key for it is not misspelt."""

    def agent() -> None:
        with contextlib.suppress(ValueError):
            fails()

    record(path, agent)
    assert unused(stepfork.replay(path, agent)) == []


@pytest.mark.parametrize("state", ["accepted", "recorded failure"])
def test_a_snapshot_of_equal_bytes_is_not_read_as_yaml(
    path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a long snapshot is what makes a test slow, and mostly nothing has changed."""
    record(path, lambda: rate("late"))
    replayed = stepfork.replay(path, lambda: rate("late"))
    accepted = path.with_name("test_it.yaml")
    made = {**document_of(replayed, test="test_it"), "state": state}
    _snapshot.write(accepted, _snapshot.to_text(made))
    monkeypatch.setattr(_snapshot, "from_text", None)
    judged = assess(replayed, accepted, "test_it")
    assert judged.case.likeness == "equal"
    assert judged.case.accepted == ("ended" if state == "accepted" else state)
    assert judged.text == accepted.read_text("utf-8")
