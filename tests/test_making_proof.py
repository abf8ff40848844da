"""What the proof of ``make-test`` takes for the same run, and what it says where it is another."""

from __future__ import annotations

from pathlib import Path

import pytest

from project import MINIMAL, Project
from road import STRANGER

VARIES = """
    import random
    import sys

    import stepfork
    from stepfork.tolerance import approx


    @stepfork.tool
    def read(key):
        return {"amount": 100}


    @stepfork.step(tolerance={"score": approx(rel=0.1)})
    def rate(amount):
        return {"score": amount * random.uniform(0.99, 1.01)}


    @stepfork.step
    def handle(key):
        rated = rate(read(key)["amount"])
        if key == "fail":
            raise LookupError(key)
        return {"price": rated["score"] + 1}


    if __name__ == "__main__":
        handle(sys.argv[1])
"""
SETTINGS = MINIMAL["pyproject.toml"] + '\n[tool.stepfork.tolerance]\nprice = "{rule}"\n'
BARE: dict[str, str | None] = {**STRANGER, "PYTHONPATH": None}


def record(project: Project, *arguments: str) -> str:
    """Run the agent and return the id of its run."""
    project.run("python", "agent.py", *arguments, env=BARE)
    return str(project.stepfork("runs", "--json", env=BARE).json["runs"][0]["id"])


@pytest.mark.slow
def test_values_that_vary_within_their_tolerance_are_the_same_run(tmp_path: Path) -> None:
    """With rules of the decorator and of the settings; one that cannot be read is told as it is (B66)."""
    project = Project(
        tmp_path / "p", {"pyproject.toml": SETTINGS.replace("{rule}", "approx(rel=0.1"), "agent.py": VARIES}
    )
    run = record(project, "well")
    refused = project.stepfork("make-test", run, env=BARE)
    assert refused.code == 2, refused
    assert refused.err.startswith("SF102 tolerance"), refused
    project.write({"pyproject.toml": SETTINGS.replace("{rule}", "approx(rel=0.1)")})
    made = project.stepfork("make-test", run, env=BARE)
    assert (made.code, "green" in made.out) == (0, True), made


@pytest.mark.slow
def test_a_test_runs_wherever_pytest_is_started_and_is_found_after_git_init(tmp_path: Path) -> None:
    """In a folder that nothing marks as a project, with a PYTHONPATH that the proof must not lean on."""
    project = Project(tmp_path / "p", {"agent.py": VARIES})
    record(project, "fail")
    made = project.stepfork("make-test", env={**STRANGER, "PYTHONPATH": str(project.root)})
    assert made.code == 0, made
    snapshot = "snapshots/tests/test_handle_lookup_error/test_handle_lookup_error.yaml"
    assert f"wrote  {snapshot}" in made.out, made
    project.replace("agent.py", "raise LookupError(key)", "pass")
    project.run("git", "init", "-q")
    update = project.run("python", "-P", "-m", "pytest", "-q", "--snapshot-update", cwd="tests", env=BARE)
    assert (update.code, "1 passed" in update.out) == (0, True), update
    assert "state: accepted" in project.read(snapshot)
    assert [name for name in project.files() if name.endswith(".yaml")] == [snapshot]


@pytest.mark.slow
def test_an_agent_that_was_mended_before_the_test_was_made_is_the_first_guess(project: Project) -> None:
    """The replay ends well: the failure is gone because the code is another one."""
    project.write({"agent.py": VARIES})
    record(project, "fail")
    project.replace("agent.py", "raise LookupError(key)", "pass")
    before = project.files()
    error = project.stepfork("make-test", "--json", env=BARE).json["error"]
    likely = next(text for label, text in error["detail"] if label == "likely")
    assert "the agent may have been changed since the run (recorded " in likely, error
    assert project.files() == before


CUT_OFF = """
    import os
    import signal
    import sys

    import stepfork


    @stepfork.tool
    def charge(amount):
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyboardInterrupt


    @stepfork.step
    def handle(amount):
        return charge(amount)


    @stepfork.step
    def wait(amount):
        if "step" in sys.argv:
            raise KeyboardInterrupt


    if __name__ == "__main__":
        (wait if "step" in sys.argv else handle)(3)
"""


@pytest.mark.slow
def test_a_run_that_was_cut_off_and_marked_becomes_a_red_test(project: Project) -> None:
    """Killed or interrupted in a tool it can be proved; in the agent's own code the message says how."""
    project.write({"agent.py": CUT_OFF})
    for how, says in (("kill", "it stops again at handle#1/charge#1"), ("interrupt", "the same result")):
        run = record(project, how)
        green = project.stepfork("make-test", run, env=BARE)
        assert (green.code, "up to handle#1/charge#1" in green.out) == (0, True), green
        assert project.stepfork("fail", run, "--reason", "wrong").code == 0
        red = project.stepfork("make-test", run, env=BARE)
        assert (red.code, says in red.out) == (0, True), red
    run = record(project, "step")
    project.stepfork("fail", run, "--reason", "wrong")
    refused = project.stepfork("make-test", run, env=BARE)
    assert (refused.code, "interrupted in the agent's own code, in wait#1" in refused.err) == (3, True), (
        refused
    )


NEEDS_REGION = """
    import os

    import stepfork


    @stepfork.tool
    def read(order):
        return {"total": 100}


    @stepfork.step
    def handle(order):
        region = os.environ["SHOP_REGION"]
        return read(order)["amount"] if region else None


    if __name__ == "__main__":
        handle("A-17")
"""


@pytest.mark.slow
def test_an_error_of_the_same_kind_before_the_recorded_calls_is_another_failure(project: Project) -> None:
    """A KeyError for a variable that is missing is not the recorded KeyError: no test is made of it."""
    project.write({"agent.py": NEEDS_REGION})
    project.run("python", "agent.py", env={**BARE, "SHOP_REGION": "eu"})
    before = project.files()
    refused = project.stepfork("make-test", env=STRANGER)
    assert refused.code == 3, refused
    assert "the recorded failure did not come back" in refused.err, refused
    assert "handle#1/read#1   <- first divergence" in refused.err, refused
    assert "set SHOP_REGION, which is not set here, to what it was when the run" in refused.err, refused
    assert project.files("tests") == {
        name: text for name, text in before.items() if name.startswith("tests/")
    }
    made = project.stepfork("make-test", env={**STRANGER, "SHOP_REGION": "us"})
    assert (made.code, "red    KeyError: 'amount'" in made.out) == (0, True), made


@pytest.mark.slow
def test_a_variable_that_an_import_wants_is_named(project: Project) -> None:
    """Where the test is made, and where it runs: the replay can know nothing of what it held."""
    source = NEEDS_REGION.replace(
        "import stepfork\n", 'import stepfork\n\n    REGION = os.environ["SHOP_REGION"]\n', 1
    )
    project.write({"agent.py": source})
    env = {**STRANGER, "SHOP_REGION": "eu"}
    project.run("python", "agent.py", env=env)
    says = "set SHOP_REGION, which is not set here, to what it was when the run was recorded"
    refused = project.stepfork("make-test", env=STRANGER)
    assert (refused.code, says in refused.err) == (3, True), refused
    assert project.stepfork("make-test", env=env).code == 0
    seen = project.pytest("-q", env=STRANGER)
    assert (seen.code, says in seen.out) == (2, True), seen


ROUNDS_A_TIME = """
    import os
    import time

    import stepfork


    @stepfork.tool
    def read(order):
        return {"id": order, "seen": time.time()}


    @stepfork.tool
    def note(second):
        return "noted"


    @stepfork.step
    def handle(order):
        key = os.environ["SHOP_API_KEY"]
        note(int(read(order)["seen"]))
        return {"key": key}["amount"]


    if __name__ == "__main__":
        handle("A-17")
"""


@pytest.mark.slow
def test_a_key_is_there_in_replays_that_are_never_quite_the_run(project: Project) -> None:
    """The second that is made of a recorded time looks like the clock's in the run, and not in a replay."""
    project.write({"agent.py": ROUNDS_A_TIME})
    project.run("python", "agent.py", env={**STRANGER, "SHOP_API_KEY": "kS83-hd72-Qm41-zz09"})
    made = project.stepfork("make-test", "--name", "noted", env=STRANGER)
    assert made.code == 0, made
    seen = project.pytest("-q", env=STRANGER)
    assert (seen.code, "StillFailing: the recorded failure shows again: KeyError: 'amount'" in seen.out) == (
        1,
        True,
    ), seen
