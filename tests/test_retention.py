from __future__ import annotations

import contextvars
import errno
import fcntl
import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepfork
from kept_runs import A_DAY, PASSES, fail, handle, ids, ran, recorded_in, refund, restart
from project import Project
from sample_runs import raised, with_blobs, write_journal
from stepfork import _retention
from stepfork._calls import Failure
from stepfork._index import Line
from stepfork._kept_runs import KeptRuns
from stepfork._run_files import fingerprint_of


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of the runs of this process, which records in spite of pytest."""
    with recorded_in(tmp_path / "kept", monkeypatch) as folder:
        yield folder


def test_of_runs_that_passed_the_newest_twenty_are_kept(folder: Path) -> None:
    """Also in a process that records one run only, and whatever others recorded before."""
    runs = []
    for number in range(24):
        runs.append(ran(folder, lambda: handle(PASSES)))
        if number % 7 == 0:
            restart()
    assert ids(folder) == set(runs[-20:])


def test_of_a_failure_the_first_run_and_the_newest_five_are_kept(folder: Path) -> None:
    """Another root that fails, or another exception, is another failure."""
    runs = [ran(folder, fail) for _ in range(9)]
    other = ran(folder, lambda: fail(refund))
    with pytest.raises(TypeError):
        handle(None)
    passed = ran(folder, lambda: handle(PASSES))
    assert ids(folder) >= {runs[0], *runs[-5:], other, passed}
    assert len(ids(folder)) == 9


def test_how_often_a_failure_was_seen_outlives_its_runs(folder: Path) -> None:
    """``stepfork runs`` says it of each of its runs, and so do the machines' words."""
    for _ in range(9):
        fail()
    restart()
    fail()
    seen = _retention.times_seen(folder)
    assert set(seen.values()) == {10}
    assert set(seen) == ids(folder)


def test_the_command_line_says_how_often_a_failure_was_seen(project: Project) -> None:
    """Nine runs in nine processes are counted, though six are left."""
    project.write(
        {
            "agent.py": """
                import stepfork

                @stepfork.step
                def handle(order):
                    return order["amount"]

                for _ in range(9):
                    try:
                        handle({})
                    except KeyError:
                        pass
                handle({"amount": 1})
            """
        }
    )
    assert project.run("python", "agent.py").code == 0
    shown = project.stepfork("runs")
    assert shown.out.count("raised KeyError (9 times)") == 6, shown
    seen = sorted(run["seen"] for run in project.stepfork("runs", "--json").json["runs"])
    assert seen == [1, *[9] * 6]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (Failure("raised", "a#1/b#3", "m:E", "x"), Failure("raised", "a#1/b#17", "m:E", "y"), True),
        (Failure("raised", "a#1/b#1", "m:E"), Failure("raised", "a#1/c#1", "m:E"), False),
        (Failure("raised", "a#1", "m:E"), Failure("raised", "a#1", "m:F"), False),
        (
            Failure("failed", "a#1", message="order 17 denied"),
            Failure("failed", "a#1", message="order 8 denied"),
            True,
        ),
        (Failure("failed", "a#1", message="denied"), Failure("failed", "a#1", message="too slow"), False),
    ],
)
def test_what_makes_two_failures_the_same(one: Failure, other: Failure, alike: bool) -> None:
    """Where and with what it failed counts, not in which turn of a loop and not with which number."""
    assert (fingerprint_of("agent", one) == fingerprint_of("agent", other)) is alike
    assert fingerprint_of("agent", one) != fingerprint_of("another", one)


def test_a_reason_that_holds_a_secret_does_not_stand_in_the_index(folder: Path) -> None:
    """What tells failures apart is made of the reason before the redactor has seen it."""
    with stepfork.run("agent") as run:
        run.fail("denied to jane.doe@example.com with sk-live-0123456789abcdefghij")
    index = (folder / ".index").read_text()
    assert "agent failed:" in index
    assert "jane" not in index
    assert "sk-live" not in index


def test_runs_go_when_they_are_too_old(folder: Path) -> None:
    """Failed ones too, with their blobs; the setting counts days."""
    big = write_journal(folder, "1111111111", raised())
    with_blobs(big)
    old = write_journal(folder, "2222222222", raised())
    young = write_journal(folder, "3333333333", raised())
    assert (folder / "1111111111.blobs").is_dir()
    for path, days in ((big, 15), (old, 15), (young, 13)):
        os.utime(path, (time.time() - days * A_DAY,) * 2)
    new = ran(folder, lambda: handle(PASSES))
    assert ids(folder) == {young.stem, new}
    assert not (folder / "1111111111.blobs").exists()
    stepfork.configure(max_age=12)
    handle(PASSES)
    assert young.stem not in ids(folder)


def test_over_the_limit_what_passed_goes_first_then_what_repeats(folder: Path) -> None:
    """The first run of each failure stays to the end."""
    first = [ran(folder, fail), ran(folder, lambda: fail(refund))]
    again = [ran(folder, fail) for _ in range(3)]
    passed = [ran(folder, lambda: handle(PASSES)) for _ in range(4)]
    sizes = {run: (folder / f"{run}.jsonl").stat().st_size for run in (*first, *again, *passed)}
    left = {*first, *again}
    stepfork.configure(max_bytes=sum(sizes[run] for run in left) + 5)
    handle(PASSES)
    assert ids(folder) == left
    stepfork.configure(max_bytes=sum(sizes[run] for run in first) + 5)
    handle(PASSES)
    assert ids(folder) == set(first)


def test_when_nothing_may_go_recording_stops_with_one_warning_until_there_is_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent goes on as ever; a run removed by hand makes room."""
    monkeypatch.setattr(_retention, "_BETWEEN_LOOKS", 0.0)
    first = ran(folder, fail)
    stepfork.configure(max_bytes=(folder / f"{first}.jsonl").stat().st_size + 5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fail(refund)
        fail(refund)
        handle(PASSES)
    assert "max_bytes" in str(said[0].message)
    assert len(said) == 1
    assert ids(folder) == {first}
    (folder / f"{first}.jsonl").unlink()
    assert ran(folder, lambda: fail(refund)) in ids(folder)


@pytest.mark.parametrize(("size", "most"), [(300, 20_000), (100_000, 250_000)])
def test_a_run_that_outgrows_the_limit_is_given_up_in_the_middle(folder: Path, size: int, most: int) -> None:
    """An agent in an endless loop does not fill the disk; what others recorded stays (B12)."""
    first = ran(folder, fail)
    payload = "x" * size
    stepfork.configure(max_bytes=most)

    @stepfork.step
    def endless() -> int:
        sizes = [len(handle({"amount": f"{number}{payload}"})) for number in range(100)]
        return sum(sizes) + sum(path.stat().st_size > most + 2000 for path in folder.glob("*.jsonl"))

    with pytest.warns(RuntimeWarning, match="max_bytes") as said:
        assert endless() == sum(len(f"{number}{payload}") for number in range(100))
    assert len(said) == 2
    assert ids(folder) == {first}


def test_a_marked_run_no_longer_counts_as_one_that_passed(project: Project) -> None:
    """``stepfork fail`` makes it one of the failures, of which the first is kept."""
    project.write(
        {
            "agent.py": """
                import stepfork

                @stepfork.step
                def handle(order):
                    return order

                for number in range(21):
                    handle(number)
            """
        }
    )
    runs = project.root / ".stepfork" / "runs"
    project.run("python", "agent.py")
    oldest = json.loads(project.stepfork("runs", "--json").out)["runs"][-1]["id"]
    assert project.stepfork("fail", oldest, "--reason", "wrong answer").code == 0
    project.run("python", "agent.py")
    assert oldest in ids(runs)
    assert len(ids(runs)) == 21


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 0, 0), (0.5, 3, 17), (1.0, 20, 20)])
def test_sampling_thins_out_runs_that_passed_and_no_other(
    folder: Path, share: float, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which run is kept depends on its id alone."""
    numbers = iter(range(7, 2**32, 2**28 + 12345))
    monkeypatch.setattr("stepfork._open_run.new_id", lambda: f"{next(numbers) * 200:010x}"[-10:])
    stepfork.configure(sample=share)
    fail()
    failed = ids(folder)
    for _ in range(12):
        handle(PASSES)
    passed = ids(folder) - failed
    assert len(failed) == 1
    assert {run for run in passed if int(run, 16) >= share * 16**10} == set()
    assert min(least, 12) <= len(passed) <= most


def test_where_files_cannot_be_locked_no_run_that_may_go_on_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell there whether its process lives, whatever its file's time says."""

    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with stepfork.run("long"):
        (going,) = ids(folder)
        os.utime(folder / f"{going}.jsonl", (time.time() - 2 * A_DAY,) * 2)
        restart()
        stepfork.configure(max_age=1)
        other = ran(folder, lambda: contextvars.Context().run(handle, PASSES))
        assert ids(folder) == {going, other}


def test_runs_that_are_found_late_take_their_place_by_time() -> None:
    """What was killed an hour ago is older than what ended just now, and goes first."""
    runs = KeptRuns()
    runs.apply([Line("0000000002", 5000.0, 10, "why"), Line("0000000001", 1000.0, 10, "why")])
    assert [run.id for run in runs] == ["0000000001", "0000000002"]
    assert [run.id for run in runs.surplus(2000.0)] == ["0000000001"]
    assert [run.id for run in runs.overweight(10)] == ["0000000002"]


def test_kept_runs_read_from_their_own_lines_are_the_same() -> None:
    """Writing the index anew changes nothing of what it says."""
    runs = KeptRuns()
    runs.apply(
        [Line(f"{number:010x}", float(number), number, "why" if number % 3 else "") for number in range(30)]
    )
    runs.apply([Line(gone=["0000000001", "0000000003"]), Line(kept="0000000002")])
    again = KeptRuns()
    again.apply(runs.as_lines())
    assert list(again) == list(runs)
    assert (again.bytes, again.kept, again.seen("why")) == (runs.bytes, runs.kept, runs.seen("why"))
    assert again.as_lines() == runs.as_lines()


def test_a_run_that_was_made_into_a_test_is_still_one_of_its_failure() -> None:
    """Nothing removes it and it takes no room, but the failure was seen that often."""
    runs = KeptRuns()
    runs.apply([Line("0000000001", 1.0, 10, "failure"), Line("0000000002", 2.0, 10, "failure")])
    runs.apply([Line(kept="0000000001"), Line(kept="0000000001")])
    again = KeptRuns()
    again.apply(runs.as_lines())

    assert [each.seen("failure") for each in (runs, again)] == [2, 2]
    assert [each.bytes for each in (runs, again)] == [10, 10]
