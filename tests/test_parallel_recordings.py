"""Runs of agents whose tools really ran in parallel, kept, replayed whatever comes back first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from completion_orders import RECORDINGS, Facts, agent_of, drawn, facts_of, replayed_in
from stepfork._recording import read_run
from stepfork._replay import session

PATHS = sorted(RECORDINGS.glob("*.jsonl"))
every_recording = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def differing(path: Path, orders: range) -> tuple[int, set[str]]:
    """Replay in so many orders; returns how many differ from the run that was recorded, and all documents."""
    recorded: Facts = facts_of(read_run(path))
    agent = agent_of(path)
    runs = [drawn(replayed_in(path, agent, seed)) for seed in orders]
    return sum(facts != recorded for facts, _ in runs), {document for _, document in runs}


@every_recording
def test_a_parallel_run_is_replayed_as_it_was_in_any_completion_order(path: Path) -> None:
    """Same calls, arguments, addresses, results and snapshot, though the answers race each other (B20)."""
    different, documents = differing(path, range(2))
    assert different == 0
    assert len(documents) == 1


@pytest.mark.slow
@every_recording
def test_fifty_completion_orders_make_no_difference(path: Path, record_property: Any) -> None:
    """The same for 50 shuffles of what delays the replayed calls (B20)."""
    different, documents = differing(path, range(50))
    record_property("figures", f"{path.stem}: replays 50, differences {different + len(documents) - 1}")
    assert different == 0
    assert len(documents) == 1


def test_without_an_order_of_arrivals_the_shuffle_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shuffled orders are really others: where nothing waits for its turn, replays differ."""
    monkeypatch.setattr(session, "arrivals_of", lambda *_args: None)
    path = RECORDINGS / "gathered.jsonl"
    recorded, agent = facts_of(read_run(path)), agent_of(path)
    runs = [replayed_in(path, agent, seed) for seed in range(5)]
    assert all(facts_of(run.run) != recorded for run in runs)
