"""A test of a run of a whole program, and ``stepfork.program``, which it calls."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import stepfork
from project import MINIMAL, Project
from stepfork import errors
from stepfork._calls import Entry
from stepfork._home import entry_of_bound
from stepfork._recording import read_run

AGENT = """
    import argparse
    import asyncio
    import dataclasses
    import enum
    import os
    import sys

    import pydantic

    import stepfork
    from shop.prices import price_of


    class Size(enum.Enum):
        SMALL = 1
        LARGE = 2


    @dataclasses.dataclass
    class Order:
        id: str
        size: Size


    class Reply(pydantic.BaseModel):
        text: str
        orders: list[Order] = []


    class Denied(Exception):
        def __init__(self, order, reason):
            super().__init__(f"{order.id}: {reason}")
            self.order = order


    @stepfork.tool
    def look_up(order_id):
        assert not os.environ.get("NEVER"), "the tool runs"
        return Order(order_id, Size.LARGE)


    @stepfork.model
    async def ask(orders, prompt):
        assert not os.environ.get("NEVER"), "the model runs"
        return Reply(text=prompt.upper(), orders=orders)


    @stepfork.tool
    def refund(order):
        assert not os.environ.get("NEVER"), "the tool runs"
        if order.size is Size.LARGE:
            raise Denied(order, "too large")


    @stepfork.step
    async def handle(order_id):
        order = look_up(order_id)
        reply = await ask([order], f"refund {price_of(order_id)}?")
        assert reply.orders == [order] and type(reply) is Reply
        refund(order)
        return reply


    def main(argv=None):
        parser = argparse.ArgumentParser()
        parser.add_argument("order")
        args = parser.parse_args(argv)
        print(asyncio.run(handle(args.order)))


    if __name__ == "__main__":
        main()
"""

FILES = {
    **MINIMAL,
    "shop/__init__.py": "",
    "shop/prices.py": "def price_of(order_id):\n    return len(order_id)\n",
    "shop/cli.py": AGENT,
    "my_agent.py": AGENT,
    "scripts/run_it.py": AGENT.replace("from shop.prices import", "from prices import"),
    "scripts/prices.py": "def price_of(order_id):\n    return len(order_id)\n",
}
NEVER = {"NEVER": "1"}


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """A project whose agent can be run as a script and as a module."""
    return Project(tmp_path / "shop", FILES)


ROADS = {
    "script": (["my_agent.py"], 'stepfork.program("my_agent.py")'),
    "folder": (["scripts/run_it.py"], 'stepfork.program("scripts/run_it.py")'),
    "module": (["-m", "shop.cli"], 'stepfork.program(module="shop.cli")'),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROADS)
def test_a_program_that_failed_goes_all_the_way(shop: Project, kind: str) -> None:
    """Its file untouched, it fails and becomes a red test; fixed and accepted, the test is green."""
    words, expression = ROADS[kind]
    file = words[-1] if kind != "module" else "shop/cli.py"
    failed = shop.run("stepfork", "run", "--", "python", *words, "A-17")
    assert failed.code == 1
    assert "Denied: A-17: too large in refund#1" in failed.err
    made = shop.stepfork("make-test", "--name", "denied")
    assert made.code == 0, made
    source = shop.read("tests/test_denied.py")
    assert f'replay("denied", {expression})' in source
    assert source.splitlines()[2] == "import stepfork"
    assert "__main__:Order" in shop.read("tests/recordings/denied.jsonl")

    red = shop.pytest(env=NEVER)
    assert red.code == 1
    assert "the recorded failure shows again: Denied: A-17: too large" in red.out
    shop.replace(file, "    refund(order)\n    return", "    return")
    changed = shop.pytest(env=NEVER)
    assert "the recorded failure is gone" in changed.out, changed
    assert shop.pytest("--snapshot-update", env=NEVER).code == 0
    green = shop.pytest(env=NEVER | {"PYTHONPATH": None})
    assert green.code == 0, green


TELLS = """
    import sys

    import stepfork


    @stepfork.tool
    def tell(words):
        return words


    tell(sys.argv[1:])
    sys.exit(sys.argv[1])
"""
OTHER_ARGUMENTS = """
    import stepfork


    def test_argv():
        run = stepfork.replay(
            "tests/recordings/told.jsonl",
            stepfork.program("my_agent.py"),
            argv=["second"],
            override={"tell": 1},
        )
        assert [call.input for call in run.calls("tell")] == [{"words": ["second"]}]
        assert run.error.code == "second"
"""


@pytest.mark.slow
def test_arguments_are_given_back_or_replaced(shop: Project) -> None:
    """The recorded ones reach ``sys.argv`` again; ``argv=`` puts others in their place."""
    shop.write({"my_agent.py": TELLS, "tests/test_argv.py": OTHER_ARGUMENTS})
    assert shop.run("stepfork", "run", "--", "python", "my_agent.py", "first", "--x=1").code == 1
    assert shop.stepfork("make-test", "--name", "told").code == 0
    shown = shop.pytest("tests/test_argv.py")
    assert shown.code == 0, shown


@pytest.mark.slow
def test_a_test_of_a_program_goes_into_a_file_that_exists(shop: Project) -> None:
    """With the one import that it needs, and none that is there already."""
    shop.write({"tests/test_all.py": "import os\n\n\ndef test_other():\n    assert os\n"})
    shop.run("stepfork", "run", "--", "python", "my_agent.py", "A-17")
    made = shop.stepfork("make-test", "--name", "denied", "--into", "tests/test_all.py", "--xfail")
    assert made.code == 0, made
    assert shop.read("tests/test_all.py").count("import stepfork\n") == 1
    assert "1 passed, 1 xfailed" in shop.pytest(env=NEVER).out


@pytest.mark.slow
def test_a_program_that_needs_pythonpath_is_proved_with_it(shop: Project) -> None:
    """What only PYTHONPATH makes importable is told, as it is for functions."""
    shop.write({"lib/prices.py": FILES["scripts/prices.py"], "apart/agent.py": FILES["scripts/run_it.py"]})
    path = {"PYTHONPATH": str(shop.root / "lib")}
    assert shop.run("stepfork", "run", "--", "python", "apart/agent.py", "A-17", env=path).code == 1
    made = shop.stepfork("make-test", "--name", "denied", env=path)
    assert made.code == 0, made
    assert "only PYTHONPATH=" in made.out


def test_a_program_that_is_gone_or_installed_has_no_test(shop: Project) -> None:
    """The error says what to do instead."""
    shop.run("stepfork", "run", "--", "python", "my_agent.py", "A-17")
    (shop.root / "my_agent.py").rename(shop.root / "other.py")
    shown = shop.stepfork("make-test")
    assert shown.code == 3
    assert "there is no my_agent.py" in shown.err
    assert "--per-step" in shown.err


PROGRAM = """
    import atexit
    import os
    import signal
    import sys
    import threading
    import time

    SEEN = []


    class Order:
        pass


    def work(then=None):
        time.sleep(0.05)
        SEEN.append("thread")
        if then is not None:
            threading.Thread(target=then).start()


    def main():
        signal.signal(signal.SIGTERM, lambda *_: None)
        os.chdir("/")
        os.environ["SET_BY_PROGRAM"] = os.environ.pop("SET_BY_TEST", "")
        sys.excepthook = print
        sys.path.append("/nowhere")
        atexit.register(SEEN.append, "exit")
        atexit.register(SEEN.append, "first")
        threading.Thread(target=work, args=(work,)).start()
        SEEN.append(sys.argv[1:])
        if sys.argv[1:]:
            sys.exit(sys.argv[1])
        sys.exit()


    if __name__ == "__main__":
        sys.modules["__main__"].told = SEEN
        sys.modules["seen_by_test"] = sys.modules["__main__"]
        main()
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the program above, as the working directory; nothing is recorded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "seen_by_test", raising=False)
    return Project(tmp_path, MINIMAL | {"p.py": PROGRAM, "pkg/__init__.py": "", "pkg/p.py": PROGRAM})


def _program(root: Path, **words: str) -> Any:
    """Make a program as a file of that project would."""
    scope: dict[str, Any] = {"stepfork": stepfork}
    exec(
        compile(
            "def make(**words):\n    return stepfork.program(**words)\n", str(root / "test_it.py"), "exec"
        ),
        scope,
    )
    return scope["make"](**words)


@pytest.mark.parametrize("words", [{"script": "p.py"}, {"module": "pkg.p"}])
def test_what_a_program_changes_is_put_back(
    scratch: Project, words: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``__main__``, arguments, path, folder, environment, hooks and handlers are the caller's again."""
    monkeypatch.setenv("SET_BY_TEST", "yes")
    environment = dict(os.environ)
    before = (sys.modules["__main__"], sys.argv, sys.path[:], sys.excepthook, Path.cwd(), atexit.register)
    handler, threads = signal.getsignal(signal.SIGTERM), threading.enumerate()
    program = _program(scratch.root, **words)
    assert program() is None
    after = (sys.modules["__main__"], sys.argv, sys.path[:], sys.excepthook, Path.cwd(), atexit.register)
    assert after == before
    assert dict(os.environ) == environment
    assert (signal.getsignal(signal.SIGTERM), threading.enumerate()) == (handler, threads)
    assert sys.modules["seen_by_test"].told == [[], "thread", "thread", "first", "exit"]


POOLS = """
    import threading
    import time
    from concurrent.futures import ThreadPoolExecutor

    import agent_pools


    def work(depth):
        time.sleep(0.02)
        agent_pools.SEEN.append(depth)
        if depth:
            pool = agent_pools.POOL if depth % 2 else ThreadPoolExecutor(2)
            threading.Thread(target=lambda: [pool.submit(work, depth - 1) for _ in range(2)]).start()


    agent_pools.POOL.submit(work, 3)
"""


def test_the_work_of_pools_of_threads_is_waited_for(
    scratch: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a process ends: of pools that the program makes, and of one that was there before."""
    pools: Any = ModuleType("agent_pools")
    pools.SEEN, pools.POOL = [], ThreadPoolExecutor(2)
    monkeypatch.setitem(sys.modules, "agent_pools", pools)
    scratch.write({"pools.py": POOLS})
    program = _program(scratch.root, script="pools.py")
    with pools.POOL:
        for _ in range(2):
            pools.SEEN.clear()
            program()
            assert sorted(pools.SEEN) == [0] * 8 + [1] * 4 + [2] * 2 + [3]


def test_an_exit_that_fails_comes_out(scratch: Project) -> None:
    """A call with the same program again begins anew."""
    program = _program(scratch.root, script="p.py")
    for code in ("2", "3"):
        with pytest.raises(SystemExit, match=code):
            program([code])
        assert sys.modules["seen_by_test"].told[0] == [code]


@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        ({}, errors.OptionError, "a script or a module"),
        ({"script": "p.py", "module": "pkg.p"}, errors.OptionError, "a script or a module"),
        ({"script": "gone.py"}, errors.EntryNotFound, "there is no program gone.py"),
        ({"module": "gone.cli"}, errors.EntryNotFound, "No module named 'gone'"),
    ],
)
def test_a_program_that_cannot_be_is_an_error_at_once(
    scratch: Project, words: dict[str, str], kind: type[Exception], says: str
) -> None:
    """Before anything of it is imported."""
    with pytest.raises(kind, match=says):
        _program(scratch.root, **words)


def test_a_program_called_by_hand_opens_a_run(project: Project) -> None:
    """Outside of a replay a call of it is a step, and so the root of a run."""
    project.write(
        {
            "my_agent.py": "import sys\nprint(sys.argv[1:])\n",
            "by_hand.py": 'import stepfork\n\nstepfork.program("my_agent.py")(["a"])\n',
        }
    )
    shown = project.run("python", "by_hand.py")
    assert (shown.code, shown.out) == (0, "['a']\n"), shown
    (run,) = project.stepfork("runs", "--json").json["runs"]
    assert (run["name"], run["failure"]) == ("my_agent", None)


NAMED = """
    import os
    import sys
    from os.path import *

    pay = None


    def pay(order_id):
        assert not os.environ.get("NEVER"), "the tool runs"
        return f"paid {order_id}"


    class Desk:
        @classmethod
        def ask(cls, order_id):
            assert not os.environ.get("NEVER"), "the tool runs"
            return f"asked {order_id}"


    gone, kept = 1, pay("first")
    del gone
    count: int = 1
    names = set(dir()) == set(globals()) == set(locals()) == set(vars(sys.modules["__main__"]))
    exec("pay_back = pay")
    raise KeyError(f"{kept} {Desk.ask('second')} {pay_back('third')} {names} {'gone' in globals()}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [("my_agent.py",), ("-m", "my_agent")])
def test_tools_of_the_program_itself_are_tools_from_their_definition_on(
    project: Project, command: tuple[str, ...]
) -> None:
    """Its own lines may call them before any model is asked, when it is recorded and when it is replayed."""
    project.write({"my_agent.py": NAMED})
    tools = ("--tool", "my_agent:p*", "--tool", "my_agent:Desk.ask")
    seen = project.stepfork("run", *tools, "--", "python", *command)
    error = "KeyError: 'paid first asked second paid third True False'"
    assert error in seen.err, seen
    made = project.stepfork("make-test", "--json", env={"NEVER": "1"})
    assert (made.code, made.json["reason"]) == (0, error), made
    (recording,) = project.files("tests/recordings")
    calls = [each.name for each in read_run(project.root / recording).walk() if each.kind == "tool"]
    assert calls == ["pay", "Desk.ask", "pay"]


def test_modules_that_another_thread_imports_are_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an object is looked for, a collection of garbage lets others run, who import something."""
    many = {f"many_of_test_{number}": ModuleType("many") for number in range(3000)}
    monkeypatch.setattr(sys, "modules", {**sys.modules, **many})

    def load(phase: str, _info: object) -> None:
        sys.modules[f"many_of_test_{len(sys.modules)}"] = ModuleType("many")

    gc.callbacks.append(load)
    try:
        found = [entry_of_bound(object(), "invoke") for _ in range(20)]
    finally:
        gc.callbacks.remove(load)
    assert set(found) == {None}


def test_an_object_is_found_by_its_name_in_a_module(
    scratch: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module that made it counts, not one that imports it; nothing of the object is asked."""
    scratch.write(
        {
            "api_of_test.py": "from graph_of_test import graph\n",
            "graph_of_test.py": (
                "class Graph:\n    def __getattribute__(self, name):\n        raise AssertionError(name)\n\n"
                "    __eq__ = __getattribute__\n\n\ngraph = Graph()\nhidden = [Graph()]\n"
            ),
        }
    )
    monkeypatch.syspath_prepend(scratch.root)
    import api_of_test  # type: ignore[import-not-found]

    found = [entry_of_bound(api_of_test.graph, "ainvoke") for _ in range(2)]
    assert found == [Entry("graph_of_test", "graph.ainvoke", "graph_of_test.py")] * 2
    hidden = entry_of_bound(sys.modules["graph_of_test"].hidden[0], "invoke")
    assert hidden is None
