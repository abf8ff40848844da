"""``stepfork run`` changes nothing of what a program sees and does."""

from __future__ import annotations

import sys

import pytest

from project import MINIMAL, Project, Result

RUN = (sys.executable, "-m", "stepfork", "run", "--")

WORLD = """
    import os
    import signal
    import sys
    import threading
    import warnings

    import __main__

    ADDRESSES = " at 0x"

    for name, value in sorted(vars(__main__).items()):
        if not isinstance(value, type(os)):
            print(name, type(value), repr(value).partition(ADDRESSES)[0])
    print(vars(__main__)["__builtins__"], __main__ is sys.modules["__main__"], globals() is vars(__main__))
    print(sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys.warnoptions, sys._xoptions)
    print(sys.path)
    print(sys.flags, sys.gettrace(), sys.getprofile(), sys.excepthook is sys.__excepthook__, sys.displayhook)
    print(os.getcwd(), sorted(os.environ.items()), sys.stdin.isatty(), sys.stdout.encoding, sys.stdin.read())
    print([(number, signal.getsignal(number)) for number in sorted(signal.valid_signals())])
    print([each.name for each in threading.enumerate()], warnings.filters)
    print(sys.getrecursionlimit(), sys.getswitchinterval())
    print(repr(__loader__).partition(ADDRESSES)[0], __loader__.name, __loader__.path)
    if __spec__ is not None:
        print(__spec__.name, __spec__.origin, __spec__.cached, __spec__.parent)
"""

ENDS = {
    "returns": "pass",
    "exit_none": "import sys; sys.exit()",
    "exit_three": "import sys; sys.exit(3)",
    "exit_text": "import sys; sys.exit('that was it')",
    "exit_tuple": "raise SystemExit((1, 2))",
    "exit_large": "raise SystemExit(2**70)",
    "os_exit": "import os; os._exit(5)",
    "raises": "def fail():\n    raise KeyError('amount')\n\n\nfail()\n",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('other')\n",
    "group": "raise ExceptionGroup('two', [ValueError(1), KeyError('a')])",
    "syntax": "print('never')\nif True print('x')\n",
    "encoding": "# -*- coding: latin-1 -*-\nprint('é')\n",
    "own_hook": "import sys\nsys.excepthook = lambda *args: print(args[0], args[2].tb_lineno)\n1 / 0\n",
    "interrupted": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "raises_interrupt": "raise KeyboardInterrupt('so')",
    "generator_exit": "raise GeneratorExit",
    "in_thread": "import threading\nthreading.Thread(target=lambda: 1 / 0, name='mine').start()\n",
    "at_exit": """
        import atexit, sys, threading, time

        atexit.register(print, "last")
        threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
        print("main")
        sys.exit(4)
    """,
    "from_loop": """
        import asyncio


        async def main():
            await asyncio.sleep(0)
            raise LookupError("from the loop")


        asyncio.run(main())
    """,
    "future": "from __future__ import annotations\nx: Unknown = 1\nprint(__annotations__)\n",
    "own_frames": "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()\n",
    "warned": "import warnings\nwarnings.warn('old', DeprecationWarning)\n",
    "last_value": """
        import atexit, sys

        atexit.register(lambda: print(repr(sys.last_value), sys.last_traceback.tb_lineno))
        raise ValueError("kept")
    """,
    "finalizer": """
        class Kept:
            def __del__(self):
                print("gone")


        kept = Kept()
        print("end")
    """,
    "pickled": """
        import dataclasses, pickle


        @dataclasses.dataclass
        class Order:
            id: str


        print(pickle.loads(pickle.dumps(Order("A"))), pickle.dumps(Order))
    """,
    "inspected": "import inspect\n\n\nclass C:\n    x = 1\n\n\nprint(inspect.getsource(C))\n",
    "path": "import beside, sys\nprint(beside.__file__, sys.path[0])\n",
}
QUICK = {"exit_text", "raises", "interrupted", "pickled"}
"""The rest takes its time: each is two processes or three."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with programs of every kind, read only."""
    project = Project(tmp_path_factory.mktemp("shop") / "project", MINIMAL)
    project.write({"world.py": WORLD, "pkg/__init__.py": "", "pkg/__main__.py": WORLD, "pkg/cli.py": WORLD})
    project.write({f"ends/{name}.py": text for name, text in ENDS.items()} | {"ends/beside.py": ""})
    project.write({"folder/__main__.py": WORLD.replace(", __loader__.path", "")})
    (project.root / "linked.py").symlink_to("ends/path.py")
    return project


def both(project: Project, *arguments: str, **options: str) -> tuple[Result, Result]:
    """Run Python with these arguments, by itself and with ``stepfork run`` in front of it."""
    bare = project.run(sys.executable, *arguments, **options)  # type: ignore[arg-type]
    return bare, project.run(*RUN, sys.executable, *arguments, **options)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("world.py",),
        pytest.param(("world.py", "-m", "--order", "17", "", "é"), marks=pytest.mark.slow),
        pytest.param(("./world.py", "--"), marks=pytest.mark.slow),
        ("pkg/../world.py",),
        pytest.param(("-m", "pkg", "a"), marks=pytest.mark.slow),
        ("-m", "pkg.cli", "a", "-h"),
        pytest.param(("-mpkg.cli",), marks=pytest.mark.slow),
        pytest.param(("-m", "world"), marks=pytest.mark.slow),
        ("folder", "a"),
        pytest.param(("-X", "dev", "world.py"), marks=pytest.mark.slow),
        ("-Xdev", "-W", "error", "world.py"),
        ("-uOm", "pkg.cli", "x"),
        pytest.param(("-B", "-Wdefault", "-I", "world.py"), marks=pytest.mark.slow),
        ("-P", "world.py"),
        pytest.param(("-E", "world.py"), marks=pytest.mark.slow),
        pytest.param(("--", "world.py", "x"), marks=pytest.mark.slow),
        ("--check-hash-based-pycs", "never", "world.py"),
    ],
    ids=str,
)
def test_a_program_sees_the_world_that_it_sees_without(shop: Project, arguments: tuple[str, ...]) -> None:
    """Arguments, path, flags, environment, signals and the attributes of ``__main__`` are the same."""
    bare, run = both(shop, *arguments, stdin="piped\n")
    assert (run.code, run.out, run.err) == (bare.code, bare.out, bare.err)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ENDS]
)
def test_a_program_ends_as_it_ends_without(shop: Project, name: str) -> None:
    """Exit code, output and traceback are the same: no frame of ours stands in it."""
    bare, run = both(shop, f"ends/{name}.py")
    assert (run.code, run.out, run.err) == (bare.code, bare.out, bare.err)


@pytest.mark.parametrize(
    "arguments",
    [("-m", "ends.raises"), ("-m", "nothing.here"), ("-m", "ends.interrupted"), ("ends",), ("no.py",)],
)
def test_a_module_ends_as_it_ends_without(shop: Project, arguments: tuple[str, ...]) -> None:
    """So does what cannot be run at all."""
    bare, run = both(shop, *arguments)
    assert (run.code, run.out, run.err) == (bare.code, bare.out, bare.err)


def test_a_linked_script_imports_from_where_it_really_is(shop: Project) -> None:
    """As Python does, the folder of the link's target is on the path."""
    bare, run = both(shop, "linked.py")
    assert (run.code, run.out) == (bare.code, bare.out)
    assert run.code == 0, run


def test_a_setting_that_is_wrong_costs_the_recording_and_not_the_program(project: Project) -> None:
    """In production a slip in a file of settings must not keep an agent from starting."""
    project.write({"pyproject.toml": "[tool.stepfork]\nmax_aeg = 3\n", "agent.py": "print('done')\n"})
    ended = project.run(*RUN, "python", "agent.py")
    assert (ended.code, ended.out) == (0, "done\n")
    assert "did you mean max_age?" in ended.err
    assert project.files(".stepfork") == {}
