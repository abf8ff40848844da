"""Every cell of the verdict table through real pytest processes: with and without an update, and with CI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

import verdict_project
from once import once, shared_folder
from project import Project
from verdict_project import Seen, Situation
from verdict_rows import MISSING, ROWS, SITUATIONS

BY_NAME = {situation.name: situation for situation in SITUATIONS}
WRITTEN = {"refused": False, "moved addresses": False, "written": True, "accepted": True}


class Mode(NamedTuple):
    """How pytest is called."""

    arguments: tuple[str, ...]
    ci: str
    writes: bool


MODES = {
    "pytest": Mode((), "", writes=False),
    "update": Mode(("--snapshot-update",), "", writes=True),
    "pytest in CI": Mode((), "1", writes=False),
    "update in CI": Mode(("--snapshot-update",), "true", writes=False),
    "update in CI, allowed": Mode(("--snapshot-update", "--stepfork-allow-ci"), "1", writes=True),
    "new only": Mode(("--snapshot-update-new-only",), "0", writes=True),
}
SELDOM = {"pytest in CI", "update in CI", "update in CI, allowed", "new only"}
"""Modes whose cells follow from the others'; they are run with the slow tests."""

MARKED = [pytest.param(mode, marks=pytest.mark.slow if mode in SELDOM else ()) for mode in MODES]
CELLS = [
    pytest.param(situation.name, *mode.values, marks=mode.marks)
    for mode in MARKED
    for situation in SITUATIONS
]


def is_written(situation: Situation, mode: str) -> bool:
    """Whether the table says that this cell is accepted and its file written."""
    new_only = "--snapshot-update-new-only" in MODES[mode].arguments
    return (
        MODES[mode].writes and WRITTEN[ROWS[situation.row][1]] and (not new_only or situation.row == MISSING)
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with its recordings and snapshots, before the agents behave as they do now."""
    folder = shared_folder(tmp_path_factory, "verdict_table") / "built"
    return once(folder, lambda root: verdict_project.build(root, SITUATIONS))


@pytest.fixture
def seen(built: Path, mode: str) -> Seen:
    """What pytest did in this mode."""
    root = built.parent / mode.replace(" ", "_").replace(",", "")
    chosen = MODES[mode]
    once(root, lambda copy: verdict_project.run_copy(built, copy, *chosen.arguments, env={"CI": chosen.ci}))
    return verdict_project.seen_at(root)


@pytest.mark.parametrize(("name", "mode"), CELLS)
def test_a_cell_of_the_table_holds(seen: Seen, name: str, mode: str) -> None:
    """A test passes or fails as its row says, says why, and changes only what is accepted (B55, B59)."""
    situation = BY_NAME[name]
    check = ROWS[situation.row][0]
    written = is_written(situation, mode)
    assert seen.outcomes[name] == ("passed" if written or check == "pass" else "failed"), seen.said[name]
    before, after = seen.snapshot(name)
    if written:
        assert after is not None
        assert after != before
    else:
        rewritten = name == "moved" and MODES[mode].writes and mode != "new only"
        assert (after != before) == rewritten
    if seen.outcomes[name] == "failed":
        assert re.search(situation.message, seen.said[name]), seen.said[name]


@pytest.mark.parametrize("mode", MARKED)
def test_no_file_is_touched_but_the_accepted_snapshots(seen: Seen, mode: str) -> None:
    """Recordings, sources and other snapshots are byte for byte the same, and no folder is left behind."""
    allowed = {
        f"snapshots/tests/test_shop/test_{name}.yaml"
        for situation in SITUATIONS
        if is_written(situation, mode) or (situation.name == "moved" and MODES[mode].writes)
        for name in (situation.name, situation.before)
    }
    changed = {name for name in seen.before | seen.after if seen.before.get(name) != seen.after.get(name)}
    assert changed <= allowed


@pytest.mark.parametrize("mode", MARKED)
def test_the_process_fails_as_long_as_a_test_does(seen: Seen, mode: str) -> None:
    """Nothing of ours hides pytest's own exit code."""
    assert seen.code == 1
    assert "INTERNALERROR" not in seen.out


def test_what_was_accepted_is_green_from_then_on(built: Path, tmp_path: Path) -> None:
    """After an update the accepted tests pass in a process that ends with 0, and say what green means."""
    once(
        built.parent / "update",
        lambda copy: verdict_project.run_copy(built, copy, "--snapshot-update", env={}),
    )
    green = [each.name for each in SITUATIONS if is_written(each, "update") or ROWS[each.row][0] == "pass"]
    nodes = [f"tests/test_shop.py::test_{name}" for name in green]
    project = Project(tmp_path / "after", {})
    seen = verdict_project.run_copy(built.parent / "update", project.root, *nodes, env={"CI": "1"})
    assert set(seen.outcomes.values()) == {"passed"}
    assert seen.before == seen.after
    assert seen.code == 0
    assert seen.out.rstrip().endswith(
        f"{len(green)} passed (3 guard only part of their run, 1 on stale replies)"
    )


def test_an_update_says_aloud_what_it_accepts(built: Path) -> None:
    """The number of values and calls, up to which call a test guards, and where a snapshot came from."""
    root = built.parent / "update"
    once(root, lambda copy: verdict_project.run_copy(built, copy, "--snapshot-update", env={}))
    out = verdict_project.seen_at(root).out
    for name, said in {
        "different": "accepted: 1 value",
        "gone_on": "accepted: 1 value, 1 call added, another outcome; guards up to refund(order=",
        "elsewhere": 'accepted: 1 value; guards up to refund(order="A-17", amount=121)',
        "no_snapshot": "accepted: new snapshot",
        "renamed": "accepted: new snapshot; taken over from snapshots/tests/test_shop/test_old_name.yaml",
        "on_stale": "accepted: 2 values, another outcome; 1 stale reply",
        "drift": "1 drifted within tolerance",
        "moved": "1 moved",
    }.items():
        assert f"tests/test_shop.py::test_{name}: {said}" in out


def test_a_renamed_tests_snapshot_is_moved_not_made_anew(built: Path) -> None:
    """Only the name of the test differs in the new file, and the old one is gone (B50)."""
    root = built.parent / "update"
    once(root, lambda copy: verdict_project.run_copy(built, copy, "--snapshot-update", env={}))
    seen = verdict_project.seen_at(root)
    old, gone = seen.snapshot("old_name")
    _, new = seen.snapshot("renamed")
    assert old is not None
    assert gone is None
    assert new == old.replace(b"test: test_old_name", b"test: test_renamed")


def test_a_refused_update_says_so(built: Path) -> None:
    """Somebody who asked for an update is told why the file was left as it was."""
    root = built.parent / "update"
    once(root, lambda copy: verdict_project.run_copy(built, copy, "--snapshot-update", env={}))
    said = verdict_project.seen_at(root).said
    assert (
        "--snapshot-update refused: snapshots/tests/test_shop/test_still.yaml is left as it was"
        in said["still"]
    )
    in_ci = built.parent / "update_in_CI"
    once(in_ci, lambda copy: verdict_project.run_copy(built, copy, "--snapshot-update", env={"CI": "1"}))
    assert "where CI is set nothing is written" in verdict_project.seen_at(in_ci).said["different"]
