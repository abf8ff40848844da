"""The journal survives what happens to a process, and a damaged file is never mistaken for an empty one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stepfork
from project import Project, clean_environment
from recorded import Recorded, record
from secret_samples import SHAPES
from stepfork._calls import Failure
from stepfork._journal import is_going_on
from stepfork._recording import read_run
from stepfork.errors import RecordingDamaged, RecordingMissing, RecordingTooNew

KILLED = """
    import os, signal, stepfork

    @stepfork.tool
    def lookup(number: int) -> int:
        return number

    @stepfork.tool
    def hang() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @stepfork.step
    def handle() -> None:
        for number in range(50):
            lookup(number)
        hang()

    handle()
"""


def journals(project: Project) -> list[Path]:
    """The journals that the project's runs left."""
    return sorted((project.root / ".stepfork" / "runs").glob("*.jsonl"))


def test_a_killed_run_keeps_every_finished_call(project: Project) -> None:
    """After SIGKILL the file holds all that had ended, and the call that was under way (F01)."""
    project.write({"agent.py": KILLED})

    assert project.run("python", "agent.py").code == -signal.SIGKILL

    (path,) = journals(project)
    run = read_run(path)
    calls = run.root.children
    assert [call.outcome.value for call in calls[:-1]] == list(range(50))
    assert (calls[-1].name, calls[-1].outcome.status) == ("hang", "killed")
    assert run.failure is None
    assert not run.ended


def test_a_run_that_goes_on_is_not_taken_for_a_killed_one(project: Project) -> None:
    """While the process lives its open calls are unfinished, not killed."""
    project.write(
        {
            "agent.py": """
                import stepfork

                @stepfork.step
                def handle() -> None:
                    print("started", flush=True)
                    input()

                handle()
            """
        }
    )
    process = subprocess.Popen(
        [sys.executable, "agent.py"],
        cwd=project.root,
        env=clean_environment(project.root),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        (path,) = journals(project)
        assert read_run(path).root.outcome.status == "unfinished"
        process.kill()
    assert read_run(path).root.outcome.status == "killed"


def test_where_files_cannot_be_locked_a_run_that_goes_on_looks_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems have no locks: what a killed process left can be used there all the same."""

    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = tmp_path / "run.jsonl"
    with stepfork.run("refund", path=path):
        assert not is_going_on(path)
        assert read_run(path).root.outcome.status == "killed"
    assert read_run(path).root.outcome.status == "returned"


def test_a_torn_last_line_is_ignored_wherever_it_is_torn(tmp_path: Path) -> None:
    """Cutting the file at any byte leaves a readable prefix, or an error that names the file (B73)."""
    recorded = record(tmp_path / "run.jsonl", lambda: stepfork.tool(len)([1]))
    data = recorded.path.read_bytes()
    whole_lines = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
    torn = tmp_path / "torn.jsonl"

    for cut in range(len(data)):
        torn.write_bytes(data[:cut])
        if cut < whole_lines[1]:
            with pytest.raises(RecordingDamaged, match=r"torn\.jsonl:1"):
                read_run(torn)
        else:
            assert read_run(torn).root.name == "test"


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda lines: [lines[0], b"{}", *lines[1:]], 2),
        (lambda lines: [lines[0], lines[1][:10], *lines[2:]], 2),
        (lambda lines: [lines[0], lines[1], lines[1], *lines[2:]], 3),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: lines[1:], 1),
        (lambda lines: [b"\xff\xfe", *lines], 1),
        (
            lambda lines: [*lines[:2], b'{"event":"end","call":"nowhere#1","status":"returned"}', *lines[2:]],
            3,
        ),
        (lambda lines: [lines[0]], 1),
        (lambda lines: [b'{"v":0}', *lines[1:]], 1),
        (lambda lines: [*lines[:2], b"[" * 5000, *lines[2:]], 3),
        (lambda lines: [lines[0], b'{"event":"start","call":"#","kind":"tool","input":{}}'], 2),
    ],
)
def test_damage_is_an_error_with_file_and_line(tmp_path: Path, damage: object, line: int) -> None:
    """No damaged file is read as if it were another, or empty (B73)."""
    recorded = record(tmp_path / "run.jsonl", lambda: stepfork.tool(len)([1]))
    lines = recorded.path.read_bytes().splitlines()
    recorded.path.write_bytes(b"".join(each + b"\n" for each in damage(lines)))  # type: ignore[operator]

    with pytest.raises(RecordingDamaged, match=rf"run\.jsonl:{line}\b") as caught:
        read_run(recorded.path)

    assert (caught.value.path, caught.value.line) == (str(recorded.path), line)


def test_an_empty_or_missing_file_says_so(tmp_path: Path) -> None:
    """Neither is a run without calls (B46, B80)."""
    (tmp_path / "empty.jsonl").touch()

    with pytest.raises(RecordingDamaged, match="it is empty"):
        read_run(tmp_path / "empty.jsonl")
    with pytest.raises(RecordingMissing, match="no recording at"):
        read_run(tmp_path / "missing.jsonl")


def test_a_file_of_a_newer_format_names_who_made_it(tmp_path: Path) -> None:
    """It is not damaged, it asks for an upgrade (B76)."""
    recorded = record(tmp_path / "run.jsonl", lambda: None)
    text = recorded.path.read_text().replace('"v":1', '"v":2').replace('"made_by":"', '"made_by":"9.')
    recorded.path.write_text(text)

    with pytest.raises(RecordingTooNew, match=r"made by stepfork 9\.\d.*in format 2"):
        read_run(recorded.path)


def test_large_payloads_go_to_blobs_once(tmp_path: Path) -> None:
    """A payload over 64 KiB stands in a file of its own, however often it is passed."""
    text = "x" * 100_000

    @stepfork.tool
    def take(text: str) -> str:
        return text

    def agent() -> None:
        take(text)
        take(text)

    recorded = record(tmp_path / "run.jsonl", agent)

    assert recorded.inputs("take") == [{"text": text}] * 2
    assert recorded.outputs("take") == [text] * 2
    (blob,) = (tmp_path / "run.blobs").iterdir()
    assert recorded.path.stat().st_size < 3000
    assert stat.S_IMODE(blob.stat().st_mode) == 0o600


def test_an_export_has_its_large_payloads_in_it(tmp_path: Path) -> None:
    """What a function that takes failed runs out of here sends is one file, and all of the run."""
    recorded = record(tmp_path / "run.jsonl", lambda: stepfork.tool(len)("x" * 100_000))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "failed.stepfork").write_bytes(stepfork.export(recorded.path))

    (call,) = read_run(elsewhere / "failed.stepfork").root.children
    assert call.input == recorded.run.root.children[0].input


def test_a_blob_that_was_changed_is_damage(tmp_path: Path) -> None:
    """The digest in the file's name is checked."""
    recorded = record(tmp_path / "run.jsonl", lambda: stepfork.tool(len)("x" * 100_000))
    (blob,) = (tmp_path / "run.blobs").iterdir()
    blob.write_bytes(b'"other"')

    with pytest.raises(RecordingDamaged, match="was changed since"):
        read_run(recorded.path)
    blob.unlink()
    with pytest.raises(RecordingDamaged, match="a value in it cannot be read"):
        read_run(recorded.path)


def test_runs_are_for_their_owner_alone(project: Project) -> None:
    """Folders have mode 0700, files 0600, and git does not see them."""
    project.write({"agent.py": "import stepfork\nstepfork.step(print)('hello')\n"})
    project.run("git", "init", "-q")

    assert project.run("python", "agent.py").code == 0

    (path,) = journals(project)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (
        stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    )
    assert ".stepfork" not in project.run("git", "status", "--porcelain").out


def test_a_full_disk_costs_one_warning_and_nothing_else(tmp_path: Path) -> None:
    """A write that fails ends the recording, not the agent (B12)."""
    recorded = Recorded(tmp_path / "run.jsonl")
    length = stepfork.tool(len)

    def agent() -> None:
        with recorded as opened:
            os.close(opened._frame.session.journal._descriptor)  # type: ignore[union-attr]
            assert [length("a"), length("bc")] == [1, 2]

    with pytest.warns(RuntimeWarning, match="could not record this run any further") as warned:
        agent()

    assert len(warned) == 1


@pytest.mark.parametrize("where", ["input", "output", "chunk", "exception", "reason"])
def test_a_large_text_anywhere_leaves_the_run_readable(tmp_path: Path, where: str) -> None:
    """What is too long for a line goes to a blob where a blob may stand, and is kept where it may not."""
    text = "x" * 100_000

    @stepfork.tool
    def take(value: str) -> str:
        if where == "exception":
            raise ValueError(text)
        return text if where == "output" else value

    recorded = Recorded(tmp_path / "run.jsonl")
    with (
        pytest.raises(ValueError, match="xxx") if where == "exception" else contextlib.nullcontext(),
        recorded,
    ):
        if where == "reason":
            stepfork.fail(text)
        elif where == "chunk":
            list(stepfork.tool(lambda: (part for part in [text]), name="stream")())
        take(text if where == "input" else "short")

    run = recorded.run
    assert run.root.name == "test"
    if where in ("exception", "reason"):
        assert run.failure is not None
        assert run.failure.message == text


def test_readers_do_not_take_one_another_for_the_agent(tmp_path: Path) -> None:
    """Many who ask at once whether a finished run goes on are all told no."""
    recorded = record(tmp_path / "run.jsonl", lambda: None)

    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(is_going_on, [recorded.path] * 4000))


def test_a_forked_child_leaves_the_journal_to_its_parent(project: Project) -> None:
    """Its calls are those of a run of its own; its end is no end of the run, nor does it keep that going."""
    project.write(
        {
            "agent.py": """
                import os, signal, time, stepfork

                @stepfork.tool
                def lookup(number: int) -> int:
                    return number

                @stepfork.step
                def handle() -> None:
                    lookup(1)
                    if os.fork() == 0:
                        lookup(2)
                        time.sleep(30)
                        os._exit(0)
                    lookup(3)
                    os.kill(os.getpid(), signal.SIGKILL)

                handle()
            """
        }
    )
    process = subprocess.Popen(
        [sys.executable, "agent.py"],
        cwd=project.root,
        env=clean_environment(project.root),
        start_new_session=True,
    )
    process.wait(30)
    try:
        run, *children = sorted(map(read_run, journals(project)), key=lambda run: run.parent or "")
        assert [call.input for call in run.root.children] == [{"number": 1}, {"number": 3}]
        assert run.root.outcome.status == "killed"
        assert [child.parent for child in children] in ([], [run.id])  # it may not have come that far yet
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def test_a_process_killed_after_the_roots_end_leaves_the_failure(tmp_path: Path) -> None:
    """The last line may be missing; how the root ended is known."""
    recorded = Recorded(tmp_path / "run.jsonl")
    with pytest.raises(KeyError), recorded:
        raise KeyError("amount")
    lines = recorded.path.read_bytes().splitlines(keepends=True)
    recorded.path.write_bytes(b"".join(lines[:-1]))

    assert recorded.run.failure == Failure("raised", "test#1", "builtins:KeyError", "'amount'")


def test_calls_nested_a_thousand_deep_can_be_read(tmp_path: Path) -> None:
    """The tree is walked without recursion."""

    @stepfork.step
    def down(depth: int) -> int:
        return down(depth - 1) + 1 if depth else 0

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        recorded = record(tmp_path / "run.jsonl", lambda: down(1500))
    finally:
        sys.setrecursionlimit(limit)

    assert sum(1 for _ in recorded.run.walk()) == 1502


def test_a_secret_in_the_name_of_a_run_is_in_no_address(tmp_path: Path) -> None:
    """(B43) A name that the agent put together stands in the header, in every address and in the failure."""
    secret = SHAPES["openai project"]

    @stepfork.tool
    def look(value: str) -> str:
        raise KeyError(value)

    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyError), stepfork.run(f"ticket/{secret}", path=path), stepfork.run(f"part {secret}"):
        look("short")

    assert secret not in path.read_text(encoding="utf-8")
    run = read_run(path)
    (part,) = run.root.children
    (call,) = part.children
    assert run.failure is not None
    assert run.failure.address == call.outcome.origin == call.address
    assert call.address.count("[redacted-1]") == 2
