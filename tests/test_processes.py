"""What a run gives to another process is a run of its own that names its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from project import Project
from stepfork._calls import Run
from stepfork._recording import read_run

AGENT = """
    import multiprocessing, os, subprocess, sys, threading
    from concurrent.futures import ProcessPoolExecutor
    import stepfork

    @stepfork.tool
    def look(order):
        return [order, os.getpid()]

    @stepfork.step
    def part(order):
        return look(order)

    def plain(order):
        return abs(order)

    def both(order):
        look(order)
        plain(order)

    def broken(order):
        look(order)
        raise KeyError(order)

    def elsewhere(kind, function):
        context = multiprocessing.get_context("spawn" if "spawn" in kind else "fork")
        if kind == "os.fork":
            child = os.fork()
            if child == 0:
                function(1)
                sys.exit()
            os.waitpid(child, 0)
        elif kind.startswith("subprocess"):
            code = f"import agent; agent.{function.__name__}(1)"
            env = os.environ if "environ" in kind else None
            subprocess.run([sys.executable, "-c", code], check=True, env=env)
        elif kind.startswith("Process"):
            process = context.Process(target=function, args=(1,))
            process.start()
            process.join()
        elif kind.startswith("Pool"):
            with context.Pool(1) as pool:
                pool.map(function, [1])
        else:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                list(pool.map(function, [1]))

    @stepfork.step
    def handle(kind, name):
        look(0)
        elsewhere(kind, globals()[name])

    if __name__ == "__main__":
        import agent
        for name in sys.argv[2:]:
            agent.handle(sys.argv[1], name)
"""

KINDS = [
    "os.fork",
    "subprocess",
    "subprocess environ",
    "Process fork",
    "Process spawn",
    "Pool fork",
    "executor fork",
]
QUICK = {"os.fork", "subprocess environ", "Pool fork"}


@pytest.fixture
def agent(project: Project) -> Project:
    """A project whose agent sends work elsewhere."""
    project.write({"agent.py": AGENT})
    return project


def runs(project: Project, kind: str, *functions: str) -> list[Run]:
    """Run the agent once for each function; return what was recorded."""
    result = project.run("python", "-W", "ignore", "agent.py", kind, *functions)
    assert result.code == 0, result
    return [read_run(path) for path in Path(project.root, ".stepfork", "runs").glob("*.jsonl")]


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_what_is_called_in_another_process_is_a_run_that_names_its_parent(agent: Project, kind: str) -> None:
    """Forked or spawned, in a pool or a program; a tool outside of any step is not lost (B17)."""
    found = {run.id: run for run in runs(agent, kind, "part", "both")}
    children = {run.name: run for run in found.values() if run.parent is not None}
    of_tool = {"os.fork": "agent", "subprocess": "python"}.get(kind.removesuffix(" environ"), "both")

    assert sorted(children) == sorted(["part", of_tool])
    assert len(found) == 4
    assert [call.label for call in children["part"].walk()] == ["part#1", "look#1"]
    assert [call.label for call in children[of_tool].root.children] == ["look#1"]
    for name, function in (("part", "part"), (of_tool, "both")):
        parent = found[children[name].parent or ""]
        assert parent.root.input == {"kind": kind, "name": function}
        assert [call.label for call in parent.walk()] == ["handle#1", "look#1"]
        assert (children[name].ended, children[name].failure) == (True, None)


def test_work_that_fails_in_another_process_is_a_failed_run(agent: Project) -> None:
    """As it would be in this one."""
    failures = {run.name: run.failure for run in runs(agent, "Process fork", "broken")}

    assert failures["broken"] is not None
    assert failures["broken"].type == "builtins:KeyError"
    assert failures["handle"] is None


@pytest.mark.parametrize("kind", ["Process fork", "subprocess"])
def test_work_that_calls_nothing_leaves_no_run(agent: Project, kind: str) -> None:
    """A process is no run of its own until something is called in it."""
    assert [run.name for run in runs(agent, kind, "plain")] == ["handle"]


def test_a_pool_serves_many_runs_and_each_is_the_parent_of_its_own_work(agent: Project) -> None:
    """A worker that one run started belongs to none of them (B01)."""
    agent.write(
        {
            "many.py": """
                import agent, multiprocessing, sys
                from concurrent.futures import ProcessPoolExecutor
                import stepfork

                if __name__ == "__main__":
                    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
                        with stepfork.run("first"):
                            pool.submit(agent.both, 1).result()
                        with stepfork.run("second"):
                            pool.submit(agent.both, 2).result()
                        pool.submit(agent.both, 3).result()
            """
        }
    )
    result = agent.run("python", "-W", "ignore", "many.py")
    assert result.code == 0, result
    found = [read_run(path) for path in Path(agent.root, ".stepfork", "runs").glob("*.jsonl")]
    assert sorted(run.name for run in found) == ["both", "both", "first", "second"]
    by_name = {run.name: run.id for run in found}
    parents = {run.root.children[0].input["order"]: run.parent for run in found if run.name == "both"}

    assert parents == {1: by_name["first"], 2: by_name["second"]}
