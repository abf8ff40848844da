"""A handful of real runs on the road; ``test_corpus_all.py`` drives them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.road import Road, crashes, is_exact, real_runs, wrong_writes
from project import Project

FIXED_AT_A_FRONTIER = "airline_task43_trial2"
PASSED = "airline_task12_trial1"
REPR_ARGUMENTS = "retail_task74_preconditions"


@pytest.mark.slow
def test_real_runs_go_from_failure_to_a_guarded_fix_and_back(project: Project, corpus: Path) -> None:
    """A failed run of a real agent is red, its fix is shown, accepted and guarded; nothing is live (B27)."""
    chosen = {FIXED_AT_A_FRONTIER, PASSED}
    cases = [case for case in real_runs(corpus) if case.name in chosen]
    failed = chosen - {PASSED}
    instead = {name: pair for name, pair in wrong_writes(corpus, cases).items() if name in failed}
    road = Road(project, cases)
    journals = road.record()
    executed = road.executed()
    road.mark_failed(journals)
    made = road.make_tests(journals)
    assert {name: one.code for name, one in made.items()} == dict.fromkeys(chosen, 0), made

    red = road.pytest("--snapshot-update")
    assert (red.still_failing(), red.passed()) == (failed, {PASSED})
    recorded = road.evidence()

    road.put_right(instead)
    shown = road.pytest()
    assert shown.passed() == {PASSED}
    assert shown.verdicts()[FIXED_AT_A_FRONTIER] == "failure gone, stopped"
    assert "update_reservation_passengers" in shown.result.out
    assert road.evidence() == recorded

    assert road.pytest("--snapshot-update").passed() == chosen
    accepted = road.evidence()
    green = road.pytest()
    assert green.passed() == chosen
    assert "1 guards only part of its run" in green.result.out

    road.put_wrong_again()
    assert road.pytest("--snapshot-update").still_failing() == failed
    assert road.evidence() == accepted
    assert road.executed() == executed


@pytest.mark.slow
def test_a_database_of_a_megabyte_is_changed_in_place_in_a_replay_as_in_the_run(
    project: Project, corpus: Path
) -> None:
    """Every call of a run whose tools share a mutable database is answered exactly (B37)."""
    cases = [case for case in real_runs(corpus) if case.name == REPR_ARGUMENTS]
    road = Road(project, cases)
    journals = road.record(flights=8000)
    executed = road.executed()
    kept = sum(len(data) for data in project.files(".stepfork").values())
    row = road.check_replays("tau.agent:solve", journals, hash_seed=1)[REPR_ARGUMENTS]
    assert is_exact(row), row
    assert row["same_transcript"]
    assert kept > 1_000_000
    assert road.executed() == executed


@pytest.mark.slow
def test_a_real_crash_is_red_with_the_type_and_message_it_had(project: Project, corpus: Path) -> None:
    """A pydantic error raised between the calls comes back as itself (B32)."""
    cases = crashes(corpus)[:1]
    road = Road(project, cases)
    made = road.make_tests(road.record())
    assert [one.code for one in made.values()] == [0], made
    session = road.pytest()
    assert session.still_failing() == {cases[0].name}
    kind, type_name, _, message = session.rows[cases[0].name]["failure"]
    assert (kind, type_name) == ("raised", "pydantic_core._pydantic_core:ValidationError")
    assert message.splitlines()[:3] == cases[0].recorded["info"]["error"].splitlines()[:3]
