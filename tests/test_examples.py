"""Each example walks its whole road: it fails, becomes a test, is fixed, is accepted, and breaks again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from project import MINIMAL, Project, Result
from road import STRANGER

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(project: Project, name: str) -> Project:
    """Copy an example into a project of its own."""
    shutil.copytree(EXAMPLES / name, project.root, dirs_exist_ok=True)
    return project.write(MINIMAL)


def swap(project: Project, name: str, version: str) -> None:
    """Put the buggy or the fixed agent in place."""
    shutil.copyfile(EXAMPLES / name / version, project.root / "agent.py")


def run_id(project: Project) -> str:
    """The id of the newest run."""
    return str(project.stepfork("runs", "--json").json["runs"][0]["id"])


def check_road(
    project: Project, name: str, *, changed: str, said: str, environ: dict[str, str] | None = None
) -> None:
    """From the red test over the fix to green, and back to red."""
    environ = {**STRANGER, **(environ or {})}

    def pytest_shows(text: str, *options: str, code: int) -> Result:
        result = project.run("pytest", "-q", "-p", "no:cacheprovider", *options, env=environ)
        assert result.code == code, result
        assert text in result.out, result
        return result

    pytest_shows("StillFailing", code=1)
    before = project.files()
    pytest_shows("refused", "--snapshot-update", code=1)
    assert project.files() == before
    swap(project, name, "agent_fixed.py")
    pytest_shows(changed, code=1)
    pytest_shows(said, "--snapshot-update", code=0)
    pytest_shows("1 passed", code=0)
    swap(project, name, "agent.py")
    pytest_shows("StillFailing", code=1)


@pytest.mark.slow
def test_the_refund_agent_that_crashes(project: Project) -> None:
    """Its fix goes past the end of the recording and is accepted up to there."""
    example(project, "refund_crash")

    assert "KeyError" in project.run("python", "agent.py").err
    assert project.stepfork("make-test").code == 0

    check_road(
        project,
        "refund_crash",
        changed='the agent went on to refund(order_id="A-17", amount=120)',
        said="guards up to refund",
    )


@pytest.mark.slow
def test_the_refund_agent_that_denies(project: Project) -> None:
    """Nothing raised: the run is marked afterwards, the criterion says what should have come out."""
    example(project, "refund_denied")

    assert "denied" in project.run("python", "agent.py").out
    assert project.stepfork("fail", run_id(project), "--reason", "denied an eligible refund").code == 0
    made = project.stepfork("make-test", "--name", "denied", "--times", "refund=1")
    assert made.code == 0, made

    check_road(project, "refund_denied", changed="went on to refund", said="guards up to refund")


@pytest.mark.slow
def test_two_agents_one_the_others_tool(project: Project) -> None:
    """The researcher is answered whole in a replay of the editor."""
    example(project, "two_agents")

    assert "no source on auroras" in project.run("python", "agent.py").err
    made = project.stepfork("make-test", "--name", "no_source")
    assert made.code == 0, made

    check_road(project, "two_agents", changed="took these steps instead", said="accepted")
    assert "tool: search" not in project.read("snapshots/tests/test_no_source/test_no_source.yaml")


@contextmanager
def served() -> Iterator[str]:
    """Run the example's server; yield its address."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "openai_agent" / "server.py")], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.slow
def test_the_agent_on_the_openai_sdk(project: Project) -> None:
    """The real SDK against a local server: what the fix asks for goes live once, then the test is offline."""
    pytest.importorskip("openai")
    example(project, "openai_agent")
    with served() as address:
        crashed = project.run("python", "agent.py", env={"OPENAI_BASE_URL": address})
        assert "without a response message: call_rome0000001" in crashed.err, crashed
        made = project.stepfork("make-test", "--name", "weather")
        assert made.code == 0, made
        swap(project, "openai_agent", "agent_fixed.py")
        offline = project.run("pytest", "-q", env={"OPENAI_BASE_URL": "http://127.0.0.1:9"})
        assert 'the agent went on to get_weather(city="Rome")' in offline.out, offline
        extended = project.run(
            "pytest", "-q", "--stepfork-extend", "--snapshot-update", env={"OPENAI_BASE_URL": address}
        )
        assert extended.code == 0, extended

    offline = project.run("pytest", "-q", env={"OPENAI_BASE_URL": "http://127.0.0.1:9"})
    assert "1 passed" in offline.out, offline
    assert "The weather: snow, sun." in project.read("snapshots/tests/test_weather/test_weather.yaml")
    swap(project, "openai_agent", "agent.py")
    assert "StillFailing" in project.run("pytest", "-q").out


@pytest.mark.slow
def test_the_demo_shows_every_station(project: Project) -> None:
    """``stepfork demo`` exits with 0 only where each command showed what it should; it works under CI too."""
    done = project.stepfork("demo", env=STRANGER | {"CI": "true", "TMPDIR": os.fspath(project.root)})

    assert done.code == 0, done
    for text in (
        "KeyError: 'amount'",
        "red    ",
        "StillFailing",
        "went on to refund",
        "accepted: ",
        "1 passed",
    ):
        assert text in done.out
    assert done.out.count("StillFailing") == 2
    assert not list(project.root.glob("stepfork-demo-*"))
