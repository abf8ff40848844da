from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from project import Project, clean_environment
from sample_runs import killed, raised, returned, with_blobs, write_journal
from stepfork._archive import archive, archive_name
from stepfork._calls import Call, Outcome, Run
from stepfork._events import CallEnded, CallStarted, Event, RunEnded, RunMarked, decode_line, encode_line
from stepfork._paths import blobs_dir
from stepfork._recording import read_run


@pytest.fixture
def runs(project: Project) -> Path:
    """The folder of the runs of the scratch project."""
    return project.root / ".stepfork" / "runs"


def calls(run: Run) -> list[tuple[str, object, Outcome]]:
    """Return what a run holds, to be compared."""
    return [(call.address, call.input, call.outcome) for call in run.walk()]


def test_a_marked_run_is_a_failed_one(project: Project, runs: Path) -> None:
    """A wrong answer without an exception becomes the last failed run, and the newest reason counts."""
    journal = write_journal(runs, "1111111111", returned())
    before = journal.read_bytes()
    marked = project.stepfork("fail", "1111", "--reason", "denied an eligible refund")
    assert marked.code == 0, marked
    assert "failed: denied an eligible refund" in marked.out
    assert "stepfork make-test 1111" in marked.out
    assert journal.read_bytes().startswith(before)
    again = project.stepfork("fail", "1111", "--reason", "and rudely", "--json")
    assert again.json == {"id": "1111111111", "path": str(journal), "reason": "and rudely"}
    failure = read_run(journal).failure
    assert failure is not None
    assert (failure.kind, failure.address, failure.message) == ("marked", None, "and rudely")
    assert project.stepfork("show", "--json").json["id"] == "1111111111"


def test_a_killed_run_can_be_marked_and_loses_only_its_torn_line(project: Project, runs: Path) -> None:
    """Half a line is no event; a mark behind it would have been damage in the middle of the file."""
    journal = write_journal(runs, "1111111111", killed(), torn=b'{"event":"end","call":"handle#1/dec')
    before = read_run(journal)
    assert project.stepfork("fail", "1", "--reason", "hung").code == 0
    after = read_run(journal)
    assert calls(after) == calls(before)
    assert (after.root.outcome.status, after.failure and after.failure.message) == ("killed", "hung")
    assert "failed: hung, killed" in project.stepfork("runs").out


def test_a_run_that_failed_by_itself_needs_no_mark(project: Project, runs: Path) -> None:
    """Its exception stays the failure: the command says so and writes nothing."""
    journal = write_journal(runs, "1111111111", raised())
    before = journal.read_bytes()
    refused = project.stepfork("fail", "1", "--reason", "wrong", "--json")
    assert refused.code == 2
    assert refused.json["error"]["code"] == "SF405"
    assert refused.json["error"]["what"] == "1111111111 is a failed run already: raised KeyError"
    assert journal.read_bytes() == before


def test_a_mark_needs_a_run_and_a_reason(project: Project, runs: Path) -> None:
    """There is no default here, for marking the wrong run is worse than typing an id."""
    journal = write_journal(runs, "1111111111", returned())
    before = journal.read_bytes()
    assert project.stepfork("fail", "--reason", "x").code == 2
    assert project.stepfork("fail", "1111").code == 2
    assert project.stepfork("fail", "1111", "--reason", "  ").code == 2
    assert project.stepfork("fail", "9999", "--reason", "x").code == 3
    assert journal.read_bytes() == before


def test_a_reason_is_redacted_and_can_hold_anything(project: Project, runs: Path) -> None:
    """What a person pastes into it is treated like all that is recorded, bytes that are no text included."""
    journal = write_journal(runs, "1111111111", returned())
    secret = "sk-proj-" + "a1B2c3D4" * 6
    assert project.stepfork("fail", "1", "--reason", f"leaked {secret}\n\x1b[31m").code == 0
    assert secret.encode() not in journal.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "stepfork", "fail", "1", "--reason", b"caf\xe9"],
        cwd=project.root,
        env=clean_environment(project.root),
        check=False,
    )
    assert done.returncode == 0
    failure = read_run(journal).failure
    assert failure is not None
    assert failure.message == "caf�"


def test_marks_of_several_processes_are_all_kept(project: Project, runs: Path) -> None:
    """Two people may mark one run at once, torn line or not."""
    journal = write_journal(runs, "1111111111", killed(), torn=b'{"event":')
    command = [sys.executable, "-m", "stepfork", "fail", str(journal), "--reason"]
    environment = clean_environment(project.root)
    reasons = [f"reason {n}" for n in range(4)]
    marking = [subprocess.Popen([*command, each], cwd=project.root, env=environment) for each in reasons]
    assert [process.wait(60) for process in marking] == [0] * 4
    read_run(journal)
    marks = [decode_line(line) for line in journal.read_bytes().splitlines()[-4:]]
    assert sorted(mark.reason for mark in marks if isinstance(mark, RunMarked)) == reasons


def test_an_export_is_a_run_that_every_command_takes(project: Project, runs: Path) -> None:
    """One private file leaves the machine and is read without the folder that it came from."""
    journal = write_journal(runs, "1111111111", raised())
    exported = project.stepfork("export")
    assert exported.code == 0, exported
    target = project.root / "handle-1111111111.stepfork"
    assert exported.out.startswith(target.name)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_bytes() == journal.read_bytes()
    elsewhere = Project(project.root.parent / "elsewhere").write({target.name: target.read_bytes()})
    assert elsewhere.stepfork("show", target.name, "--json").json["id"] == "1111111111"
    assert elsewhere.stepfork("show", target.name, "decide").code == 0
    assert elsewhere.stepfork("export", target.name, "--output", "again").code == 0
    assert elsewhere.stepfork("fail", target.name, "--reason", "x").code == 2


def test_large_payloads_are_written_into_the_export(project: Project, runs: Path) -> None:
    """The export needs no folder beside it and holds the very same run."""
    whole = read_run(write_journal(runs, "1111111111", raised()))
    journal = runs / "1111111111.jsonl"
    with_blobs(journal)
    assert len(list(blobs_dir(journal).iterdir())) > 3
    assert project.stepfork("export", "--output", "out.stepfork", "--json").json["path"] == "out.stepfork"
    data = (project.root / "out.stepfork").read_bytes()
    assert b"$blob" not in data
    assert calls(read_run(project.root / "out.stepfork")) == calls(whole)


def test_values_that_look_like_references_are_left_alone(runs: Path) -> None:
    """A user's own dict may speak of ``$blob``; only a reference of ours is one."""
    value = {"text": 'say "$blob"', "deep": [{"$$blob": "x"}]}
    calls: list[Event] = [
        CallStarted("handle#1", "step", {"x": value}),
        CallEnded("handle#1", "returned", value),
    ]
    journal = write_journal(runs, "1111111111", [*calls, RunEnded(1)])
    assert archive(journal) == journal.read_bytes()


def test_a_run_with_a_lost_payload_is_not_exported(project: Project, runs: Path) -> None:
    """Half a run would be found out only where nothing can be done about it (B73)."""
    journal = write_journal(runs, "1111111111", raised())
    with_blobs(journal)
    next(blobs_dir(journal).iterdir()).unlink()
    before = project.files()
    refused = project.stepfork("export", "1111")
    assert refused.code == 3
    assert "1111111111.jsonl:" in refused.err
    assert project.files() == before


def test_a_killed_run_is_exported_without_its_torn_line(project: Project, runs: Path) -> None:
    """It is a killed run elsewhere too."""
    journal = write_journal(runs, "1111111111", killed(), torn=b'{"event":"e')
    assert project.stepfork("export", "1111", "--output", "out").code == 0
    assert (project.root / "out").read_bytes() == journal.read_bytes()[: -len(b'{"event":"e')]
    assert project.stepfork("show", "./out").out.splitlines()[0].endswith("killed")


def test_an_export_goes_to_standard_output_or_into_a_folder(project: Project, runs: Path) -> None:
    """``-`` is for pipes out of a container."""
    journal = write_journal(runs, "1111111111", raised())
    assert project.stepfork("export", "--output", "-").out.encode() == journal.read_bytes()
    (project.root / "out").mkdir()
    assert project.stepfork("export", "--output", "out").code == 0
    assert (project.root / "out" / "handle-1111111111.stepfork").exists()
    assert project.stepfork("export", "--output", "-", "--json").code == 2


def test_an_existing_file_is_overwritten_only_when_forced(project: Project, runs: Path) -> None:
    """The run itself is never overwritten, forced or not."""
    journal = write_journal(runs, "1111111111", raised())
    project.write({"out": "mine"})
    (project.root / "out").chmod(0o644)
    before = project.files()
    refused = project.stepfork("export", "--output", "out")
    assert refused.code == 2
    assert "--force" in refused.err
    assert project.stepfork("export", "--output", str(journal), "--force").code == 2
    assert project.stepfork("export", "--output", "missing/out").code == 2
    assert project.files() == before
    assert project.stepfork("export", "--output", "out", "--force").code == 0
    assert (project.root / "out").read_bytes() == journal.read_bytes()
    assert stat.S_IMODE((project.root / "out").stat().st_mode) == 0o600
    assert [name for name in project.files() if "out" in name] == ["out"]


@pytest.mark.parametrize(
    ("name", "run_id", "file"),
    [
        ("refund-agent", "3f2a", "refund-agent-3f2a.stepfork"),
        ("../../etc/passwd", "../x", "etc-passwd-x.stepfork"),
        ("a:b*c\n", "CON", "a-b-c-CON.stepfork"),
        ("退款", "...", "run-unnamed.stepfork"),
        ("x" * 400, "1" * 400, f"{'x' * 60}-{'1' * 60}.stepfork"),
    ],
)
def test_the_name_of_an_export_is_portable(name: str, run_id: str, file: str) -> None:
    """What a file says of itself becomes a bounded name without a folder in it (B47, B49)."""
    root = Call("step", "f", "f#1", {}, Outcome("returned"))
    assert archive_name(Run(run_id, name, root)) == file


def test_an_export_holds_lines_as_they_were_written(runs: Path) -> None:
    """Only lines with a reference are written anew, so that nothing else can change on the way."""
    journal = write_journal(runs, "1111111111", returned())
    spaced = journal.read_bytes().replace(b'{"event":', b'{ "event": ')
    journal.write_bytes(spaced + encode_line(RunEnded(1)))
    assert archive(journal).startswith(spaced)
