"""The plug-in among everything else that pytest does: other snapshots, xdist, xfail, selections, subtests."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import verdict_project
from once import once, shared_folder
from project import MINIMAL, Project, Result
from verdict_project import AGENT, Situation

RECORDED = ("crash", "crash_still", "goes_on", "well", "score", "prompt_only")

MIXED = """
import pytest
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.assertion import SnapshotAssertion

from shop import agent


@pytest.mark.parametrize("key", ["../up", "CON", "a b", "a/b", "x" * 300, "Ü"])
def test_parameters(replay, snapshot, key):
    assert replay("well", agent.well) == snapshot


class TestShop:
    class TestInner:
        def test_parameters(self, replay, snapshot):
            assert replay("well", agent.well) == snapshot

    def test_upper(self, replay, snapshot):
        assert replay("goes_on", agent.goes_on) == snapshot


def test_several(replay, snapshot):
    assert {"amber": 1} == snapshot
    run = replay("well", agent.well)
    assert run == snapshot
    assert snapshot == {"amber": 2}
    assert run == snapshot(name="named")
    assert snapshot == run
    assert snapshot(extension_class=JSONSnapshotExtension) == {"json": 1}
    assert run == snapshot


def test_amber_alone(snapshot):
    assert [1, 2] == snapshot


def test_other_comparisons(replay):
    run, again = replay("well", agent.well), replay("well", agent.well)
    assert run == run
    assert run != again
    assert not run == {"a": 1}
    assert run in [again, run]
    assert len({run, again}) == 2
    assert "replay of well" in repr(run)


class OwnSnapshot(SnapshotAssertion):
    pass


class TestOwn:
    @pytest.fixture
    def snapshot(self, snapshot):
        return OwnSnapshot(
            session=snapshot.session,
            extension_class=snapshot.extension_class,
            test_location=snapshot.test_location,
            update_snapshots=snapshot.update_snapshots,
        )

    def test_left(self, replay, snapshot):
        assert snapshot == replay("well", agent.well)

    def test_right(self, replay, snapshot):
        assert replay("well", agent.well) == snapshot


@pytest.mark.asyncio
async def test_async(areplay, snapshot):
    async def root(key):
        return agent.well(key)

    assert await areplay("well", root) == snapshot
"""

# How many snapshots each test keeps: ours, as files.
KEPT = 6 + 2 + 4 + 2 + 1

MARKED = """
import pytest
import stepfork.tolerance
from shop import agent

still = pytest.mark.xfail(raises=stepfork.StillFailing, strict=True, reason="known")


@still
def test_still_strict(replay, snapshot):
    assert replay("crash_still", agent.crash_still) == snapshot

@pytest.mark.xfail(reason="known")
def test_still_loose(replay, snapshot):
    assert replay("crash_still", agent.crash_still) == snapshot

@still
def test_fixed_strict(replay, snapshot):
    assert replay("crash", agent.crash) == snapshot

@pytest.mark.xfail(strict=True, reason="known")
def test_fixed_strict_any(replay, snapshot):
    assert replay("crash", agent.crash) == snapshot

@pytest.mark.xfail(strict=False, reason="known")
def test_fixed_loose(replay, snapshot):
    assert replay("goes_on", agent.goes_on) == snapshot

def test_subtest(replay, snapshot, subtests):
    assert replay("well", agent.well) == snapshot
    with subtests.test("good"):
        pass
    with subtests.test("bad"):
        assert 1 == 2

def test_good_subtest(replay, snapshot, subtests):
    with subtests.test("good"):
        assert replay("well", agent.well) == snapshot

tried = []

@pytest.mark.flaky(reruns=1)
def test_flaky(replay, snapshot):
    assert replay("well", agent.well) == snapshot
    tried.append(1)
    assert len(tried) == 2

def test_error_in_teardown(replay, snapshot, broken):
    assert replay("well", agent.well) == snapshot

@pytest.fixture
def broken():
    yield
    raise RuntimeError("teardown")

def test_damaged(replay, snapshot):
    assert replay("well", agent.well) == snapshot

def test_no_recording(replay, snapshot):
    assert replay("absent", agent.well) == snapshot

@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["left", "right", "look"])
async def test_not_awaited(areplay, snapshot, how):
    run = areplay("well", agent.well)
    if how == "look":
        run.result
    assert run == snapshot if how == "left" else snapshot == run

def test_misspelt_rule(replay, snapshot):
    assert replay("well", agent.well, tolerance={"scor": stepfork.tolerance.anything()}) == snapshot
"""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with recordings and no tests."""

    def make(root: Path) -> None:
        situations = tuple(Situation(name, "", "", name) for name in RECORDED)
        verdict_project.record(Project(root), situations)

    return once(shared_folder(tmp_path_factory, "plugin") / "recorded", make)


@pytest.fixture
def shop(recorded: Path, tmp_path: Path) -> Project:
    """A copy of that project."""
    root = tmp_path / "shop"
    shutil.copytree(recorded, root)
    return Project(root, {})


def now(project: Project, *arguments: str, **environment: str) -> Result:
    """Run the tests as the agents behave now."""
    return project.pytest("-q", *arguments, env={"SHOP": "now", **environment})


def outcomes(result: Result) -> dict[str, str]:
    """Return what ``-rA`` lists, by test."""
    found = re.findall(r"^([A-Z]+)(?:\(\S+\))? tests/\w+\.py::(\S+)", result.out, re.MULTILINE)
    return {name: outcome for outcome, name in found}


@pytest.mark.slow
def test_snapshots_of_every_kind_live_side_by_side(shop: Project, tmp_path: Path) -> None:
    """Classes, parameters, second comparisons, syrupy's own files; under xdist the same (B47, B49, B56)."""
    shop.write({"tests/test_mixed.py": MIXED})
    shutil.copytree(shop.root, tmp_path / "spread")
    spread = Project(tmp_path / "spread", {})

    updated = now(shop, "--snapshot-update")
    assert updated.code == 0, updated
    under_xdist = now(spread, "--snapshot-update", "-n2")
    assert under_xdist.code == 0, under_xdist
    both = (updated, under_xdist)

    files = shop.files()
    assert files == spread.files()
    ours = [name for name in files if name.startswith("snapshots/")]
    assert len(ours) == KEPT
    assert len({name.casefold() for name in ours}) == KEPT
    assert all(len(Path(name).name) <= 100 for name in ours)
    others = [name for name in files if "__snapshots__" in name]
    # Of ours only a named comparison counts for syrupy, as its own named ones do.
    assert sorted(Path(name).name for name in others) == ["test_mixed.ambr", "test_several.3.json"]

    said = [re.findall(r"^tests/test_mixed.py::(.+): accepted", shown.out, re.MULTILINE) for shown in both]
    assert sorted(said[0]) == sorted(said[1])
    assert len(said[0]) == KEPT
    last_lines = {shown.out.rstrip().splitlines()[-1] for shown in both}
    assert last_lines == {"14 passed (1 guards only part of its run)"}


@pytest.mark.parametrize(
    "selection",
    [
        (
            "-k",
            "parameters",
            "--deselect",
            "tests/test_mixed.py::test_parameters[CON]",
            "tests/test_mixed.py",
        ),
        ("-x", "--continue-on-collection-errors"),
    ],
)
@pytest.mark.slow
def test_an_update_of_what_has_not_changed_touches_no_file(shop: Project, selection: tuple[str, ...]) -> None:
    """Bytes and times stay, and what was not selected or could not be collected too (B52, B57)."""
    shop.write({"tests/test_mixed.py": MIXED})
    now(shop, "--snapshot-update", "tests/test_mixed.py")
    before = shop.files("snapshots")
    times = {name: (shop.root / name).stat().st_mtime_ns for name in before}
    shop.write({"tests/test_broken.py": "import no_such_module\n"})
    now(shop, "--snapshot-update", *selection)
    assert shop.files("snapshots") == before
    assert {name: (shop.root / name).stat().st_mtime_ns for name in before} == times


@pytest.fixture(scope="session")
def marked(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The marked tests, run without an update and with one, in copies of one project."""

    def make(root: Path) -> None:
        for mode, option in (("check", "-q"), ("update", "--snapshot-update")):
            shutil.copytree(recorded, root / mode)
            project = Project(root / mode, {})
            project.write({"tests/test_marked.py": MARKED, DAMAGED: "calls:\n<<<<<<< HEAD\n- a\n"})
            shown = now(project, "-rA", option)
            (root / f"{mode}.txt").write_text(shown.out, encoding="utf-8")

    return once(shared_folder(tmp_path_factory, "plugin") / "marked", make)


DAMAGED = "snapshots/tests/test_marked/test_damaged.yaml"


@pytest.mark.parametrize(
    ("name", "check", "update"),
    [
        ("still_strict", "XFAIL", "XFAIL"),
        ("still_loose", "XFAIL", "XFAIL"),
        ("fixed_strict", "FAILED", "FAILED"),
        ("fixed_strict_any", "FAILED", "FAILED"),
        ("fixed_loose", "FAILED", "FAILED"),
        ("subtest", "FAILED", "FAILED"),
        ("good_subtest", "FAILED", "PASSED"),
        ("flaky", "FAILED", "PASSED"),
        ("error_in_teardown", "FAILED", "PASSED"),
        ("damaged", "FAILED", "FAILED"),
        ("no_recording", "FAILED", "FAILED"),
        ("not_awaited", "FAILED", "FAILED"),
        ("misspelt_rule", "FAILED", "PASSED"),
    ],
)
def test_a_mark_or_a_subtest_does_not_get_a_bug_accepted(
    marked: Path, name: str, check: str, update: str
) -> None:
    """Still failing stays xfailed, fixed under xfail fails, and only what passed as a whole is written."""
    for mode, expected in (("check", check), ("update", update)):
        out = (marked / f"{mode}.txt").read_text("utf-8")
        assert re.search(rf"^{expected} tests/test_marked.py::test_{name}\b", out, re.MULTILINE), out
        written = (marked / mode / f"snapshots/tests/test_marked/test_{name}.yaml").exists()
        assert written == (expected == "PASSED" or name == "damaged")


def test_a_fixed_test_is_told_to_lose_its_mark(marked: Path) -> None:
    """The message says what to do, strict or not, with ``raises`` or without."""
    for mode in ("check", "update"):
        out = (marked / f"{mode}.txt").read_text("utf-8")
        assert out.count("marked xfail: remove the mark, then update\n") >= 3


def test_a_damaged_snapshot_is_named_with_its_line_and_left_alone(marked: Path) -> None:
    """A merge that was not finished fails the test, and no update paints over it (B53)."""
    out = (marked / "update.txt").read_text("utf-8")
    assert re.search(r"SF304 conflict markers in \S*test_damaged.yaml:2", out)
    assert "HEAD" in (marked / "update" / DAMAGED).read_text("utf-8")


def test_an_error_shows_the_line_of_the_test_and_none_of_ours(marked: Path) -> None:
    """A traceback has the user's lines only, and says nothing of our fixtures (B80)."""
    out = (marked / "check.txt").read_text("utf-8")
    assert "SF301 no recording at " in out
    assert "src/stepfork" not in out
    assert "replay = <function" not in out
    assert "snapshot = " not in out


def test_a_replay_that_is_not_awaited_says_so_whatever_is_asked_of_it(marked: Path) -> None:
    """A bare coroutine would be compared and accepted as a text."""
    out = (marked / "update.txt").read_text("utf-8")
    assert len(re.findall(r"^E .*SF102 areplay\(.*\) was not awaited", out, re.MULTILINE)) == 3
    assert "was never awaited" not in out
    assert not list((marked / "update").rglob("*.ambr"))


def test_a_rule_that_found_nothing_is_told_whatever_came_of_the_test(marked: Path) -> None:
    """A misspelt key does not go unseen, and one that found its place is not told of (B69)."""
    for mode in ("check", "update"):
        out = (marked / f"{mode}.txt").read_text("utf-8")
        (told,) = (line for line in out.splitlines() if "matched nothing" in line)
        assert told.endswith("test_misspelt_rule: tolerance 'scor' matched nothing in this run")


@pytest.mark.slow
def test_the_last_failed_tests_can_be_updated_alone(shop: Project) -> None:
    """``--lf`` drops tests during collection; their snapshots stay (B57)."""
    shop.write({"tests/test_mixed.py": MIXED})
    now(shop, "--snapshot-update")
    before = shop.files("snapshots")
    shop.replace("tests/test_mixed.py", "assert [1, 2] == snapshot", "assert [1, 3] == snapshot")
    arguments = ("pytest", "-q", "-p", "cacheprovider")
    assert shop.run(*arguments, env={"SHOP": "now"}).code == 1
    assert shop.run(*arguments, "--lf", "--snapshot-update", env={"SHOP": "now"}).code == 0
    assert shop.files("snapshots") == before


@pytest.mark.slow
def test_another_default_extension_does_not_matter(shop: Project) -> None:
    """A project whose snapshots are JSON by default keeps ours as they are."""
    shop.write({"tests/test_mixed.py": MIXED})
    option = "--snapshot-default-extension=syrupy.extensions.json.JSONSnapshotExtension"
    updated = now(shop, option, "--snapshot-update")
    assert updated.code == 0, updated
    assert now(shop, option, CI="1").code == 0
    assert len(shop.files("snapshots")) == KEPT


def test_a_project_without_stepfork_loads_nothing_of_it(tmp_path: Path) -> None:
    """The plug-in is installed for everybody, and costs those who do not use it next to nothing (B63)."""
    conftest = """
    import sys

    def pytest_unconfigure(config):
        names = {"msgspec", "wrapt", "deepdiff", "yaml", "jsonpath", "ahocorasick_rs"} & set(sys.modules)
        ours = sorted(name for name in sys.modules if name.startswith("stepfork"))
        print("LOADED", sorted(names), ours)
    """
    project = Project(
        tmp_path / "other", MINIMAL | {"conftest.py": conftest, "test_it.py": "def test_it(): ..."}
    )
    shown = project.pytest("-q", "-s", "--collect-only", "-p", "no:anyio", "-p", "no:hypothesispytest")
    modules = [
        "stepfork",
        "stepfork._pytest",
        "stepfork._pytest.session",
        "stepfork._version",
        "stepfork.pytest_plugin",
    ]
    assert f"LOADED [] {modules}" in shown.out, shown


def test_a_live_call_is_refused_in_ci(tmp_path: Path) -> None:
    """The flag is the consent to spend money, and nobody gives it in CI."""
    project = Project(tmp_path / "other", MINIMAL | {"test_it.py": "def test_it(): ..."})
    shown = project.pytest("--stepfork-extend", env={"CI": "true"})
    assert shown.code == 4
    assert "--stepfork-extend makes live calls: not where CI is set" in shown.err


def test_the_agents_of_these_tests_are_python() -> None:
    """A slip in the text above would look like a failure of the plug-in."""
    for source in (AGENT, MIXED, MARKED):
        compile(source, "text", "exec")
