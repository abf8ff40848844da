from __future__ import annotations

from pathlib import Path

import pytest

from project import MINIMAL, Project
from stepfork import _retention
from stepfork._recording import read_run

AGENT = """
    import stepfork

    @stepfork.step
    def handle(order):
        return order["amount"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an agent that some orders break."""
    return Project(tmp_path / "project", {**MINIMAL, "agent.py": AGENT})


def kept(project: Project) -> dict[str, object]:
    """Return the ids of the runs that are left, with the order that each was given."""
    found = {}
    for path in (project.root / ".stepfork" / "runs").glob("*.jsonl"):
        run = read_run(path)
        found[run.id] = run.root.input.get("order", run.name)
    return found


MIXED = """
    import agent, pytest

    def test_passes():
        assert agent.handle({"amount": 1}) == 1

    def test_raises():
        agent.handle({"id": "raises"})

    def test_the_answer_is_wrong():
        agent.handle({"amount": "another"})
        assert agent.handle({"amount": "wrong"}) == "right"

    def test_a_failure_is_expected():
        with pytest.raises(KeyError):
            agent.handle({"id": "expected"})

    @pytest.mark.parametrize("amount", [1, 2, 3])
    def test_one_of_several(amount):
        assert agent.handle({"amount": amount}) != 2

    @pytest.fixture
    def order():
        yield {"amount": "in a fixture"}
        agent.handle({"id": "torn down"})

    def test_its_fixture_fails(order):
        agent.handle(order)

    @pytest.mark.xfail
    def test_known_to_fail():
        agent.handle({"id": "known"})

    def test_skipped():
        agent.handle({"amount": "skipped"})
        pytest.skip("not here")
"""

KEPT = [
    {"amount": "another"},
    {"amount": "in a fixture"},
    {"amount": "wrong"},
    {"amount": 2},
    {"id": "raises"},
    {"id": "torn down"},
]


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_the_runs_of_failing_tests_are_kept_and_no_other(project: Project, workers: str) -> None:
    """Those that passed in them too, and those of their fixtures; under xdist as without."""
    project.write({"test_it.py": MIXED})
    done = project.pytest("--stepfork-save-failed", "-n", workers)
    assert done.code == 1, done
    assert sorted(kept(project).values(), key=str) == KEPT
    for run_id in kept(project):
        assert f"stepfork make-test {run_id}" in done.out
    assert done.out.count("runs kept by --stepfork-save-failed") == 4


def test_without_the_option_nothing_is_recorded(project: Project) -> None:
    """Tests fail all day, and that is no news."""
    project.write({"test_it.py": MIXED})
    project.pytest("-n", "0")
    assert not (project.root / ".stepfork").exists()


@pytest.mark.slow
def test_a_run_that_spans_no_test_is_kept(project: Project) -> None:
    """What began before a test, or ended after it, is not its."""
    project.write(
        {
            "test_it.py": """
                import agent, pytest, stepfork

                agent.handle({"amount": "at import"})
                spanning = stepfork.run("spanning")

                def test_begins():
                    spanning.__enter__()

                def test_ends():
                    spanning.__exit__(None, None, None)
            """
        }
    )
    done = project.pytest("--stepfork-save-failed")
    assert done.code == 0, done
    assert sorted(map(str, kept(project).values())) == ["spanning", "{'amount': 'at import'}"]


@pytest.mark.slow
def test_the_runs_of_one_failing_test_are_thinned_out_apart_from_others(project: Project) -> None:
    """Each test is a failure of its own: the first run in it and the newest five."""
    project.write(
        {
            "test_it.py": """
                import agent, pytest

                @pytest.mark.parametrize("name", ["a", "b"])
                def test_it(name):
                    for number in range(9):
                        agent.handle({"amount": f"{name}{number}"})
                    assert False
            """
        }
    )
    project.pytest("--stepfork-save-failed")
    amounts = sorted(order["amount"] for order in kept(project).values())  # type: ignore[index]
    assert amounts == [f"{name}{number}" for name in "ab" for number in (0, 4, 5, 6, 7, 8)]
    assert set(_retention.times_seen(project.root / ".stepfork" / "runs").values()) == {9}


@pytest.mark.slow
def test_sampling_spares_the_runs_of_failing_tests(project: Project) -> None:
    """What passed in a test that failed is evidence, not one of many that passed."""
    project.write({"test_it.py": MIXED})
    project.pytest("--stepfork-save-failed", env={"STEPFORK_SAMPLE": "0"})
    assert sorted(kept(project).values(), key=str) == KEPT


@pytest.mark.slow
def test_an_interrupted_test_keeps_its_runs(project: Project) -> None:
    """Nobody knows whether it would have passed."""
    project.write(
        {
            "test_it.py": """
                import agent

                def test_it():
                    agent.handle({"amount": 1})
                    raise KeyboardInterrupt
            """
        }
    )
    assert project.pytest("--stepfork-save-failed").code == 2
    assert list(kept(project).values()) == [{"amount": 1}]


def test_a_kept_run_becomes_a_test(project: Project) -> None:
    """The command that stands below the failure takes it."""
    project.write({"test_it.py": 'import agent\n\ndef test_it():\n    agent.handle({"id": "A-17"})\n'})
    project.pytest("--stepfork-save-failed")
    (run_id,) = kept(project)
    shown = project.stepfork("show", run_id)
    assert "raised KeyError" in shown.out, shown
