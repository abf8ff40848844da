"""``stepfork make-test``: what it writes, what it proves, and what it leaves when it cannot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from project import MINIMAL, Project, Result, clean_environment
from road import STRANGER

CRASHES = """
    import dataclasses

    import stepfork


    @dataclasses.dataclass
    class Order:
        id: str
        note: str = "__main__:Order"


    class Declined(Exception):
        def __init__(self, order, code):
            super().__init__(f"{order.id} declined with {code}")
            self.order = order


    @stepfork.tool
    def look_up(order):
        return {"total": 120}


    @stepfork.step
    def handle(order):
        look_up(order)
        raise Declined(order, 42)


    if __name__ == "__main__":
        handle(Order("A-17"))
"""


def make(project: Project, *options: str, code: int = 0) -> Any:
    """Return what the command answers; it must end with this code."""
    result = project.stepfork("make-test", "--json", *options, env=STRANGER)
    assert result.code == code, result
    return result.json if code == 0 else result.json["error"]


def run_pytest(project: Project, *options: str, env: dict[str, str | None] | None = None) -> Result:
    """Run a bare pytest: nothing but the project itself puts the agent on the path."""
    return project.run(
        "python", "-P", "-m", "pytest", "-q", *options, env={**STRANGER, "PYTHONPATH": None, **(env or {})}
    )


def agent(project: Project, source: str, *command: str, name: str = "agent.py") -> Result:
    """Write an agent and run it."""
    project.write({name: source})
    return project.run("python", *(command or (name,)), env={**STRANGER, "PYTHONPATH": None})


def test_a_script_becomes_a_test_that_a_bare_pytest_can_run(project: Project) -> None:
    """What was ``__main__`` is a module in the test, with its classes; git is seen to (F17)."""
    project.run("git", "init", "-q")
    project.write({".gitignore": "*.jsonl\n", ".gitattributes": "*.png binary"})
    assert "A-17 declined with 42" in agent(project, CRASHES).err
    result = project.stepfork("make-test", env={**STRANGER, "PYTHONPATH": None})
    assert result.code == 0, result
    for text in (
        "wrote  tests/recordings/handle_declined.jsonl",
        "wrote  tests/test_handle_declined.py",
        "wrote  tests/conftest.py",
        "wrote  snapshots/tests/test_handle_declined/test_handle_declined.yaml",
        "red    Declined: A-17 declined with 42",
        "tests/conftest.py now puts the project folder on sys.path",
        "git ignores what has to be committed: tests/recordings/handle_declined.jsonl",
        "pytest --snapshot-update",
    ):
        assert text in result.out, result
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert project.read("tests/test_handle_declined.py") == (
        f'"""handle raised Declined: A-17 declined with 42 in handle#1. Recorded {today}."""\n\n'
        "from agent import handle\n\n\n"
        "def test_handle_declined(replay, snapshot):\n"
        '    run = replay("handle_declined", handle)\n\n'
        "    assert run == snapshot\n"
    )
    assert project.read(".gitattributes") == "*.png binary\ntests/recordings/** linguist-generated -text\n"
    assert '"__main__:Order"' in project.read("tests/recordings/handle_declined.jsonl")
    assert not list((project.root / "tests").rglob("__pycache__"))
    red = run_pytest(project)
    assert (red.code, "StillFailing" in red.out) == (1, True), red


@pytest.mark.slow
def test_a_test_is_added_to_a_file_and_marked_as_expected_to_fail(project: Project) -> None:
    """The file keeps what it had; the mark passes while the bug is there, and fails once it is fixed."""
    agent(project, CRASHES)
    project.write({"checks/test_mine.py": '"""Mine."""\n\n\ndef test_mine():\n    assert True\n'})
    made = make(project, "--into", "checks/test_mine.py", "--xfail", "--name", "declined")
    assert (made["test"], made["recording"]) == ("checks/test_mine.py", "checks/recordings/declined.jsonl")
    source = project.read("checks/test_mine.py")
    assert source.startswith('"""Mine."""\n\nimport pytest\nimport stepfork\nfrom agent import handle\n')
    marked = project.pytest("-q", env=STRANGER)
    assert (marked.code, "1 passed, 1 xfailed" in marked.out) == (0, True), marked
    project.replace("agent.py", "raise Declined(order, 42)", "return 42")
    before = project.files()
    fixed = project.pytest("-q", "--snapshot-update", env=STRANGER)
    assert (fixed.code, "1 failed, 1 passed" in fixed.out) == (1, True), fixed
    assert project.files() == before


def test_what_does_not_fit_is_refused_before_anything_is_written(project: Project) -> None:
    """Usage errors end with 2, and each says what to give instead."""
    agent(project, CRASHES)
    project.write({"tests/test_taken.py": "", "notes.txt": ""})
    before = project.files()
    for options, says in (
        (["--never", "look_up"], "it takes no criterion"),
        (["--name", "a-b"], "letters, digits and underscores"),
        (["--name", "x" * 65], "cannot be the name of a recording"),
        (["--name", "taken"], "exists already"),
        (["--into", "../test_x.py"], "no Python file of the project"),
        (["--into", "notes.txt"], "no Python file of the project"),
        (["--times", "look_up"], "TOOL=N"),
    ):
        error = make(project, *options, code=2)
        assert says in " ".join([error["what"], *error["ways_on"]]), error
    assert project.files() == before


@pytest.mark.slow
def test_a_run_that_was_killed_becomes_a_test_elsewhere(project: Project, tmp_path: Path) -> None:
    """SIGKILL in a tool: listed, shown, exported as one file, and made into a test in another checkout."""
    source = """
        import os
        import signal

        import stepfork


        @stepfork.tool
        def read(path):
            return "word " * 30000


        @stepfork.tool
        def charge(amount):
            os.kill(os.getpid(), signal.SIGKILL)


        @stepfork.step
        def handle(path):
            return charge(len(read(path)))


        if __name__ == "__main__":
            handle("big.txt")
    """
    assert agent(project, source, "-m", "shop.agent", name="shop/agent.py").code == -9
    listed = project.stepfork("runs").out
    assert "killed" in listed
    run = listed.split("handle")[0].split()[-1]
    assert "charge" in project.stepfork("show", run).out
    archive = tmp_path / "run.stepfork"
    assert project.stepfork("export", run, "--output", str(archive)).code == 0
    elsewhere = Project(tmp_path / "elsewhere", {**MINIMAL, "shop/agent.py": source})
    made = make(elsewhere, str(archive), "--name", "killed")
    assert made["stopped"] == ["handle#1/charge#1"]
    assert any("killed.blobs/" in file for file in made["files"])
    green = project_green(elsewhere)
    assert "guard" in green.out, green


def project_green(project: Project) -> Result:
    """Check that the tests of the project pass."""
    result = project.pytest("-q", env=STRANGER)
    assert result.code == 0, result
    return result


STREAMS = """
    import asyncio

    import stepfork


    @stepfork.model
    async def talk(prompt):
        for word in ("one", "two"):
            yield word


    class Agent:
        @stepfork.step
        async def chat(self, prompt):
            async for word in talk(prompt):
                yield word.upper()


    agent = Agent()


    async def main():
        return [word async for word in agent.chat("count")]


    if __name__ == "__main__":
        print(asyncio.run(main()))
"""


@pytest.mark.slow
def test_a_run_that_passed_becomes_a_green_test(project: Project) -> None:
    """Also one whose root streams, is a method and stands in a src layout."""
    assert agent(project, STREAMS, name="src/lib/agent.py").out == "['ONE', 'TWO']\n"
    run = project.stepfork("runs").out.split("chat")[0].split()[-2:]
    made = make(project, next(word for word in reversed(run) if word.isalnum() and len(word) > 5))
    assert made["verdict"] == "as accepted"
    source = project.read(made["test"])
    assert "from lib.agent import agent\n" in source
    assert ", agent.chat)" in source
    assert run_pytest(project).code == 0
    project.replace("src/lib/agent.py", "word.upper()", "word.title()")
    red = run_pytest(project)
    assert (red.code, "One" in red.out) == (1, True), red


IGNORES = """
    import stepfork


    @stepfork.tool(ignore=("session",))
    def look_up(session, key):
        return session[key]


    @stepfork.step(ignore=("session",))
    def handle(session, key):
        return look_up(session, key)["amount"]


    if __name__ == "__main__":
        handle({"A-17": {"total": 1}}, "A-17")
"""


@pytest.mark.slow
def test_what_was_not_recorded_is_handed_in_as_none_where_that_will_do(project: Project) -> None:
    """An argument that only tools use needs no value; one that the agent's code uses needs another way in."""
    agent(project, IGNORES)
    made = make(project)
    assert any("session was not recorded" in note for note in made["notes"])
    assert "handle, session=None)" in project.read(made["test"])
    other = Project(project.root.parent / "other")
    agent(other, IGNORES.replace("return look_up", "len(session)\n        return look_up"))
    before = other.files()
    error = make(other, code=3)
    assert other.files() == before
    assert any("session of handle was not recorded" in text for _, text in error["detail"]), error
    assert any("--entry MODULE:CALLABLE" in text for _, text in error["detail"]), error


@pytest.mark.slow
def test_what_lives_on_between_two_runs_in_one_process_is_found(project: Project) -> None:
    """A counter in a module makes the second replay another one than the first."""
    source = """
        import stepfork

        seen = []


        @stepfork.step
        def handle(key):
            seen.append(key)
            count(len(seen))
            raise ValueError(key)


        @stepfork.step
        def count(number):
            return number


        if __name__ == "__main__":
            handle("A-17")
    """
    agent(project, source)
    before = project.files()
    error = make(project, code=3)
    assert error["what"] == "two replays in one process differ", error
    assert any("count#1" in text for _, text in error["detail"]), error
    assert project.files() == before


@pytest.mark.slow
def test_the_projects_own_pytest_options_do_not_disturb_the_proof(project: Project) -> None:
    """Workers, repetitions and strict settings are the project's own, and stay so."""
    project.write(
        {
            "pyproject.toml": """
                [project]
                name = "shop"
                version = "0"

                [tool.pytest.ini_options]
                addopts = "-n auto --reruns 2 --ff --strict-markers --import-mode=importlib -x"
                asyncio_mode = "auto"
                asyncio_default_fixture_loop_scope = "function"
                filterwarnings = ["error"]
                pythonpath = ["."]
            """
        }
    )
    agent(project, CRASHES)
    result = project.stepfork("make-test", "--json")
    assert result.code == 0, result
    assert result.json["verdict"] == "still failing"
    assert "conftest.py" not in result.json["files"]
    left = {path for path in project.files() if not path.startswith((".stepfork", "tests", "snapshots"))}
    assert left == {"pyproject.toml", "agent.py"}


@pytest.mark.slow
def test_an_interrupt_leaves_every_file_as_it_was(project: Project) -> None:
    """Ctrl-C in the middle of the proof takes back what was written."""
    agent(project, CRASHES)
    project.write(
        {"tests/conftest.py": "import time\n\n\ndef pytest_configure(config):\n    time.sleep(60)\n"}
    )
    project.write({"tests/test_mine.py": "def test_mine(): ...\n"})
    before = project.files()
    process = subprocess.Popen(
        [sys.executable, "-m", "stepfork", "make-test", "--into", "tests/test_mine.py"],
        cwd=project.root,
        env=clean_environment(project.root) | STRANGER,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    deadline = time.monotonic() + 60
    while "recordings" not in str(list((project.root / "tests").iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    assert project.files() != before
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert project.files() == before
    assert not (project.root / "tests" / "recordings").exists()
