"""``stepfork run`` and the processes, threads and signals of a program."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from project import MINIMAL, Project, clean_environment
from stepfork._calls import Entry, Run
from stepfork._recording import read_run
from test_run_program import RUN, both

AGENT = """
    import os
    import signal
    import sys
    import threading
    import time

    import stepfork


    @stepfork.tool
    def look_up(key):
        return {"key": key}


    @stepfork.step
    def think(key):
        return look_up(key)["key"]


    def main(how, *rest):
        print(os.getpid(), flush=True)
        if how == "silent":
            return
        look_up(how)
        if how == "waits":
            print("ready", flush=True)
            time.sleep(60)
        elif how == "exits":
            sys.exit(int(rest[0]) if rest[0].isdigit() else rest[0])
        elif how == "raises":
            raise KeyError("amount")
        elif how == "thread":
            threading.Thread(target=lambda: (time.sleep(0.2), think("late"))).start()
        elif how == "atexit":
            import atexit

            atexit.register(look_up, "at the end")
        elif how == "steps":
            think("one")
            think("two")
        elif how == "child":
            import subprocess

            subprocess.run([sys.executable, "child.py"], check=True)
        elif how == "fork":
            if os.fork() == 0:
                look_up("in the child")
                os._exit(0)
            os.wait()
        elif how == "fails":
            stepfork.fail("denied")


    if __name__ == "__main__":
        main(*sys.argv[1:])
"""

PARALLEL = """
    import dataclasses
    import multiprocessing
    import sys
    from concurrent.futures import ProcessPoolExecutor


    @dataclasses.dataclass
    class Order:
        id: int


    def double(order):
        return Order(order.id * 2)


    if __name__ == "__main__":
        multiprocessing.set_start_method(sys.argv[1])
        with multiprocessing.Pool(2) as pool:
            print(pool.map(double, [Order(1), Order(2)]))
        with ProcessPoolExecutor(1) as pool:
            print(pool.submit(double, Order(3)).result())
        process = multiprocessing.Process(target=sys.exit, args=(7,))
        process.start()
        process.join()
        print(process.exitcode)
"""

UNMARKED = """
    import multiprocessing
    import sys

    import work

    if __name__ == "__main__":
        work.charge(1)
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            print(pool.map(work.charge, [2, 3]))
"""

FILES = {
    **MINIMAL,
    "agent.py": AGENT,
    "parallel.py": PARALLEL,
    "pkg/__init__.py": "",
    "pkg/parallel.py": PARALLEL,
    "child.py": "from agent import look_up\n\nlook_up('in the child')\n",
    "tty.py": """
        import os, sys

        print(sys.stdin.isatty(), sys.stdout.isatty(), os.getpgrp() == os.tcgetpgrp(0))
    """,
    "environment.py": "import os\nprint(sorted(os.environ))\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """A project with a program that does as it is told."""
    return Project(tmp_path / "shop", FILES)


def runs(project: Project) -> list[dict[str, Any]]:
    """Return the runs that were kept, the oldest first."""
    found: list[dict[str, Any]] = project.stepfork("runs", "--json").json["runs"]
    return found[::-1]


def stored(project: Project, run: dict[str, Any]) -> Run:
    """Return a run with its calls."""
    return read_run(project.root / run["path"])


def tree(project: Project, run: dict[str, Any]) -> list[str]:
    """Return the addresses of the calls of a run, with what each did."""
    return [f"{call.address} {call.outcome.status}" for call in stored(project, run).walk()]


def record(project: Project, *arguments: str, options: tuple[str, ...] = ()) -> Any:
    """Run the agent under ``stepfork run``."""
    return project.stepfork("run", *options, "--", sys.executable, "agent.py", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("program", [("parallel.py",), ("-m", "pkg.parallel")], ids=" ".join)
def test_multiprocessing_finds_the_program_again(
    shop: Project, program: tuple[str, ...], method: str
) -> None:
    """Workers import the script or the module, by any method, and its classes are pickled as ever."""
    bare, run = both(shop, *program, method)
    assert (run.code, run.out, run.err) == (bare.code, bare.out, bare.err)
    assert "Order(id=4)" in run.out, run


def test_nothing_is_left_of_the_launcher(shop: Project) -> None:
    """The environment of the program is what was given, and its process is the one that was started."""
    bare, run = both(shop, "environment.py")
    assert run.out == bare.out
    started = subprocess.Popen(
        [*RUN, sys.executable, "agent.py", "silent"],
        cwd=shop.root,
        env=clean_environment(shop.root),
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = started.communicate(timeout=60)
    assert int(out) == started.pid


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, "suspended"), (signal.SIGTERM, "killed"), (signal.SIGKILL, "killed")],
)
def test_signals_reach_the_program(shop: Project, number: signal.Signals, status: str) -> None:
    """It dies of them as without, and what it did until then can be read; none of it is a failure."""
    started = subprocess.Popen(
        [*RUN, sys.executable, "agent.py", "waits"],
        cwd=shop.root,
        env=clean_environment(shop.root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert [started.stdout.readline() for _ in range(2)][1] == "ready\n"
    started.send_signal(number)
    _, err = started.communicate(timeout=60)
    assert started.returncode == -number, err
    assert "stepfork" not in err
    (run,) = runs(shop)
    assert run["failure"] is None
    assert tree(shop, run) == [f"agent#1 {status}", "agent#1/look_up#1 returned"]


def test_a_terminal_stays_the_programs(shop: Project) -> None:
    """Input and output are the terminal itself, and the program is in its foreground."""
    outputs = []
    for command in ([sys.executable, "tty.py"], [*RUN, sys.executable, "tty.py"]):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(shop.root)
            os.execve(command[0], command, clean_environment(shop.root))
        told = b""
        while chunk := _read(terminal):
            told += chunk
        os.waitpid(pid, 0)
        os.close(terminal)
        outputs.append(told)
    assert outputs == [b"True True True\r\n"] * 2


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1000)
    except OSError:  # the other end is closed
        return b""


def test_the_program_is_the_root_of_its_run(shop: Project) -> None:
    """Its steps and tools stand below it, and its arguments are what it was given."""
    shown = record(shop, "steps", "two words")
    assert (shown.code, shown.err) == (0, "")
    (run,) = runs(shop)
    assert (run["name"], run["failure"]) == ("agent", None)
    assert tree(shop, run) == [
        "agent#1 returned",
        "agent#1/look_up#1 returned",
        "agent#1/think#1 returned",
        "agent#1/think#1/look_up#1 returned",
        "agent#1/think#2 returned",
        "agent#1/think#2/look_up#1 returned",
    ]
    assert stored(shop, run).root.input == {"argv": ["steps", "two words"]}
    assert stored(shop, run).entry == Entry("__main__", "", "agent.py")


def test_a_program_without_a_call_leaves_nothing(shop: Project) -> None:
    """Neither a run nor a folder for runs."""
    assert record(shop, "silent").code == 0
    assert not (shop.root / ".stepfork").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "failure"),
    [
        (("raises",), 1, "builtins:KeyError"),
        (("exits", "1"), 1, "builtins:SystemExit"),
        (("exits", "bad input"), 1, "builtins:SystemExit"),
        (("exits", "0"), 0, None),
    ],
)
def test_what_a_program_ends_with_is_how_its_run_ends(
    shop: Project, arguments: tuple[str, ...], code: int, failure: str | None
) -> None:
    """An exception is a failure, as is an exit that tells of one; a line says how to make a test of it."""
    shown = record(shop, *arguments)
    assert shown.code == code
    (run,) = runs(shop)
    last = shown.err.splitlines()[-1:]
    if failure is None:
        assert (run["failure"], last) == (None, [])
        return
    assert run["failure"]["type"] == failure
    assert last[0].startswith(f"stepfork: run {run['id']} failed ({failure.partition(':')[2]}: ")
    assert last[0].endswith(" in agent#1): stepfork make-test")


def test_a_program_may_call_itself_failed(shop: Project) -> None:
    """``stepfork.fail`` marks the run of the program."""
    shown = record(shop, "fails")
    assert shown.code == 0
    (run,) = runs(shop)
    assert run["failure"]["message"] == "denied"
    assert f"run {run['id']} failed (denied in agent#1)" in shown.err


@pytest.mark.parametrize(("how", "call"), [("thread", "think#1/look_up#1"), ("atexit", "look_up#2")])
def test_a_run_ends_when_its_program_does(shop: Project, how: str, call: str) -> None:
    """What a thread does after the main code, and what is done at the exit, belongs to it."""
    assert record(shop, how).code == 0
    (run,) = runs(shop)
    assert tree(shop, run)[-1] == f"agent#1/{call} returned"


@pytest.mark.parametrize("how", ["child", "fork"])
def test_a_process_that_the_program_starts_has_a_run_of_its_own(shop: Project, how: str) -> None:
    """It names the run of the program as its parent."""
    assert record(shop, how).code == 0
    parent, child = sorted(runs(shop), key=lambda run: run["parent"] is not None)
    assert (parent["name"], child["parent"]) == ("agent", parent["id"])
    assert tree(shop, child)[-1].endswith("/look_up#1 returned")


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.slow), "fork"])
def test_a_process_of_multiprocessing_is_recorded_unmarked_too(shop: Project, method: str) -> None:
    """What was switched on for code that knows nothing of stepfork is on in the processes that it starts."""
    shop.write({"work.py": "def charge(amount):\n    return amount\n", "unmarked.py": UNMARKED})
    tool = ("--tool", "work:charge")
    shown = shop.stepfork("run", *tool, "--", sys.executable, "unmarked.py", method)
    assert (shown.code, shown.out) == (0, "[2, 3]\n"), shown
    parent, *children = sorted(runs(shop), key=lambda run: run["parent"] is not None)
    assert tree(shop, parent) == ["unmarked#1 returned", "unmarked#1/charge#1 returned"]
    assert {child["parent"] for child in children} == {parent["id"]}
    assert sum(len(tree(shop, child)) - 1 for child in children) == 2


def test_per_step_each_step_is_a_run(shop: Project) -> None:
    """For servers: the program itself is none, and what is called outside of a step is a plain call."""
    assert record(shop, "steps", options=("--per-step",)).code == 0
    assert [run["name"] for run in runs(shop)] == ["think", "think"]


def test_switched_off_the_program_is_simply_run(shop: Project) -> None:
    """With STEPFORK_RECORD=off nothing stands in front of it, and nothing is kept."""
    shown = shop.run(
        *RUN, sys.executable, "-c", "import sys; print(sys.orig_argv[1])", env={"STEPFORK_RECORD": "off"}
    )
    assert (shown.code, shown.out) == (0, "-c\n")


@pytest.mark.slow
def test_a_command_that_is_a_script_of_python_is_run_as_one(shop: Project) -> None:
    """The interpreter is the one that its first line names, whether found on PATH or named by its path."""
    body = "\nimport sys\nprint(sys.argv, sys.flags.dont_write_bytecode, sys.executable, __file__)\n"
    long = f"""#!/bin/sh\n\'\'\'exec' "{sys.executable}" "$0" "$@"\n' \'\'\'{body}"""
    shop.write({"bin/tell": f"#!{sys.executable} -B{body}", "bin/env": f"#!/usr/bin/env python{body}"})
    shop.write({"bin/long": long})
    for script in ("tell", "env", "long"):
        (shop.root / "bin" / script).chmod(0o755)
        path = {"PATH": f"{shop.root / 'bin'}{os.pathsep}{clean_environment(shop.root)['PATH']}"}
        for name in (script, f"./bin/{script}"):
            bare, run = shop.run(name, "a", env=path), shop.run(*RUN, name, "a", env=path)
            assert (run.code, run.out, run.err) == (bare.code, bare.out, bare.err)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "there is no program to run"),
        (("agent.py",), "stepfork run -- python agent.py"),
        (("no-such-command",), "there is no command no-such-command"),
        (("ls", "-l"), "ls is no program of Python"),
        (("python", "-c", "print(1)"), "-c has no file"),
        (("python", "-"), "standard input has no file"),
        (("python",), "an interactive session has no file"),
        (("python", "-x", "agent.py"), "-x is not supported"),
        (("/no/such/python", "agent.py"), "there is no interpreter /no/such/python"),
    ],
)
def test_what_cannot_be_run_is_a_usage_error(shop: Project, words: tuple[str, ...], says: str) -> None:
    """It says what can, and nothing was run."""
    shown = shop.stepfork("run", "--", *words)
    assert (shown.code, shown.out) == (2, "")
    assert says in shown.err


@pytest.mark.parametrize("arguments", [("--version",), ("-V",), ("-h",), ("-Vm", "x")])
def test_what_only_asks_the_interpreter_is_answered_by_it(shop: Project, arguments: tuple[str, ...]) -> None:
    """There is nothing to record in it."""
    bare, run = both(shop, *arguments)
    assert (run.code, run.out) == (bare.code, bare.out)


def test_an_interpreter_without_stepfork_is_named(shop: Project) -> None:
    """The program would run in another environment than this one: it says which, and what to do."""
    other = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    shown = shop.run(*RUN, str(other), "-I", "agent.py", "silent", env={"PYTHONPATH": None})
    assert (shown.code, shown.out) == (2, ""), shown
    assert "finds no stepfork" in shown.err
    assert str(other) in shown.err


def test_an_adapter_that_does_not_exist_is_a_usage_error(shop: Project) -> None:
    """The program is not begun."""
    shown = record(shop, "silent", options=("--adapters", "opanai"))
    assert (shown.code, shown.out) == (2, "")
    assert "openai" in shown.err
