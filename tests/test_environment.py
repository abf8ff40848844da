"""Wherever and however an agent runs, it prints what it prints without stepfork, and ends as it ends."""

from __future__ import annotations

import os
import textwrap

import pytest

from project import Project, Result
from stepfork._calls import Run
from stepfork._codec import decode
from stepfork._recording import read_run

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="these are things of POSIX")

HEAD = """
import asyncio, atexit, gc, os, shutil, signal, sys, threading, time, stepfork

@stepfork.tool
def lookup(value):
    return value

@stepfork.tool
def stream(count):
    try:
        yield from range(count)
    finally:
        print("closed", count, flush=True)
"""

WITHOUT_A_WORD = {
    "a daemon thread still calls when the interpreter ends": """
        @stepfork.step
        def handle():
            def work():
                while True:
                    lookup("x" * 5000)
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(0.05)
            return "done"
        print(handle())
    """,
    "daemon threads call in a run that is open when the interpreter ends": """
        opened = stepfork.run("open")
        opened.__enter__()
        def work():
            while True:
                lookup("x" * 5000)
        atexit.register(lambda: print("at exit", lookup(3)))
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
        print("done")
    """,
    "a tool is called at exit": """
        atexit.register(lambda: print("at exit", lookup(3), handle(4)))
        @stepfork.step
        def handle(value):
            return lookup(value)
        print(handle(1))
    """,
    "a stream is left open until the interpreter ends": """
        @stepfork.step
        def handle():
            kept = stream(3)
            globals()["kept"] = kept
            return next(kept)
        print(handle())
    """,
    "an asynchronous stream is left open until the loop ends": """
        @stepfork.tool
        async def later():
            try:
                yield 1
                yield 2
            finally:
                print("closed", flush=True)
        @stepfork.step
        async def handle():
            globals()["kept"] = later()
            return await anext(kept)
        print(asyncio.run(handle()))
    """,
    "it exits in the middle of a call": """
        @stepfork.step
        def handle():
            lookup(1)
            sys.exit(7)
        handle()
    """,
    "its output is closed": """
        @stepfork.step
        def handle():
            return lookup(1)
        os.close(1)
        os.close(2)
        handle()
    """,
    "sys.stdout and sys.stderr are None": """
        sys.stdout = sys.stderr = None
        @stepfork.step
        def handle():
            return lookup(1)
        handle()
        sys.__stdout__.write("ok")
    """,
    "a thousand threads": """
        @stepfork.step
        def handle():
            results = []
            threads = [threading.Thread(target=lambda n=n: results.append(lookup(n))) for n in range(1000)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            return sorted(results) == list(range(1000))
        print(handle())
    """,
    "its working directory is removed": """
        @stepfork.step
        def handle(n):
            return lookup(n)
        print(handle(0))
        os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
        print(handle(1), handle(2))
    """,
    "it forks in the middle": """
        @stepfork.step
        def handle():
            lookup(1)
            child = os.fork()
            if child == 0:
                lookup(2)
                os._exit(9)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return lookup(code)
        print(handle())
    """,
    "an endless __eq__ and a __repr__ that raises": """
        class Odd:
            def __eq__(self, other):
                raise RuntimeError("never ask")
            __hash__ = None
            def __repr__(self):
                raise RuntimeError("never ask")
        @stepfork.step
        def handle():
            odd = Odd()
            return lookup(odd) is odd
        print(handle())
    """,
    "names that are no file names": """
        names = ["../../x", "CON", "a/b#1", "x" * 400, "\\n", "", "\\x00", "C:\\\\x", "ü", ".", "..", "%2F"]
        for name in names:
            with stepfork.run(name, value=name):
                print(len(stepfork.tool(lambda v: v, name=name or "n")(name)))
    """,
}

QUICK = ("a daemon thread still calls when the interpreter ends", "names that are no file names")

WITH_A_WARNING = {
    "the folder of its runs is a file": """
        open(".stepfork", "w").close()
        @stepfork.step
        def handle(n):
            return lookup(n)
        print(handle(1), handle(2))
    """,
    "its descriptors are used up": """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
        files = []
        try:
            while True:
                files.append(os.dup(0))
        except OSError:
            print("full")
        @stepfork.step
        def handle():
            return lookup(1)
        print(handle(), handle())
    """,
}


STUB = """
def step(function=None, **options):
    return function if function is not None else lambda function: function

tool = step

class run:
    def __init__(self, name, **inputs): ...
    def __enter__(self): return self
    def __exit__(self, *exc_info): ...
"""
"""What an agent imports that has never heard of stepfork."""


def _same_as_without(project: Project, code: str, *options: str) -> Result:
    """Run the agent with stepfork, and see that it printed and ended as without; return what it printed."""
    project.write({"agent.py": textwrap.dedent(HEAD) + textwrap.dedent(code), "stub/stepfork.py": STUB})
    plain = project.run("python", "agent.py", env={"PYTHONPATH": str(project.root / "stub")})
    for left_behind in (".stepfork", "gone"):
        if (project.root / left_behind).is_file():
            (project.root / left_behind).unlink()
    done = project.run("python", *options, "agent.py")
    assert (done.code, done.out) == (plain.code, plain.out), done
    return done


def _runs(project: Project) -> list[Run]:
    folder = project.root / ".stepfork" / "runs"
    return [read_run(path) for path in sorted(folder.glob("*.jsonl"))] if folder.is_dir() else []


@posix
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in WITHOUT_A_WORD]
)
def test_an_agent_in_odd_circumstances_does_not_notice(project: Project, case: str) -> None:
    """Its output and its end are the same, nothing is said, and its runs can be read (B11, B12, B47, B49)."""
    assert _same_as_without(project, WITHOUT_A_WORD[case]).err == ""
    assert _runs(project)


@posix
@pytest.mark.slow
@pytest.mark.parametrize("case", WITH_A_WARNING)
def test_where_nothing_can_be_recorded_an_agent_is_told_once(project: Project, case: str) -> None:
    """One warning for the process, and everything else is the same (B12)."""
    done = _same_as_without(project, WITH_A_WARNING[case])
    assert done.err.count("RuntimeWarning: stepfork") == 1, done


@posix
@pytest.mark.parametrize("case", WITH_A_WARNING)
def test_a_warning_is_no_exception_where_warnings_are_errors(project: Project, case: str) -> None:
    """``python -W error`` is for the agent's own warnings; ours is printed (B12)."""
    done = _same_as_without(project, WITH_A_WARNING[case], "-W", "error")
    assert done.err.count("stepfork cannot record") == 1, done


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_text_is_recorded_whatever_the_locale(project: Project, encoding: str) -> None:
    """Files are UTF-8, whatever files of the agent are by default (B46)."""
    project.write(
        {
            "agent.py": """
                import io, stepfork

                @stepfork.step
                def handle(text):
                    return text + " \U0001f6b2 \u2014 \u00fc"

                handle("\u00e9\U0001f600")
            """
        }
    )
    env = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": encoding}
    done = project.run("python", "agent.py", env=env)
    assert (done.code, done.err) == (0, "")
    (run,) = _runs(project)
    assert decode(run.root.outcome.value) == "\u00e9\U0001f600 \U0001f6b2 \u2014 \u00fc"
    assert project.stepfork("show", run.id, env=env).code == 0
