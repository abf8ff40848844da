from __future__ import annotations

import os
import re
import resource
import signal
import stat
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from project import Project
from stepfork._paths import (
    blobs_dir,
    ensure_private_dir,
    extension_paths,
    project_root,
    recording_path,
    runs_dir,
    safe_name,
    snapshot_path,
    write_whole,
)
from stepfork._settings import Settings
from stepfork.errors import UnsafeName

DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)
NASTY = [
    "a/b",
    "../../evil",
    "..",
    ".",
    "",
    "/abs",
    "C:x",
    "CON",
    "nul.txt",
    "a:b",
    'a*?"<>|b',
    "a\\b",
    "trailing.",
    "trailing ",
    "-flag",
    "line\nbreak",
    "nul\0byte",
    "gr\u00f6\u00dfe",
    "gro\u0308\u00dfe",
    "\ud83d",
    "x" * 400,
    "X" * 400,
    "test_a-0123456789",
]

# Names that are likely to meet: few letters, both cases, and what separates parts of a name.
close_names = st.text(alphabet="aAbB1_-./:[] \u00e9", max_size=6)
any_names = st.one_of(close_names, st.text(max_size=150), st.sampled_from(NASTY))


def is_portable(name: str) -> bool:
    """Whether every usual file system takes this name, and a shell does not trip over it."""
    return bool(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name)) and not DEVICES.match(name)


@pytest.fixture
def test_file(project: Project) -> Path:
    """A test file of a project, two folders down."""
    project.write({"tests/shop/test_refund.py": "def test_refund(): pass\n"})
    return project.root / "tests" / "shop" / "test_refund.py"


@pytest.mark.parametrize("marker", ["pyproject.toml", ".git/HEAD", ".git"])
def test_the_root_is_the_nearest_folder_with_a_marker(marker: str, tmp_path: Path) -> None:
    """A pyproject.toml makes a root, and so does .git, as a folder or as the file of a worktree."""
    Project(tmp_path, {"pyproject.toml": "", f"inner/{marker}": "", "inner/pkg/agent.py": ""})
    inner = tmp_path / "inner"
    assert project_root(inner / "pkg" / "agent.py") == project_root(inner) == inner
    assert project_root(tmp_path) == tmp_path


def test_without_a_marker_the_root_is_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that belongs to no project keeps its runs where it was started."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "elsewhere").mkdir()
        monkeypatch.chdir(Path(folder) / "elsewhere")
        assert project_root(Path(folder) / "agent.py") == Path.cwd()
        assert project_root(Path("<string>")) == Path.cwd()


def test_runs_are_kept_below_the_folder_that_the_settings_name(tmp_path: Path) -> None:
    """A relative folder counts from the root, an absolute one is taken as it is."""
    assert runs_dir(tmp_path, Settings()) == tmp_path / ".stepfork" / "runs"
    assert runs_dir(tmp_path, Settings(dir=Path("var"))) == tmp_path / "var" / "runs"
    assert runs_dir(tmp_path, Settings(dir=tmp_path / "x")) == tmp_path / "x" / "runs"


def test_a_snapshot_lies_where_the_readme_says(test_file: Path, project: Project) -> None:
    """The path of the test file without .py, then the test, then .yaml."""
    folder = project.root / "snapshots" / "tests" / "shop" / "test_refund"
    assert snapshot_path(test_file, "test_refund") == folder / "test_refund.yaml"
    assert snapshot_path(test_file, "test_refund", 1) == folder / "test_refund.2.yaml"
    assert re.fullmatch(
        r"TestShop-test_refund-eu-1-[0-9a-f]{10}\.yaml",
        snapshot_path(test_file, "TestShop::test_refund[eu-1]").name,
    )


def test_a_snapshot_does_not_depend_on_the_working_directory(
    test_file: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path from any folder means the same file as the absolute one."""
    absolute = snapshot_path(test_file, "test_refund")
    for folder in (project.root, test_file.parent):
        monkeypatch.chdir(folder)
        assert snapshot_path(Path(os.path.relpath(test_file)), "test_refund") == absolute


def test_the_snapshots_stay_where_they_are_when_the_folder_becomes_a_project() -> None:
    """Beside the folder of the tests, where a later ``git init`` puts the root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        tests = [folder / "tests" / "test_a.py", folder / "tests" / "unit" / "test_b.py"]
        before = [snapshot_path(test, "test_x") for test in tests]
        assert before[0] == folder / "snapshots" / "tests" / "test_a" / "test_x.yaml"
        (folder / ".git").mkdir()
        assert [snapshot_path(test, "test_x") for test in tests] == before


def test_a_test_file_without_a_project_has_its_snapshots_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no marker is above the test file, its own folder is the root."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.chdir("/")
        expected = Path(folder) / "snapshots" / "test_a" / "test_b.yaml"
        assert snapshot_path(Path(folder) / "test_a.py", "test_b") == expected


@pytest.mark.parametrize("nasty", NASTY)
def test_a_parameter_cannot_name_a_file_elsewhere(nasty: str, test_file: Path, project: Project) -> None:
    """Ids that are paths, devices or very long give short portable names in the folder (B47, B49)."""
    folder = project.root / "snapshots" / "tests" / "shop" / "test_refund"
    for name in (nasty, f"test_refund[{nasty}]"):
        path = snapshot_path(test_file, name, 1)
        assert path.parent == folder
        assert is_portable(path.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("written", encoding="utf-8")
        assert [entry.name for entry in folder.iterdir()].count(path.name) == 1


Comparison = tuple[str, int]


@given(st.tuples(any_names, st.integers(0, 12)), st.tuples(any_names, st.integers(0, 12)))
@example(("test_A", 0), ("test_a", 0))
@example(("a::b", 0), ("a-b", 0))
@example(("test_a.2", 0), ("test_a", 1))
def test_two_comparisons_never_share_a_file(one: Comparison, other: Comparison) -> None:
    """Other names or other counts give other files, also where case is ignored (B49)."""
    file = Path(__file__)
    first, second = snapshot_path(file, *one), snapshot_path(file, *other)
    assert (str(first).lower() == str(second).lower()) == (one == other)


@given(any_names, st.integers(0, 10**6))
def test_a_snapshot_never_leaves_its_folder(name: str, index: int) -> None:
    """Whatever a test is called, its snapshot is a portable name in the folder of its file (B47)."""
    path = snapshot_path(Path(__file__), name, index)
    assert path.parent == snapshot_path(Path(__file__), "test_plain").parent
    assert is_portable(path.name)


def test_the_snapshots_of_a_suite_are_all_different(test_file: Path) -> None:
    """Long ids that differ only at their end, and ids that differ only in punctuation, stay apart."""
    names = [f"test_a[{'long' * 100}{number}]" for number in range(1000)]
    names += [f"test_a[{mark}]" for mark in "!#$%&()+,;=@^`{}~ '"]
    assert len({snapshot_path(test_file, name).name.lower() for name in names}) == len(names)


def test_a_link_that_leads_out_of_the_project_is_refused(
    test_file: Path, project: Project, tmp_path: Path
) -> None:
    """A snapshot folder that is a link to elsewhere is not written through (B47)."""
    (tmp_path / "elsewhere").mkdir()
    (project.root / "snapshots").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeName, match="is a link out of"):
        snapshot_path(test_file, "test_refund")


def test_a_project_that_is_reached_through_a_link_keeps_its_path(project: Project, tmp_path: Path) -> None:
    """A link to the whole project leads nowhere else: its files are named through the link."""
    (tmp_path / "link").symlink_to(project.root)
    expected = tmp_path / "link" / "snapshots" / "tests" / "test_a" / "test_b.yaml"
    assert snapshot_path(tmp_path / "link" / "tests" / "test_a.py", "test_b") == expected


def test_a_recording_is_found_by_name_beside_the_test(test_file: Path) -> None:
    """A name means the folder recordings; what ends in .jsonl is a path from the test's folder."""
    folder = test_file.parent
    assert recording_path(test_file, "refund_denied") == folder / "recordings" / "refund_denied.jsonl"
    assert recording_path(test_file, "RefundDenied-2") == folder / "recordings" / "RefundDenied-2.jsonl"
    assert recording_path(test_file, "../other/x.jsonl") == folder / "../other/x.jsonl"
    assert recording_path(test_file, Path("/srv/x.jsonl")) == Path("/srv/x.jsonl")


@pytest.mark.parametrize(
    "name", [*(name for name in NASTY if name != "test_a-0123456789"), "a.ext-1", "con", "x" * 65]
)
def test_a_recording_has_no_name_that_leaves_its_folder(name: str, test_file: Path) -> None:
    """Such a name is refused, with one that would do (B47)."""
    with pytest.raises(UnsafeName) as caught:
        recording_path(test_file, name)
    offered = caught.value.ways_on[0].rpartition("like ")[2].strip("'")
    assert recording_path(test_file, offered).parent == test_file.parent / "recordings"


def test_the_files_of_a_recording_are_found_by_its_name(project: Project) -> None:
    """Extensions come sorted; those of a recording whose name only begins alike are not among them."""
    names = [
        "a.jsonl",
        "a.ext-2.jsonl",
        "a.ext-1.jsonl",
        "a[1].ext-1.jsonl",
        "ab.ext-1.jsonl",
        "a.ext-1.jsonl.tmp",
    ]
    project.write({f"recordings/{name}": "" for name in names})
    recording = project.root / "recordings" / "a.jsonl"
    assert [path.name for path in extension_paths(recording)] == ["a.ext-1.jsonl", "a.ext-2.jsonl"]
    assert blobs_dir(recording) == recording.with_name("a.blobs")
    assert extension_paths(project.root / "missing" / "a.jsonl") == []


@given(any_names)
def test_a_safe_name_stays_as_it_is(text: str) -> None:
    """What was made safe once is not taken for somebody else's plain name."""
    name = safe_name(text)
    assert is_portable(name)
    assert "." not in name
    assert name == text or safe_name(name) != name


def test_the_folder_of_runs_is_for_its_owner_and_git_does_not_see_it(project: Project) -> None:
    """A new folder has mode 0700 and a .gitignore that hides all of it, itself too."""
    subprocess.run(["git", "init", "-q", str(project.root)], check=True)
    runs = runs_dir(project.root, Settings(dir=Path("var/stepfork")))
    ensure_private_dir(runs)
    ensure_private_dir(runs)
    (runs / "1.jsonl").write_text("{}", encoding="utf-8")
    modes = {stat.S_IMODE(folder.stat().st_mode) for folder in (runs, runs.parent)}
    shown = project.run("git", "status", "--porcelain", "--untracked-files=all").out
    assert modes == {0o700}
    assert shown == "?? pyproject.toml\n"
    assert project.read("var/stepfork/.gitignore") == "*\n"


def test_a_folder_that_is_in_use_is_left_as_it_is(project: Project) -> None:
    """Runs kept in the project's own folder do not hide the project from git, nor lock others out."""
    project.root.chmod(0o755)
    ensure_private_dir(project.root / "runs")
    assert stat.S_IMODE(project.root.stat().st_mode) == 0o755
    assert set(project.files()) == {"pyproject.toml"}


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    """Where the disk is full in the middle, the old file is whole and nothing else lies beside it."""
    path = tmp_path / "snapshot.yaml"
    write_whole(path, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write_whole(path, b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [file.name for file in tmp_path.iterdir()] == ["snapshot.yaml"]
    assert path.read_bytes() == b"old"


def test_who_may_read_a_new_file_is_said_when_it_is_written(tmp_path: Path) -> None:
    """What came from a run is for its owner alone; what is committed has the mode of any file."""
    plain, written, private = tmp_path / "plain", tmp_path / "written", tmp_path / "private"
    plain.touch()
    write_whole(written, b"")
    write_whole(private, b"", mode=0o600)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (written, private)]
    assert modes == [stat.S_IMODE(plain.stat().st_mode), 0o600]


def test_many_threads_make_one_folder(tmp_path: Path) -> None:
    """Runs that start side by side all find the folder made."""
    folder = tmp_path / "deep" / "runs"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ensure_private_dir, [folder] * 64))
    assert (folder.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"
