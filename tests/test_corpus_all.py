"""All real runs of the corpus on the road: 60 with a transcript, 17 that crashed."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from corpus.road import Road, Session, crashes, is_exact, real_runs, table, wrong_writes
from project import Project

pytestmark = pytest.mark.slow

FIXES = 20


def test_all_real_runs_replay_exactly_and_their_failures_can_be_fixed_and_guarded(
    project: Project, corpus: Path, record_property: Any
) -> None:
    """60 runs that nobody here made up: exact, the failed ones red, 20 of them fixed (B10, B27, B37)."""
    began = time.monotonic()
    cases = real_runs(corpus)
    failed = {case.name for case in cases if case.failed}
    passed = {case.name for case in cases if not case.failed}
    assert (len(failed), len(passed)) == (33, 27)

    road = Road(project, cases)
    journals = road.record()
    executed = road.executed()
    assert set(journals) == failed | passed
    road.mark_failed(journals)
    made = road.make_tests(journals)
    assert {name: one for name, one in made.items() if one.code != 0} == {}
    made_after = time.monotonic() - began

    replays = [road.check_replays("tau.agent:solve", road.recordings(), hash_seed) for hash_seed in (1, 2)]
    for replay in replays:
        assert _exact(replay) == failed | passed
    for _ in range(2):
        session = road.pytest()
        assert (session.still_failing(), session.passed()) == (failed, passed)
        assert _inexact(session) == []
    recorded = road.evidence()
    assert road.pytest("--snapshot-update").still_failing() == failed
    assert road.evidence() == recorded
    assert road.executed() == executed

    fixes = dict(list(wrong_writes(corpus, cases).items())[:FIXES])
    assert len(fixes) == FIXES
    road.put_right(fixes)
    shown = road.pytest()
    assert shown.passed() == passed
    assert shown.still_failing() == failed - set(fixes)
    update = road.pytest("--snapshot-update")
    accepted = update.passed() & set(fixes)
    at_a_frontier = {name for name in accepted if update.rows[name]["stopped"]}
    after = road.evidence()
    changed = {name for name, row in update.rows.items() if _snapshot_changed(row, recorded, after, project)}
    assert changed == accepted == set(fixes)
    green = road.pytest()
    assert green.passed() == passed | accepted
    assert f"{len(at_a_frontier)} guard only part of their run" in green.result.out
    road.put_wrong_again()
    for arguments in ([], ["--snapshot-update"]):
        assert road.pytest(*arguments).still_failing() == failed
        assert road.evidence() == after
    assert road.executed() == executed

    record_property(
        "figures",
        table(
            {
                "real runs recorded and made into tests": len(made),
                "calls in them": sum(row["calls"] for row in replays[0].values()),
                "replayed twice, every output exact": len(set.intersection(*map(_exact, replays))),
                "red with StillFailing": len(session.still_failing()),
                "green": len(session.passed()),
                "fixed: red, shown, accepted, green, red again": len(accepted),
                "of these accepted at a frontier": len(at_a_frontier),
                "verdicts that showed the fixes": dict(Counter(shown.verdicts()[name] for name in fixes)),
                "bodies of tools and models run in a replay": len(road.executed()) - len(executed),
                "seconds, recording and make-test": round(made_after),
                "seconds, all": round(time.monotonic() - began),
            }
        ),
    )


def _exact(replay: dict[str, dict[str, Any]]) -> set[str]:
    """Return the names of the runs whose replay gave every output, and the whole conversation, exactly."""
    return {name for name, row in replay.items() if is_exact(row) and row["same_transcript"]}


def _inexact(session: Session) -> list[str]:
    """Return the names of the runs whose test found anything but what was recorded."""
    return [
        name
        for name, row in session.rows.items()
        if row["stopped"] or row["stale"] or row["unused"] or row["extended"]
    ]


def _snapshot_changed(
    row: dict[str, Any], before: dict[str, bytes], after: dict[str, bytes], project: Project
) -> bool:
    path = Path(row["snapshot"]).relative_to(project.root).as_posix()
    return before[path] != after[path]


def test_all_real_crashes_are_red_with_the_type_and_message_they_had(
    project: Project, corpus: Path, record_property: Any
) -> None:
    """Validation, parser, rate limit and connection errors come back, served or raised anew (B12, B32)."""
    began = time.monotonic()
    cases = crashes(corpus)
    assert len(cases) == 17
    road = Road(project, cases)
    made = road.make_tests(road.record())
    executed = road.executed()
    assert {name: one for name, one in made.items() if one.code != 0} == {}

    replays = [road.check_replays("tau.crashes:solve_crashing", road.recordings(), seed) for seed in (1, 2)]
    assert [name for replay in replays for name, row in replay.items() if not is_exact(row)] == []
    session = road.pytest()
    assert session.still_failing() == {case.name for case in cases}
    types: Counter[str] = Counter()
    for case in cases:
        kind, type_name, _, message = session.rows[case.name]["failure"]
        assert kind == "raised"
        assert _without_version(message) == _without_version(case.recorded["info"]["error"])
        assert type_name.rpartition(":")[2] in case.recorded["info"]["traceback"]
        types[type_name] += 1
    assert road.executed() == executed
    record_property(
        "figures",
        table(
            {
                "crashes recorded and made into tests": len(made),
                "red with the recorded type and message": types.total(),
                "types": dict(types),
                "seconds": round(time.monotonic() - began),
            }
        ),
    )


def _without_version(message: str) -> str:
    """Leave out the last line of a pydantic error, a link that names the version."""
    return message.partition("\n    For further information visit")[0]
