from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from project import Project, Result, clean_environment
from sample_runs import killed, raised, refund, returned, write_journal
from stepfork._calls import Failure, Usage
from stepfork._events import CallEnded, CallStarted, Event, RunEnded, RunMarked
from stepfork._store import find_run, list_runs
from stepfork.cli._terminal import cells
from stepfork.errors import RunNotFound

AGENT = """
    import os, signal, sys, time
    import stepfork

    @stepfork.tool
    def charge(amount):
        print("charging", flush=True)
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1] == "going":
            time.sleep(60)
        return {"charged": amount}

    @stepfork.step
    def handle(order):
        charge(12)
        return order["amount"]

    handle({"amount": 12} if sys.argv[1] == "returned" else {})
"""


@pytest.fixture
def runs(project: Project) -> Path:
    """The folder of the runs of the scratch project."""
    return project.root / ".stepfork" / "runs"


def row_of(result: Result, run_id: str) -> str:
    """Return the line of one run."""
    return next(line for line in result.out.splitlines() if line.startswith(run_id))


def test_runs_stand_newest_first_with_outcome_place_calls_and_age(project: Project, runs: Path) -> None:
    """A line of the list says what a person needs to choose a run."""
    write_journal(runs, "1111111111", returned(), minutes_ago=50)
    write_journal(runs, "2222222222", raised(), minutes_ago=3)
    listed = project.stepfork("runs")
    assert listed.code == 0, listed
    headings, newest, older = listed.out.splitlines()
    assert headings.split() == ["RUN", "AGENT", "OUTCOME", "WHERE", "CALLS", "AGE"]
    assert newest.split() == [
        "2222222222",
        "handle",
        "raised",
        "KeyError",
        "handle#1/decide#1",
        "5",
        "3",
        "min",
        "ago",
    ]
    assert older.split() == ["1111111111", "handle", "returned", "5", "50", "min", "ago"]


def test_tokens_are_listed_where_a_run_tells_them(project: Project, runs: Path) -> None:
    """The column is there for those that do; on a narrow terminal the place of the failure matters more."""
    write_journal(runs, "1111111111", returned(), minutes_ago=50)
    write_journal(runs, "2222222222", raised(Usage(1240, 312, 1000)), minutes_ago=3)
    headings, newest, older = project.stepfork("runs").out.splitlines()
    assert headings.split() == ["RUN", "AGENT", "OUTCOME", "WHERE", "CALLS", "TOKENS", "AGE"]
    assert newest[headings.index("TOKENS") :].rstrip() == "1.2k in, 312 out  3 min ago"
    assert older[headings.index("TOKENS") :].split() == ["50", "min", "ago"]
    assert "TOKENS" not in project.stepfork("runs", env={"COLUMNS": "70"}).out
    documents = project.stepfork("runs", "--json").json["runs"]
    assert [document["usage"] for document in documents] == [
        {"input": 1240, "output": 312, "cached": 1000},
        None,
    ]


def test_the_columns_of_the_list_are_aligned(project: Project, runs: Path) -> None:
    """Wide characters take two columns of a terminal, and the next column still begins where it should."""
    write_journal(runs, "1111111111", returned(), name="退款")
    write_journal(runs, "2222222222", returned(), name="refund-agent")
    rows = project.stepfork("runs").out.splitlines()
    starts = {cells(row[: row.index("OUTCOME" if "OUTCOME" in row else "returned")]) for row in rows}
    assert starts == {len("1111111111  refund-agent  ")}


def test_every_ending_has_its_own_words(project: Project, runs: Path) -> None:
    """Killed, marked, failed by its code, an expected exception, suspended: none reads like another."""
    at = "handle#1"
    begun = CallStarted(at, "step", {})
    error = {"$exception": "shop.web:Http<404>", "args": [], "message": "gone"}
    write_journal(runs, "aaaaaaaaaa", killed())
    write_journal(runs, "bbbbbbbbbb", [*returned(), RunMarked("denied"), RunMarked("denied it\nwrongly")])
    code_said = Failure("failed", f"{at}/decide#1", None, "no refund")
    by_code: list[Event] = [RunMarked("no refund", f"{at}/decide#1"), RunEnded(2, code_said)]
    write_journal(runs, "cccccccccc", [*returned()[:-1], *by_code])
    write_journal(runs, "dddddddddd", [begun, CallEnded(at, "raised", error, origin=at), RunEnded(2)])
    write_journal(runs, "eeeeeeeeee", [begun, CallEnded(at, "suspended", error, origin=at), RunEnded(2)])
    write_journal(runs, "ffffffffff", [begun, RunEnded(2, incomplete=True)])
    listed = project.stepfork("runs")
    words = {line.split()[0]: " ".join(line.split()[2:-4]) for line in listed.out.splitlines()[1:]}
    assert words == {
        "aaaaaaaaaa": "killed handle#1/decide#1",
        "bbbbbbbbbb": "failed: denied it",
        "cccccccccc": "failed: no refund handle#1/decide#1",
        "dddddddddd": "raised Http<404> as expected",
        "eeeeeeeeee": "suspended",
        "ffffffffff": "recording broke off",
    }


def test_runs_of_a_real_agent_are_listed_with_how_they_ended(project: Project) -> None:
    """Returned, raised and killed processes are told apart from their journals alone."""
    project.write({"agent.py": AGENT})
    assert project.run("python", "agent.py", "returned").code == 0
    assert project.run("python", "agent.py", "raised").code == 1
    assert project.run("python", "agent.py", "killed").code == -signal.SIGKILL
    found = project.stepfork("runs", "--json").json["runs"]
    assert {(run["outcome"], run["place"]) for run in found} == {
        ("returned", ""),
        ("raised KeyError", "handle#1"),
        ("killed", "handle#1/charge#1"),
    }


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks that tell")
def test_a_run_that_is_still_going_is_shown_as_such(project: Project) -> None:
    """A live process is no killed one, and nothing marks or exports a run before its end."""
    project.write({"agent.py": AGENT})
    agent = subprocess.Popen(
        [sys.executable, "agent.py", "going"],
        cwd=project.root,
        env=clean_environment(project.root),
        stdout=subprocess.PIPE,
    )
    try:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"charging\n"
        (run,) = project.stepfork("runs", "--json").json["runs"]
        assert (run["outcome"], run["going_on"], run["killed"]) == ("still going", True, False)
        before = project.files()
        for command in (["fail", run["id"], "--reason", "slow"], ["export", run["id"]]):
            refused = project.stepfork(*command)
            assert (refused.code, refused.out) == (2, "")
            assert "is still going" in refused.err
        assert project.files() == before
    finally:
        agent.kill()
        agent.communicate()
    assert "killed" in project.stepfork("runs").out


def test_only_failed_runs_are_listed_when_asked(project: Project, runs: Path) -> None:
    """Killed and passed runs did not fail."""
    write_journal(runs, "1111111111", returned())
    write_journal(runs, "2222222222", killed())
    assert project.stepfork("runs", "--failed").out == "None of the 2 runs failed.\n"
    write_journal(runs, "3333333333", raised())
    listed = project.stepfork("runs", "--failed")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["RUN", "3333333333"]


def test_a_damaged_file_is_shown_with_its_line_and_hides_no_other(project: Project, runs: Path) -> None:
    """Damage is never an empty list (B73): each bad file has a row of its own, also among the failed."""
    write_journal(runs, "1111111111", returned())
    damaged = write_journal(runs, "2222222222", raised(), minutes_ago=1)
    lines = damaged.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:20] + b"\n"
    damaged.write_bytes(b"".join(lines))
    (runs / "noise.jsonl").write_bytes(b"\xff\xfe\n")
    (runs / "empty.jsonl").write_bytes(b"")
    listed = project.stepfork("runs")
    assert listed.code == 0, listed
    assert row_of(listed, "2222222222").split()[1:4] == ["handle", "damaged", "2222222222.jsonl:4"]
    assert row_of(listed, "noise").split()[1:4] == ["?", "damaged", "noise.jsonl:1"]
    assert "damaged" in row_of(listed, "empty")
    assert "returned" in row_of(listed, "1111111111")
    assert "2222222222" in project.stepfork("runs", "--failed").out
    documents = {run["id"]: run for run in project.stepfork("runs", "--json").json["runs"]}
    assert documents["2222222222"]["error"]["code"] == "SF302"
    assert "error" not in documents["1111111111"]


def test_a_file_of_a_newer_stepfork_is_no_damage(project: Project, runs: Path) -> None:
    """Who reads it is told to upgrade (B76)."""
    newer = write_journal(runs, "1111111111", returned())
    newer.write_bytes(newer.read_bytes().replace(b'"v":1', b'"v":99'))
    assert "made by a newer stepfork" in project.stepfork("runs").out
    shown = project.stepfork("show", "1111")
    assert shown.code == 3
    assert "upgrade stepfork" in shown.err


def test_an_empty_folder_says_where_it_looked_and_how_a_run_gets_there(project: Project, runs: Path) -> None:
    """The first command of a newcomer is no dead end."""
    listed = project.stepfork("runs")
    assert listed.code == 0
    assert f"No runs yet in {runs}" in listed.out
    assert "@stepfork.step" in listed.out
    off = project.stepfork("runs", env={"STEPFORK_RECORD": "off"})
    assert "STEPFORK_RECORD" in off.out


def test_the_folder_follows_the_settings(project: Project, tmp_path: Path) -> None:
    """``STEPFORK_DIR`` is where production puts its runs."""
    elsewhere = tmp_path / "volume"
    write_journal(elsewhere / "runs", "1111111111", raised())
    listed = project.stepfork("runs", "--json", env={"STEPFORK_DIR": str(elsewhere)})
    assert [run["id"] for run in listed.json["runs"]] == ["1111111111"]
    assert project.stepfork("runs", env={"STEPFORK_RECORD": "perhaps"}).code == 2


def test_a_limit_keeps_the_newest(project: Project, runs: Path) -> None:
    """Without one a person sees twenty and is told of more; a machine sees all."""
    for number in range(23):
        write_journal(runs, f"{number:010}", returned(), minutes_ago=100 - number)
    shown = project.stepfork("runs").out.splitlines()
    assert len(shown) == 1 + 20 + 1
    assert (shown[1].split()[0], shown[-1]) == ("0000000022", "more with --limit 200")
    assert len(project.stepfork("runs", "--json").json["runs"]) == 23
    assert [run["id"] for run in project.stepfork("runs", "--json", "--limit", "2").json["runs"]] == [
        "0000000022",
        "0000000021",
    ]
    assert project.stepfork("runs", "--limit", "0").code == 2


def test_a_run_is_found_by_the_beginning_of_its_id_or_by_its_path(runs: Path) -> None:
    """An id that is the beginning of another is still itself."""
    short = write_journal(runs, "3f", raised())
    long = write_journal(runs, "3f2a", returned(), minutes_ago=1)
    write_journal(runs, "3f9b", returned())
    assert find_run("3f", runs).path == short
    assert find_run("3f2", runs).path == long
    assert find_run(str(long), runs).run.id == "3f2a"
    assert find_run(None, runs).path == short


def test_an_ambiguous_beginning_lists_the_candidates(runs: Path) -> None:
    """The newest stand first, and the facts are attributes too."""
    write_journal(runs, "3f2a", returned(), minutes_ago=9)
    write_journal(runs, "3f9b", returned(), minutes_ago=1)
    with pytest.raises(RunNotFound, match="2 runs have an id that begins with '3f'") as caught:
        find_run("3f", runs)
    assert caught.value.candidates == ["3f9b", "3f2a"]
    assert "3f9b  handle" in str(caught.value)


def test_names_from_outside_cannot_leave_the_folder(project: Project, runs: Path) -> None:
    """An id is compared and never joined to a path, whatever a file says of itself (B47)."""
    write_journal(runs, "1111111111", returned())
    secret = project.root / "secret"
    secret.write_text("password", encoding="utf-8")
    for text in ("", "*", "?", "..", "%2e%2e"):
        with pytest.raises(RunNotFound):
            find_run(text, runs)
    shown = project.stepfork("show", "../secret")
    assert shown.code == 3
    assert "password" not in shown.out + shown.err
    evil = write_journal(runs, "evil", returned())
    evil.write_bytes(evil.read_bytes().replace(b'"id":"evil"', b'"id":"../../evil"', 1))
    exported = project.stepfork("export", str(evil))
    assert exported.code == 0, exported
    assert [name for name in project.files() if name.endswith(".stepfork")] == ["handle-evil.stepfork"]


def test_without_a_failed_run_the_default_says_what_to_do(project: Project, runs: Path) -> None:
    """Damaged files, which may be the ones that failed, are counted."""
    write_journal(runs, "1111111111", returned())
    (runs / "noise.jsonl").write_bytes(b"noise\n")
    shown = project.stepfork("show")
    assert shown.code == 3
    assert "no run failed" in shown.err
    assert "1 of 2" in shown.err
    assert "stepfork fail" in shown.err


def test_without_a_failed_run_the_default_points_to_one_that_was_cut_off(
    project: Project, runs: Path
) -> None:
    """Most likely it is the one that is meant; without any run there is nothing to mark either."""
    for command in ("show", "make-test", "export"):
        shown = project.stepfork(command)
        assert (shown.code, "with @stepfork.step" in shown.err) == (3, True), shown
        assert "stepfork fail" not in shown.err
    journal = write_journal(runs, "1111111111", returned())
    whole = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(whole[:-2]))
    shown = project.stepfork("show")
    assert "one was cut off: stepfork show 1111111111" in shown.err, shown
    missing = project.stepfork("make-test", "no-such.stepfork")
    assert (missing.code, "stepfork runs" in missing.err) == (3, True), missing


def test_runs_are_put_in_order_by_their_first_lines_alone(runs: Path) -> None:
    """What stands below them is not read, however long it is."""
    for number in range(1000):
        journal = write_journal(runs, f"{number:010}", refund())
        header = journal.read_bytes().splitlines(keepends=True)[0]
        journal.write_bytes(header + b"no event" * 1000)
    assert len(list_runs(runs)) == 1000


def test_a_command_that_does_not_exist_suggests_one_that_does(project: Project) -> None:
    """Usage errors look like all others, in text and in JSON."""
    unknown = project.stepfork("rnus")
    assert (unknown.code, unknown.out) == (2, "")
    assert "did you mean runs?" in unknown.err
    option = project.stepfork("runs", "--faild", "--json")
    assert (option.code, option.err) == (2, "")
    assert option.json["error"]["code"] == "SF102"
    assert "--faild" in option.json["error"]["what"]
    assert option.json["error"]["ways_on"] == ["stepfork runs --help"]


def test_without_a_command_the_help_is_printed(project: Project) -> None:
    """Every command stands there with a line of its own."""
    helped = project.stepfork()
    assert helped.code == 0
    for command in ("runs", "show", "fail", "export"):
        assert f"\n    {command}" in helped.out
        assert project.stepfork(command, "--help").code == 0
    assert project.stepfork("--version").out.startswith("stepfork ")


def test_the_reading_commands_need_nothing_but_the_base_install(project: Project, runs: Path) -> None:
    """Neither rich nor what makes and runs tests is imported (B63)."""
    write_journal(runs, "1111111111", raised())
    code = """
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {"rich", "pytest", "yaml", "syrupy", "deepdiff", "jsonpath"}:
                    raise ImportError(name)
        sys.meta_path.insert(0, Refuse())
        from stepfork.cli import main
        codes = [main(arguments.split(",")) for arguments in sys.argv[1:]]
        sys.exit(any(codes))
    """
    project.write({"base.py": code})
    marking = "fail,handle-1111111111.stepfork,--reason,x"
    commands = ("runs", "show,1111", "show,1111,decide#1", "export,1111", marking)
    done = project.run("python", "base.py", *commands)
    assert "SF405" in done.err, done
    assert "is a failed run already" in done.err


def test_a_reader_that_goes_away_is_no_error(project: Project, runs: Path) -> None:
    """``stepfork runs | head -c 1`` ends without a traceback."""
    for number in range(1000):
        write_journal(runs, f"{number:010}", raised())
    command = f"{sys.executable} -m stepfork runs --json; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -c 1"],
        cwd=project.root,
        env=clean_environment(project.root),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("{", "141\n")


def test_an_interrupt_is_quiet(project: Project, runs: Path) -> None:
    """Ctrl-C while a slow file is read ends the command as a shell expects."""
    runs.mkdir(parents=True)
    pipe = project.root / "slow.jsonl"
    os.mkfifo(pipe)
    command = subprocess.Popen(
        [sys.executable, "-m", "stepfork", "show", "./slow.jsonl"],
        cwd=project.root,
        env=clean_environment(project.root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    writer = pipe.open("wb")  # returns when the command reads
    with writer:
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=30)
    assert (command.returncode, out, err) == (130, b"", b"")
