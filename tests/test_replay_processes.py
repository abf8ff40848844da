"""Processes that a replayed agent starts run no tool, and the replay hears of it."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import stepfork
from project import Project
from replays import record, rerun
from stepfork.errors import UnrecordedCall


@stepfork.tool
def look(key: int) -> str:
    """Answer a call."""
    return str(key)


def suppressed(key: int) -> None:
    """Call it and ignore whatever comes of it."""
    with suppress(BaseException):
        look(key)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the recording is."""
    return tmp_path / "run.jsonl"


_POOL = """
    import multiprocessing, sys
    from concurrent.futures import ProcessPoolExecutor
    from contextlib import suppress
    import stepfork

    @stepfork.tool
    def refund(order):
        open("ran.txt", "a").write(order)
        return order

    def ignored(order):
        with suppress(BaseException):
            refund(order)

    def agent(kind):
        if kind == "subprocess":
            import subprocess
            code = "import agent; agent.refund('A')"
            subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        else:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(kind)) as pool:
                pool.submit(ignored, "A").result()
        return "fallback"

    if __name__ == "__main__":
        with stepfork.run("test", path="run.jsonl"):
            pass
        for kind in ("subprocess", "spawn", "fork"):
            try:
                stepfork.replay("run.jsonl", agent, kind=kind)
            except stepfork.StepforkError as error:
                print(kind, type(error).__name__, error.address)
        import os
        ran = [name for name in os.listdir(".") if "ran" in name]
        print(ran, [name for name in os.environ if "REPLAYING" in name])
"""


def test_processes_that_the_agent_starts_run_no_tool(project: Project) -> None:
    """Subprocess, spawned and forked pools: refused there, and the replay hears of what was ignored."""
    project.write({"agent.py": _POOL})
    result = project.run("python", "-BW", "ignore", "agent.py", env={"STEPFORK_DIR": "kept"})
    *lines, last = result.out.splitlines()
    assert lines == [f"{kind} UnrecordedCall refund" for kind in ("subprocess", "spawn", "fork")], result
    assert last == "[] []"


def test_a_process_pool_of_the_agent_is_no_obstacle_where_it_calls_no_tool(path: Path) -> None:
    """Only calls are refused; computing elsewhere goes on as ever."""
    context = multiprocessing.get_context("fork")

    def agent() -> list[int]:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return list(pool.map(abs, [-1, -2]))

    assert rerun(path, agent).result == [1, 2]


def test_an_answer_that_cannot_come_from_another_process_is_named(path: Path) -> None:
    """The error names the tool, says why, and the way on."""
    context = multiprocessing.get_context("fork")

    def agent() -> None:
        process = context.Process(target=suppressed, args=(1,))
        process.start()
        process.join()

    record(path, lambda: look(1))
    with pytest.raises(UnrecordedCall, match="look was called in another process"):
        stepfork.replay(path, agent)
