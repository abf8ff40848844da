"""Graphs whose tools really ran in parallel, kept, and replayed whatever comes back first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.langgraph.parallel_agents import bodies
from completion_orders import RECORDINGS, agent_of, replayed_in
from stepfork._recording import read_run
from stepfork._replay.facts import facts_of
from stepfork._verdict.assess import document_of
from stepfork._verdict.document import document

PATHS = sorted(RECORDINGS.glob("langgraph_*.jsonl"))


def recorded_document(path: Path) -> Any:
    """Return what a snapshot of the recorded run itself holds."""
    run = read_run(path)
    clock = run.started, run.started + max(run.seconds, 1.0)
    made = document(run, recording=path.stem, state="accepted", facts=facts_of(run)[0], clock=clock)
    return {**made, "test": "test"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_fifty_completion_orders_make_no_difference(path: Path, record_property: Any) -> None:
    """Calls, arguments, places and results are those of the recording in each of 50 shuffles (B20)."""
    recorded, agent = recorded_document(path), agent_of(path)
    bodies.forbidden = True
    different = 0
    try:
        for seed in range(50):
            replayed = replayed_in(path, agent, seed)
            assert replayed.unused == []
            different += document_of(replayed, test="test") != recorded
    finally:
        bodies.forbidden = False
    record_property("figures", f"{path.stem}: replays 50, differences {different}")
    assert different == 0
    assert bodies.names == []


def test_enough_runs_are_kept() -> None:
    """Each way that LangGraph has of doing things at once is there."""
    assert len(PATHS) == 6
