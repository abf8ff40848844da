"""Documents as files: written for a reviewer, read as data, never half written."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from documents import PLAINS, document_of, model, returned, roots, step, tool
from project import Project
from properties import thoroughly
from stepfork._calls import Call
from stepfork._codec import canonical
from stepfork._verdict import snapshot as _snapshot
from stepfork._verdict.orphan import find_orphan
from stepfork.errors import SnapshotDamaged

HANDLE = """
import stepfork

@stepfork.tool
def look(key):
    return {"key": key}

@stepfork.step
def handle():
    return look("A-17")
"""

MAKE = """
import stepfork, agent
with stepfork.run("handle", path="tests/recordings/run.jsonl"):
    agent.handle()
"""

HERE = Path("snapshots/test_it.yaml")


def text_of(root: Call) -> str:
    """Return the file's text for a run."""
    return _snapshot.to_text(document_of(root))


@thoroughly(50)
@given(root=roots())
def test_a_document_comes_back_as_it_was(root: Call) -> None:
    """Every value survives the file, and equal documents give equal texts."""
    made = document_of(root)
    text = _snapshot.to_text(made)
    back = _snapshot.from_text(text, HERE)
    assert canonical(back) == canonical(made)
    assert _snapshot.to_text(back) == text


@given(value=PLAINS)
@example("\x85\u2028\ufeff\x00\x1b")
@example("line\r\nline\rline")
@example(" leading\n  and trailing \n\n")
@example("\n")
@example("\t- a\n\t: b")
@example("yes")
@example("1e3")
@example("2026-11-30")
@example("=======\n<<<<<<< HEAD")
@example({"<<": 1, "=": 2, "": 3, "~": None})
@example({"🚲": "\x85 \u2029\n \ufeff", "'": "🚲\r\n"})
@example(1e300)
@example(-0.0)
@example(2**63)
def test_every_value_survives_yaml(value: Any) -> None:
    """Texts that YAML would take for something else, and all line ends, are kept exactly (B46)."""
    made = document_of(step("handle#1", outcome=returned(value)))
    assert canonical(_snapshot.from_text(_snapshot.to_text(made), HERE)) == canonical(made)


def test_long_text_stands_as_lines() -> None:
    """A changed line of a prompt is a changed line of the file."""
    text = text_of(step("handle#1", model("ask#1", prompt="first line\nsecond line\n")))
    assert "prompt: |\n        first line\n        second line\n" in text


def test_text_is_readable_and_has_no_anchors() -> None:
    """Emoji stand as themselves, and a value that stands twice is written twice (B46)."""
    shared = {"name": "Zoë 🚲", "tags": ["a"]}
    text = text_of(step("handle#1", first=shared, second=shared))
    assert text.count("Zoë 🚲") == 2
    assert "&id" not in text
    assert "*id" not in text


def test_text_with_an_emoji_stands_as_lines_too() -> None:
    """One character must not turn a prompt into a single quoted line (B46)."""
    text = text_of(step("handle#1", model("ask#1", prompt="first 🚲\nsecond\n")))
    assert "prompt: |\n        first 🚲\n        second\n" in text


def test_one_changed_step_touches_only_its_own_lines() -> None:
    """A review shows the change and nothing else (B52)."""

    def text(total: int) -> list[str]:
        calls = [step(f"part#{number}", number=number, outcome=returned(number)) for number in range(1, 6)]
        calls[2].outcome.value = total
        return text_of(step("handle#1", *calls)).splitlines()

    differing = [pair for pair in zip(text(3), text(7), strict=True) if pair[0] != pair[1]]
    assert differing == [("    output: 3", "    output: 7")]


def test_a_file_says_what_it_is_and_what_to_do() -> None:
    """Who finds it in a review learns how it is made; no time, version or path stands in it (B52)."""
    assert text_of(step("handle#1")) == (
        f"{_snapshot.HEADER}"
        "recording: r\nstate: accepted\noutcome:\n  returned: true\ncalls:\n"
        "- step: handle#1\n  input: {}\n  output: null\n"
    )


@pytest.mark.parametrize(
    ("marker", "number"),
    [
        ("<<<<<<< HEAD\n", 3),
        ("||||||| merged common ancestors\n", 3),
        (">>>>>>> topic\n", 3),
        ("=======\n", 3),
    ],
)
def test_conflict_markers_are_refused_with_file_and_line(tmp_path: Path, marker: str, number: int) -> None:
    """A merge that was not finished is no snapshot (B53)."""
    lines = text_of(step("handle#1")).splitlines(keepends=True)
    path = tmp_path / "test_it.yaml"
    path.write_text("".join([*lines[: number - 1], marker, *lines[number - 1 :]]), encoding="utf-8")
    with pytest.raises(SnapshotDamaged, match=rf"conflict markers in .*test_it\.yaml:{number}") as caught:
        _snapshot.read(path)
    assert caught.value.line == number


@pytest.mark.parametrize("knot", ["&a {b: *a}", "[&a [1], *a]"])
def test_an_alias_is_refused_with_its_line(knot: str) -> None:
    """It could tie a value into itself, or make a few lines stand for more than memory holds (B77)."""
    text = text_of(step("handle#1", value="here"))
    line = text.splitlines().index("    value: here") + 1
    with pytest.raises(SnapshotDamaged) as caught:
        _snapshot.from_text(text.replace("value: here", f"value: {knot}"), HERE)
    assert caught.value.line == line


@pytest.mark.parametrize("content", ["=======", "a\n=======\nb", "<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> z\n"])
def test_content_that_looks_like_a_conflict_is_content(content: str) -> None:
    """Only the structure of the file decides, never what an agent wrote (B53)."""
    made = document_of(step("handle#1", outcome=returned(content)))
    assert _snapshot.from_text(_snapshot.to_text(made), HERE)["calls"][0]["output"] == content


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a snapshot"),
        ("- a\n- b\n", "not a snapshot"),
        ("recording: r\nstate: accepted\noutcome: {}\n", "not a snapshot"),
        ("recording: r\nstate: accepted\noutcome: {}\ncalls:\n- {}\n", "not a snapshot"),
        ("recording: r\nstate: acepted\noutcome: {}\ncalls: []\n", "not a snapshot"),
        ("recording: r\nstate: accepted\noutcome: {}\ncalls: [{step: a#1}]\n", "not a snapshot"),
        ("recording: [r\n", "not YAML: snapshots/test_it.yaml:2"),
        ("recording: !!python/object/apply:os.system [echo]\n", "not YAML: snapshots/test_it.yaml:1"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_its_place(text: str, why: str) -> None:
    """A damaged file is never read as an empty one, and nothing in it runs (B73, B77)."""
    with pytest.raises(SnapshotDamaged, match=why) as caught:
        _snapshot.from_text(text, HERE)
    assert caught.value.ways_on[-1] == "or delete it and run pytest --snapshot-update"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """The error names the file."""
    path = tmp_path / "test_it.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SnapshotDamaged, match=r"not a text: .*test_it\.yaml"):
        _snapshot.read(path)


def test_an_equal_file_is_not_written_again(tmp_path: Path) -> None:
    """An update of what has not changed leaves bytes and time alone (B52, B61)."""
    path = tmp_path / "snapshots" / "test_it.yaml"
    _snapshot.write(path, "a\n")
    os.utime(path, (1, 1))
    _snapshot.write(path, "a\n")
    assert path.stat().st_mtime == 1
    _snapshot.write(path, "b\n")
    assert path.read_text("utf-8") == "b\n"
    assert [each.name for each in path.parent.iterdir()] == ["test_it.yaml"]


def save(path: Path, recording: str, test: str) -> Path:
    """Write a snapshot of a test."""
    made = {**document_of(step("handle#1", tool("look#1"))), "recording": recording, "test": test}
    _snapshot.write(path, _snapshot.to_text({"recording": recording, "test": test, **made}))
    return path


@pytest.fixture
def tests_of_a_shop(tmp_path: Path) -> Path:
    """A project whose test file has one function and one class that inherits its tests."""
    source = "from base import Base, test_imported\n\ndef test_new(): ...\n\nclass TestShop(Base): ...\n"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_shop.py").write_text(source, encoding="utf-8")
    return tmp_path / "snapshots" / "tests" / "test_shop"


def test_the_snapshot_of_a_renamed_test_is_found(tests_of_a_shop: Path) -> None:
    """The test that is gone and the new one replay the same recording (B50)."""
    old = save(tests_of_a_shop / "test_old.yaml", "denied", "test_old")
    save(tests_of_a_shop / "test_other.yaml", "crash", "test_other")
    assert find_orphan(tests_of_a_shop / "test_new.yaml", "denied", "test_new") == old
    assert find_orphan(tests_of_a_shop / "test_new.yaml", "absent", "test_new") is None


@pytest.mark.parametrize("test", ["test_new", "test_imported", "TestShop::test_inherited", "test_new[eu]"])
def test_the_snapshot_of_a_test_that_may_still_exist_is_left_alone(tests_of_a_shop: Path, test: str) -> None:
    """A function that is imported, inherited or parametrised is not gone."""
    save(tests_of_a_shop / "test_old.yaml", "denied", test)
    assert find_orphan(tests_of_a_shop / "test_second.yaml", "denied", "test_second") is None


def test_the_snapshot_of_a_test_file_that_moved_is_found(tests_of_a_shop: Path) -> None:
    """The source of the old snapshot is gone altogether."""
    old = save(tests_of_a_shop.parent / "test_gone" / "test_new.yaml", "denied", "test_new")
    assert find_orphan(tests_of_a_shop / "test_new.yaml", "denied", "test_new") == old


def test_parameters_and_comparisons_keep_to_themselves(tests_of_a_shop: Path) -> None:
    """Of several orphans the one with the same parameters is taken over, and of each comparison its own."""
    eu = save(tests_of_a_shop / "test_old-eu.yaml", "denied", "test_old[eu]")
    save(tests_of_a_shop / "test_old-us.yaml", "denied", "test_old[us]")
    second = save(tests_of_a_shop / "test_old-eu.2.yaml", "denied", "test_old[eu]")
    assert find_orphan(tests_of_a_shop / "new-eu.yaml", "denied", "test_new[eu]") == eu
    assert find_orphan(tests_of_a_shop / "new-eu.2.yaml", "denied", "test_new[eu]") == second
    assert find_orphan(tests_of_a_shop / "new-asia.yaml", "denied", "test_new[asia]") is None


def test_a_damaged_file_is_nobodys_orphan(tests_of_a_shop: Path) -> None:
    """Looking for a snapshot of another name does not fail because of a broken one beside it."""
    tests_of_a_shop.mkdir(parents=True)
    (tests_of_a_shop / "test_old.yaml").write_bytes(b"recording: [\xff\n")
    assert find_orphan(tests_of_a_shop / "test_new.yaml", "denied", "test_new") is None


@given(data=st.binary(max_size=200))
def test_no_bytes_crash_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Whatever stands in a file, reading it gives a document or says that it is damaged."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(data)
    with pytest.raises(SnapshotDamaged):
        _snapshot.read(path)


def test_files_are_plain_yaml(tmp_path: Path) -> None:
    """Any safe YAML reader gives the same as ours."""
    made = document_of(step("handle#1", outcome=returned({"a": [1, 2.5, None, True]})))
    assert yaml.safe_load(_snapshot.to_text(made)) == made


MANY = """
import pytest
import agent

@pytest.mark.parametrize("number", range(20))
def test_many(replay, snapshot, number):
    assert replay("run", agent.handle) == snapshot
"""

COUNTS_READS = """
import collections, sys

reads = collections.Counter()

def heard(event, args):
    if event == "open" and str(args[0]).endswith((".yaml", ".jsonl")) and args[1] in ("r", "rb", None):
        reads[str(args[0])] += 1

sys.addaudithook(heard)

def pytest_terminal_summary(terminalreporter):
    for name, number in reads.items():
        terminalreporter.write_line(f"read {name} {number}")
"""


@pytest.mark.slow
def test_a_test_reads_its_own_snapshot_and_no_other(project: Project) -> None:
    """Twenty tests of one file have twenty snapshots: each is read for its test alone (B40)."""
    project.write({"agent.py": HANDLE, "tests/test_it.py": MANY, "conftest.py": COUNTS_READS})
    assert project.run("python", "-c", MAKE).code == 0
    assert project.pytest("--snapshot-update").code == 0
    files = project.files("snapshots")
    assert len(files) == 20

    damaged = sorted(files)[7]
    project.write({damaged: "<<<<<<< HEAD\n" + (project.root / damaged).read_text(encoding="utf-8")})
    shown = project.pytest()

    assert "1 failed, 19 passed" in shown.out, shown.out
    read = dict(re.findall(r"^read \S+/project/(\S+) (\d+)$", shown.out, re.MULTILINE))
    assert {name: number for name, number in read.items() if name.startswith("snapshots")} == dict.fromkeys(
        files, "1"
    )
