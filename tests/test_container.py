from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stepfork
from project import MINIMAL, Project
from stepfork import _memory_journal, _warn
from stepfork._codec import decode
from stepfork._recording import read_run

AGENT = """
    import sys, warnings
    from pathlib import Path

    import stepfork

    warnings.simplefilter("always")

    def hand_over(run):
        kind = "bytes" if isinstance(run, bytes) else "path"
        number = len(list(Path("out").iterdir()))
        Path("out", f"{kind}-{number}.stepfork").write_bytes(run if kind == "bytes" else run.read_bytes())

    @stepfork.tool
    def lookup(order_id, size=10):
        return {"id": order_id, "text": order_id * size}

    @stepfork.step
    def handle(order_id, calls=3, size=10):
        found = [lookup(order_id, size) for _ in range(calls)]
        return found[0]["amount"] if order_id == "bad" else len(found)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An agent in a container, and a place to which it can send what failed."""
    project = Project(tmp_path / "project", {**MINIMAL, "agent.py": AGENT})
    (project.root / "out").mkdir()
    return project


def handed_over(project: Project) -> list[Path]:
    """Return what ``on_failed`` was given, in order."""
    return sorted((project.root / "out").iterdir(), key=lambda path: int(path.stem.partition("-")[2]))


def run_agent(project: Project, code: str, **env: str) -> str:
    """Run the agent and return what it said on standard error."""
    project.write(
        {
            "main.py": "from agent import *\n\ndef tried(*args):\n    try:\n        print(handle(*args))\n"
            "    except KeyError as error:\n        print(repr(error))\n\n" + code
        }
    )
    done = project.run("python", "main.py", env=env)
    assert done.code == 0, done
    assert done.out.splitlines() == [
        "KeyError('amount')" if '"bad"' in line else str(3) for line in code.splitlines() if "tried(" in line
    ], done
    return done.err


HAND_OVER = "stepfork.configure(on_failed=hand_over)\n"


def test_a_volume_is_named_by_the_environment(project: Project, tmp_path: Path) -> None:
    """Runs are kept there, private and without a word."""
    said = run_agent(project, 'tried("bad")\ntried("good")\n', STEPFORK_DIR=str(tmp_path / "volume" / "a"))
    assert said == ""
    assert len(list((tmp_path / "volume" / "a" / "runs").glob("*.jsonl"))) == 2
    assert not (project.root / ".stepfork").exists()


def test_where_nothing_can_be_written_a_failed_run_is_handed_over_as_bytes(project: Project) -> None:
    """One warning for all of them; runs that passed are nobody's; the bytes are an export."""
    (project.root / ".stepfork").write_text("in the way")
    said = run_agent(project, HAND_OVER + 'tried("bad")\ntried("good")\ntried("bad")\n')
    assert said.count("RuntimeWarning: stepfork cannot write in ") == said.count("Warning: ") == 1
    first, second = handed_over(project)
    assert (first.name, second.name) == ("bytes-0.stepfork", "bytes-1.stepfork")
    run = read_run(first)
    assert run.failure is not None
    assert (run.failure.type, run.ended, run.incomplete) == ("builtins:KeyError", True, False)
    assert [call.label for call in run.walk()] == ["handle#1", "lookup#1", "lookup#2", "lookup#3"]
    shown = project.stepfork("show", "out/bytes-1.stepfork", env={"STEPFORK_DIR": "elsewhere"})
    assert "raised KeyError" in shown.out, shown


@pytest.mark.slow
def test_the_bytes_become_a_test_on_another_machine(project: Project, tmp_path: Path) -> None:
    """What left the container is all that ``make-test`` needs, large payloads included."""
    (project.root / ".stepfork").write_text("in the way")
    run_agent(project, HAND_OVER + 'tried("bad", 3, 50000)\n')
    (failed,) = handed_over(project)
    here = Project(tmp_path / "here", {**MINIMAL, "agent.py": AGENT})
    here.write({"failed.stepfork": failed.read_bytes()})
    made = here.stepfork("make-test", "failed.stepfork", "--name", "bad_order")
    assert made.code == 0, made
    assert "KeyError" in (here.root / "tests" / "test_bad_order.py").read_text()


def test_where_nothing_can_be_written_and_nobody_takes_it_nothing_is_kept(project: Project) -> None:
    """One warning, however many runs and threads (B12)."""
    (project.root / ".stepfork").write_text("in the way")
    said = run_agent(project, 'tried("bad")\ntried("good")\ntried("bad")\n')
    assert said.count("stepfork cannot record in ") == said.count("Warning: ") == 1
    assert handed_over(project) == []


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder that other users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="stepfork-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="there are no such users here")
@pytest.mark.parametrize("takes_it", [True, False])
def test_a_read_only_folder_costs_one_warning(for_all: Path, takes_it: bool) -> None:
    """A folder that belongs to somebody else is such a one, also where runs already lie in it."""
    project = Project(for_all / "project", {**MINIMAL, "agent.py": AGENT})
    (project.root / ".stepfork" / "runs").mkdir(parents=True)
    out = project.root / "out"
    out.mkdir()
    out.chmod(0o777)
    for folder in (project.root, project.root / ".stepfork", project.root / ".stepfork" / "runs"):
        folder.chmod(0o555)
    (project.root / "main.py").touch()
    project.root.chmod(0o755)
    # First a run elsewhere: what is imported for it may lie where another user cannot read.
    leave = (
        "import os\nstepfork.configure(dir='../first')\nhandle('good')\n"
        "try: handle('bad')\nexcept KeyError: stepfork.configure(dir=None)\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"
    )
    said = run_agent(project, leave + HAND_OVER * takes_it + 'tried("bad")\ntried("good")\ntried("bad")\n')
    assert said.count("Permission denied") == said.count("Warning: ") == 1
    assert [path.name for path in handed_over(project)] == [
        f"bytes-{number}.stepfork" for number in range(2 * takes_it)
    ]


FULL = """
import resource, signal
sys.dont_write_bytecode = True  # or it would be a part of it, for whoever imports the module next
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, -1))

def hand_over_later(run):
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    hand_over(run)

stepfork.configure(on_failed=hand_over_later)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no such limit here")
@pytest.mark.parametrize("size", [300, 50_000])
def test_a_disk_that_fills_up_in_the_middle_loses_nothing(project: Project, size: int) -> None:
    """What was written is taken into memory, and the run goes on there, values in blobs included."""
    said = run_agent(project, FULL + f'tried("bad", 3, {size})\n')
    assert said.count("stepfork cannot write in ") == said.count("Warning: ") == 1
    (failed,) = handed_over(project)
    assert failed.name == "bytes-0.stepfork"
    run = read_run(failed)
    assert (run.ended, run.incomplete) == (True, False)
    texts = [decode(call.outcome.value)["text"] for call in run.walk() if call.name == "lookup"]
    assert texts == ["bad" * size] * 3
    runs = project.root / ".stepfork" / "runs"
    assert not list(runs.glob("*.jsonl"))
    assert not list(runs.glob("*.blobs"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no such limit here")
def test_what_the_full_disk_holds_stays_where_it_could_not_be_handed_over(project: Project) -> None:
    """Half a run is better than none."""
    refuse = "\ndef refuse(run):\n    raise OSError('no network')\nstepfork.configure(on_failed=refuse)\n"
    said = run_agent(project, FULL + refuse + 'tried("bad", 3, 300)\n')
    assert "on_failed raised OSError: no network" in said
    (left,) = (project.root / ".stepfork" / "runs").glob("*.jsonl")
    assert read_run(left).root.outcome.status == "killed"


def test_where_the_folder_can_be_written_the_path_is_handed_over(project: Project) -> None:
    """The run is whole when it is."""
    assert run_agent(project, HAND_OVER + 'tried("bad")\ntried("good")\n') == ""
    (failed,) = handed_over(project)
    assert failed.name == "path-0.stepfork"
    assert read_run(failed).ended


def test_a_step_that_the_hand_over_calls_is_not_handed_over_itself(project: Project) -> None:
    """One that fails would else be handed over by itself without an end (B12)."""
    code = """
@stepfork.step
def upload(run):
    print("uploading")
    raise OSError("no network")

stepfork.configure(on_failed=upload)
try:
    handle("bad")
except KeyError:
    print("as ever")
"""
    project.write({"main.py": "from agent import *\n" + code})
    done = project.run("python", "main.py")
    assert (done.code, done.out) == (0, "uploading\nas ever\n")
    assert done.err.count("Warning: ") == done.err.count("on_failed raised OSError: no network") == 1
    assert len(list((project.root / ".stepfork" / "runs").glob("*.jsonl"))) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no such limit here")
def test_lines_that_tear_in_many_runs_cost_one_warning(project: Project) -> None:
    """How many bytes of which file were written is another text each time."""
    limit = FULL.replace("3000", "100").partition("def ")[0]
    said = run_agent(project, limit + 'tried("good", 3)\n' * 3)
    assert said.count("Warning: ") == said.count("only a part of a line could be written") == 1


@stepfork.tool
def lookup(value: Any) -> Any:
    """Return what it was given."""
    return value


@stepfork.step
def handle(value: Any) -> Any:
    """Look something up, and fail."""
    return lookup(value)["amount"]


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bytes]:
    """What was handed over by this process, which can write nowhere."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("STEPFORK_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("STEPFORK_RECORD_UNDER_PYTEST", "on")
    monkeypatch.setattr(_warn, "_said", set())
    found: list[bytes] = []
    stepfork.configure(on_failed=found.append)
    return found


@pytest.mark.filterwarnings("ignore:stepfork cannot write in")
def test_what_is_held_in_memory_is_bounded(received: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that takes more is given up with a warning, and its room is there for the next one."""
    monkeypatch.setattr(_memory_journal, "MOST", 10_000)
    with pytest.warns(RuntimeWarning, match="the 10000 bytes they may"), pytest.raises(KeyError):
        handle({"text": "x" * 20_000})
    assert received == []
    assert _memory_journal.budget.taken == 0
    with pytest.raises(KeyError):
        handle({"text": "x" * 2000})
    assert len(received) == 1
    assert _memory_journal.budget.taken == 0


@pytest.mark.filterwarnings("ignore:stepfork cannot write in")
def test_runs_side_by_side_in_memory_are_kept_apart(received: list[bytes], tmp_path: Path) -> None:
    """Each is handed over whole and alone."""

    def fail(number: int) -> None:
        with pytest.raises(KeyError):
            handle({"id": number})

    threads = [threading.Thread(target=fail, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers: list[int] = []
    for data in received:
        (tmp_path / "run.stepfork").write_bytes(data)
        run = read_run(tmp_path / "run.stepfork")
        numbers += {decode(call.input["value"])["id"] for call in run.walk()}
    assert sorted(numbers) == list(range(20))
    assert _memory_journal.budget.taken == 0


def test_a_folder_that_is_removed_is_made_anew_by_the_next_run(project: Project) -> None:
    """The run that goes on does so in its descriptor, unnoticed."""
    code = """
import shutil

@stepfork.step
def removing():
    lookup("a")
    shutil.rmtree(".stepfork")
    return lookup("b")

removing()
tried("good")
tried("bad")
"""
    assert run_agent(project, code) == ""
    runs = [read_run(path).name for path in (project.root / ".stepfork" / "runs").glob("*.jsonl")]
    assert runs == ["handle", "handle"]
    assert (project.root / ".stepfork" / ".gitignore").read_text() == "*\n"
