"""What is relied on in syrupy: each behaviour that was observed, seen again in the installed version."""

from __future__ import annotations

from pathlib import Path

import pytest

from once import once, shared_folder
from project import MINIMAL, Project

TESTS = """
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.data import SnapshotCollections
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

KEPT = Path(__file__).parent.parent / "kept"


class Text(str):
    note = "travels"


class Kept(SingleFileSnapshotExtension):
    file_extension = "txt"
    _write_mode = WriteMode.TEXT
    asked: list = []
    written: list = []
    path = KEPT / "nowhere.txt"

    def serialize(self, data, **_):
        self.asked.append("serialize")
        if data == "veto":
            raise ValueError("veto")
        return Text(data)

    def matches(self, *, serialized_data, snapshot_data):
        self.asked.append(("matches", serialized_data.note, snapshot_data))
        return serialized_data == snapshot_data

    def discover_snapshots(self, **_):
        return SnapshotCollections()

    def get_location(self, **_):
        return str(self.path)

    @classmethod
    def matches_test_location(cls, **_):
        return True

    def read_snapshot_data_from_location(self, *, snapshot_location, **_):
        path = Path(snapshot_location)
        return path.read_text() if path.exists() else None

    @classmethod
    def write_snapshot(cls, *, snapshot_location, snapshots, **_):
        cls.written += [(snapshot_location, data.note) for data, _location, _index in snapshots]


@pytest.fixture(autouse=True)
def fresh():
    Kept.asked.clear()
    Kept.written.clear()


def at(snapshot, name):
    beside = snapshot.use_extension(Kept)
    beside.extension.path = KEPT / name
    return beside


def test_raising_vetoes_the_write(snapshot):
    assert not at(snapshot, "absent.txt")._assert("veto")
    assert Kept.written == []


def test_matches_is_not_asked_without_a_file(snapshot):
    at(snapshot, "absent.txt")._assert("new")
    assert Kept.asked == ["serialize"]


def test_the_serialised_text_reaches_matches_and_the_write(snapshot):
    beside = at(snapshot, "accepted.txt")
    updating = beside.update_snapshots
    assert (beside == "other") is updating
    assert ("matches", "travels", "accepted") in Kept.asked
    assert Kept.written == ([(str(KEPT / "accepted.txt"), "travels")] if updating else [])


def test_the_location_is_asked_of_the_instance(snapshot):
    first, second = at(snapshot, "one.txt"), at(snapshot, "two.txt")
    assert first.extension is first.extension
    assert first.extension is not second.extension
    updating = snapshot.update_snapshots
    assert first._assert("x") == second._assert("x") == updating
    assert [Path(row[0]).name for row in Kept.written] == (["one.txt", "two.txt"] if updating else [])


def test_another_extension_does_not_count_the_index(snapshot):
    at(snapshot, "accepted.txt")._assert("accepted")
    assert snapshot.index == 0
    snapshot(extension_class=Kept)._assert("x")
    assert snapshot.index == 1


def test_a_name_is_the_index_of_one_comparison(snapshot):
    named = snapshot(name="total", extension_class=Kept)
    assert named is snapshot
    assert snapshot.index == "total"
    snapshot._assert("x")
    assert snapshot.index == 1


def test_a_result_can_be_taken_back(snapshot):
    beside = at(snapshot, "accepted.txt")
    assert beside._assert("accepted")
    result = beside.executions[beside.num_executions - 1]
    assert (result.success, result.created, result.updated) == (True, False, False)
    result.success = False


def test_a_subclass_on_the_right_is_asked_first(snapshot):
    class Run(type(snapshot)):
        def __init__(self): ...
        def __eq__(self, other): return "asked"

    assert (snapshot == Run()) == "asked"
    assert (Run() == snapshot) == "asked"


def test_assert_match_compares_with_itself_on_the_left(snapshot):
    class Run(type(snapshot)):
        def __init__(self): ...
        def __eq__(self, other): raise AssertionError("the report")

    with pytest.raises(AssertionError, match="the report"):
        snapshot.assert_match(Run())


def test_false_without_a_comparison_breaks_the_report_of_syrupy(snapshot):
    with pytest.raises(KeyError):
        snapshot.get_assert_diff()


def test_the_location_knows_file_and_node(snapshot):
    location = snapshot.test_location
    assert location.filepath == __file__
    assert location.nodeid.endswith("::test_the_location_knows_file_and_node")


def test_amber_is_written(snapshot):
    assert snapshot == {"a": 1}
"""

NAMES = [line[9:].partition("(")[0] for line in TESTS.splitlines() if line.startswith("def test_")]


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What syrupy's pytest printed, without and with an update."""
    folder = once(shared_folder(tmp_path_factory, "syrupy") / "seen", see)
    return {mode: (folder / f"{mode}.txt").read_text("utf-8") for mode in ("check", "update")}


def see(root: Path) -> None:
    """Run the tests in a project of their own."""
    project = Project(
        root / "project", MINIMAL | {"tests/test_it.py": TESTS, "kept/accepted.txt": "accepted"}
    )
    for mode, option in (("check", "-v"), ("update", "--snapshot-update")):
        shown = project.pytest("-p", "no:stepfork", "-vv", option)
        (root / f"{mode}.txt").write_text(shown.out, encoding="utf-8")
    assert project.read("kept/accepted.txt") == "accepted"
    assert not (project.root / "kept" / "absent.txt").exists()


@pytest.mark.parametrize("mode", ["check", "update"])
@pytest.mark.parametrize("name", NAMES)
def test_a_behaviour_of_syrupy_is_as_it_was_observed(seen: dict[str, str], name: str, mode: str) -> None:
    """What the extension is built on holds, with ``--snapshot-update`` and without."""
    expected = "FAILED" if mode == "check" and name == "amber_is_written" else "PASSED"
    assert f"::test_{name} {expected}" in seen[mode], seen[mode]


def test_the_summary_counts_a_result_that_was_taken_back_as_failed(seen: dict[str, str]) -> None:
    """Syrupy makes its summary from the results when everything has run."""
    assert " snapshots failed." in seen["update"]


TWICE = """
    import contextlib
    from agent import broken, mended

    def test_it(replay, snapshot):
        with contextlib.suppress(AssertionError):
            assert replay("run", broken) == snapshot
        assert replay("run", mended) == snapshot
"""
MAKE = """
    import stepfork, agent

    with stepfork.run("x", path="tests/recordings/run.jsonl"):
        agent.broken()
"""
AGENT = """
    import stepfork

    @stepfork.tool
    def look(order):
        return {"total": 120}

    @stepfork.step(name="handle")
    def broken():
        return look("A-17")["amount"]

    @stepfork.step(name="handle")
    def mended():
        return look("A-17")["total"]
"""


@pytest.mark.slow
def test_a_swallowed_refusal_refuses_every_write_of_its_test(project: Project) -> None:
    """One comparison that fails is an assertion that fails, also where the test catches it (B55)."""
    project.write({"agent.py": AGENT, "tests/test_it.py": TWICE, "conftest.py": "", "make.py": MAKE})
    project.run("python", "make.py")
    seen = project.pytest("--snapshot-update")
    assert seen.code == 0, seen.out
    assert "another assertion of this test failed" in project.pytest("--snapshot-update", "-rA").out
    assert not [name for name in project.files() if name.endswith(".yaml")]
