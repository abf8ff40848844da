from __future__ import annotations

import contextvars
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepfork
from kept_runs import A_DAY, LONG_AGO, PASSES, fail, handle, ids, ran, recorded_in, restart
from project import Project
from sample_runs import killed, raised, returned, with_blobs, write_journal
from stepfork import _retention
from stepfork._index import Index, Line
from stepfork._recording import read_run
from stepfork._run_files import keep


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of the runs of this process, which records in spite of pytest."""
    with recorded_in(tmp_path / "kept", monkeypatch) as folder:
        yield folder


def test_a_run_that_was_made_into_a_test_is_never_removed(folder: Path) -> None:
    """Neither for its age, nor its number, nor its size, nor by a process that starts later."""
    kept = ran(folder, lambda: handle(PASSES))
    keep(folder / f"{kept}.jsonl")
    for _ in range(21):
        handle(PASSES)
    restart()
    os.utime(folder / f"{kept}.jsonl", (LONG_AGO, LONG_AGO))
    stepfork.configure(max_bytes=1000, max_age=0.0000001)
    handle(PASSES)
    time.sleep(0.01)
    last = ran(folder, lambda: handle(PASSES))
    assert ids(folder) == {kept, last}


@pytest.mark.slow
def test_make_test_marks_the_run(project: Project) -> None:
    """The run that it made a test of outlives every limit."""
    project.write(
        {
            "agent.py": """
                import stepfork

                @stepfork.step
                def handle(order):
                    return order["amount"]
            """,
            "fail.py": "import agent\nagent.handle({})\n",
        }
    )
    project.run("python", "fail.py")
    runs = project.root / ".stepfork" / "runs"
    (run,) = ids(runs)
    made = project.stepfork("make-test", run, "--name", "here")
    assert made.code == 0, made
    assert [path.name for path in project.root.rglob("*.kept")] == [f"{run}.kept"]


def test_a_file_that_lies_elsewhere_gets_no_mark(tmp_path: Path) -> None:
    """A recording or an export is its owner's affair."""
    for name in ("0123456789.jsonl", "runs/export.stepfork", "runs/notes.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        keep(path)
    assert not list(tmp_path.rglob("*.kept"))


def test_a_run_that_is_still_going_is_never_removed(folder: Path) -> None:
    """Whatever its file's time says."""
    with stepfork.run("long") as _:
        (going,) = ids(folder)
        os.utime(folder / f"{going}.jsonl", (LONG_AGO, LONG_AGO))
        restart()
        stepfork.configure(max_age=1)
        other = ran(folder, lambda: contextvars.Context().run(handle, PASSES))
        assert ids(folder) == {going, other}


def test_a_run_that_was_killed_is_found_and_counted(folder: Path) -> None:
    """It wrote no line into the index, as one whose process died before it could."""
    for number in range(8):
        path = write_journal(folder, f"111111111{number}", killed())
        os.utime(path, (time.time() - 1000 + number,) * 2)
    damaged = write_journal(folder, "2222222222", returned())
    damaged.write_bytes(b"not a run\n")
    os.utime(damaged, (LONG_AGO, LONG_AGO))
    new = ran(folder, lambda: handle(PASSES))
    left = {"1111111110", *(f"111111111{number}" for number in range(3, 8))}
    assert ids(folder) == {*left, damaged.stem, new}


def test_what_others_have_there_is_left_alone(folder: Path, tmp_path: Path) -> None:
    """Files of other names, a file with the name of a run that is none, links, and all outside the folder."""
    handle(PASSES)
    restart()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{'0' * 64}.json").write_text("mine")
    (outside / "run.jsonl").write_bytes(write_journal(tmp_path / "a", "4444444444", raised()).read_bytes())
    mine = {
        "notes.jsonl": b"mine",
        "1111111111.txt": b"mine",
        "5555555555.jsonl": b'{"mine": true}\n',
        "7777777777.jsonl": (outside / "run.jsonl").read_bytes(),
        "deadbeef01.blobs/notes.txt": b"mine",
    }
    for name, content in mine.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (LONG_AGO, LONG_AGO))
    os.utime(folder / "deadbeef01.blobs", (LONG_AGO, LONG_AGO))
    (folder / "4444444444.jsonl").symlink_to(outside / "run.jsonl")
    (folder / "4444444444.blobs").symlink_to(outside)
    (folder / "6666666666.blobs").symlink_to(outside)
    for link in folder.iterdir():
        if link.is_symlink():
            os.utime(link, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    index = Index(folder)
    with index.locked() as is_locked:
        assert is_locked
        index.add([Line("../../outside/run", 1.0, 10, ""), Line(gone=["../x"], kept="/etc/passwd")])
    index.forget()
    stepfork.configure(max_bytes=600)
    handle(PASSES)
    assert len(list(folder.glob("*.jsonl"))) == 5
    for name, content in mine.items():
        assert (folder / name).read_bytes() == content
    assert (folder / "4444444444.jsonl").is_symlink()
    assert sorted(path.name for path in outside.iterdir()) == [f"{'0' * 64}.json", "run.jsonl"]


def test_blobs_without_a_run_are_cleared_away_later(folder: Path) -> None:
    """As a process leaves them that is killed while it removes a run."""
    journal = write_journal(folder, "1111111111", raised())
    with_blobs(journal)
    journal.unlink()
    blobs = folder / "1111111111.blobs"
    handle(PASSES)
    assert blobs.is_dir()
    os.utime(blobs, (LONG_AGO, LONG_AGO))
    restart()
    handle(PASSES)
    assert not blobs.exists()


@pytest.mark.parametrize("damage", ["torn", "garbage", "gone", "empty"])
def test_an_index_that_is_damaged_or_lost_costs_no_run(folder: Path, damage: str) -> None:
    """It is a hint: what it no longer says is found again in the folder."""
    first = ran(folder, fail)
    runs = [ran(folder, lambda: handle(PASSES)) for _ in range(19)]
    for path in folder.glob("*.jsonl"):
        os.utime(path, (time.time() - 1000,) * 2)
    index = folder / ".index"
    if damage == "torn":
        index.write_bytes(index.read_bytes()[:-9])
    elif damage == "garbage":
        index.write_bytes(b"\x00\xff{[\n" * 100)
    elif damage == "gone":
        index.unlink()
    else:
        index.write_bytes(b"")
    restart()
    new = ran(folder, lambda: handle(PASSES))
    assert len(ids(folder) & set(runs)) == 19
    assert ids(folder) >= {first, new}
    assert {line.id for line in Index(folder).look()} >= ids(folder)
    restart()
    assert len(ids(folder)) == 21


@pytest.mark.slow
def test_the_index_does_not_grow_with_the_number_of_runs(folder: Path) -> None:
    """It is written anew when most of it speaks of runs that are gone; counts outlive that."""
    folder.mkdir(parents=True)
    keeper = _retention.keeper_of(folder)
    limits = _retention.Limits(14 * A_DAY, 2**30)
    for number in range(2000):
        run_id = f"{number:010x}"
        (folder / f"{run_id}.jsonl").write_bytes(b"{}\n")
        keeper.note(run_id, "agent m:E a" if number % 2 else "", limits)
    assert len(ids(folder)) == 26
    assert len((folder / ".index").read_bytes().splitlines()) < 700
    assert set(_retention.times_seen(folder).values()) == {1000}


def test_a_run_costs_the_same_among_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ending a run reads what was added to the index, and never lists the folder again."""
    listed = []
    unknown = _retention.Keeper._unknown

    def counted(keeper: _retention.Keeper) -> list[Line]:
        listed.append(keeper)
        return unknown(keeper)

    monkeypatch.setattr(_retention.Keeper, "_unknown", counted)
    for _ in range(50):
        handle(PASSES)
    assert len(listed) == 1


def test_several_processes_keep_one_folder_together(project: Project) -> None:
    """Each removes what is too much for all; nothing is lost, counted twice or said aloud."""
    project.write(
        {
            "agent.py": """
                import os, stepfork

                @stepfork.step
                def handle(order):
                    return order["amount"]

                if __name__ == "__main__":
                    for _ in range(3):
                        os.fork()
                    for _ in range(10):
                        try:
                            handle({})
                        except KeyError:
                            pass
                        handle({"amount": 1})
                    try:
                        while True:
                            os.wait()
                    except ChildProcessError:
                        pass
            """
        }
    )
    done = project.run("python", "agent.py")
    assert (done.code, done.err) == (0, ""), done
    runs = project.root / ".stepfork" / "runs"
    outcomes = [read_run(path).failure is None for path in runs.glob("*.jsonl")]
    assert (outcomes.count(True), outcomes.count(False)) == (20, 6)
    assert set(_retention.times_seen(runs).values()) == {80}


def test_runs_that_end_at_once_in_threads_are_all_noted(folder: Path) -> None:
    """Who finds another at work leaves its run to it."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: fail(), range(60)))
    assert len(ids(folder)) == 6
    assert set(_retention.times_seen(folder).values()) == {60}


def test_a_signal_handler_may_record_a_run_at_any_moment(project: Project) -> None:
    """Also in the middle of the end of another run."""
    project.write(
        {
            "agent.py": """
                import signal, stepfork, time

                @stepfork.step
                def handle(order):
                    return order

                handle("first")
                signal.signal(signal.SIGALRM, lambda *_: handle("tick"))
                for number in range(100):
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 * (number + 1))
                    handle("tock")
                    handle("tock")
                time.sleep(0.01)
                handle("last")
            """
        }
    )
    done = project.run("python", "agent.py", timeout=30)
    assert (done.code, done.err) == (0, ""), done
    assert len(ids(project.root / ".stepfork" / "runs")) == 20


def test_an_agent_that_closes_every_descriptor_keeps_its_own_files(project: Project) -> None:
    """The index's number may be a file of the agent's then: neither written to nor closed."""
    project.write(
        {
            "agent.py": """
                import os, stepfork

                @stepfork.step
                def handle(order):
                    return order

                handle(1)
                os.closerange(3, 64)
                mine = [open(f"mine{number}.txt", "w+") for number in range(8)]
                handle(2)
                for file in mine:
                    file.write("mine")
                    file.close()
                handle(3)
                print({open(f"mine{number}.txt").read() for number in range(8)})
            """
        }
    )
    done = project.run("python", "agent.py")
    assert (done.out, done.err) == ("{'mine'}\n", ""), done
    assert len(ids(project.root / ".stepfork" / "runs")) == 3


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_files_and_folders_are_their_owners_alone(project: Project, umask: int) -> None:
    """Whatever the umask says, of all that recording writes."""
    project.write(
        {
            "agent.py": f"""
                import os, stepfork
                os.umask({umask})
                stepfork.configure(dir="deep/er", blob_bytes=100)

                @stepfork.step
                def handle(order):
                    return order["amount"] * 1000

                handle({{"amount": "x"}})
                handle({{"amount": "y"}})
            """
        }
    )
    done = project.run("python", "agent.py")
    assert (done.code, done.err) == (0, ""), done
    found = [project.root / "deep", *(project.root / "deep").rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in found}
    assert set(modes.values()) == {0o600, 0o700}
    assert all((mode == 0o700) is path.is_dir() for path, mode in modes.items())
    names = {path.relative_to(project.root / "deep").name.rpartition(".")[2] for path in found}
    assert names >= {"gitignore", "index", "jsonl", "blobs", "json"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files here")
def test_a_pipe_with_the_name_of_a_run_is_not_waited_for(folder: Path) -> None:
    """Whoever can write in the folder could else hang the agent."""
    handle(PASSES)
    for name in ("aaaaaaaaaa.jsonl", "bbbbbbbbbb.new", "cccccccccc.kept"):
        os.mkfifo(folder / name)
        os.utime(folder / name, (LONG_AGO, LONG_AGO))
    (folder / ".index").unlink()
    restart()
    last = ran(folder, lambda: handle(PASSES))
    assert last in ids(folder)
    assert (folder / "aaaaaaaaaa.jsonl").exists()
