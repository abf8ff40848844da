"""A running agent is killed at random moments: what had ended is in its journals, and they can be read.

``STEPFORK_KILLS=1000`` kills as many; without it, it is fifty.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kills
from project import Project, clean_environment

KILLS = int(os.environ.get("STEPFORK_KILLS", "50"))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")


def _killed(folder: Path, count: int, seed: int) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, kills.__file__, str(folder), str(count), str(seed)],
        env=clean_environment(Path(kills.__file__).parent),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("count", [6, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_loses_no_finished_call(
    tmp_path: Path, count: int, record_property: Any
) -> None:
    """Sync and async, in threads, streams, large payloads: a call whose caller went on is kept (F01)."""
    seed = random.SystemRandom().randrange(2**32)

    told = _killed(tmp_path, count, seed)

    calls = sum(each["calls"] for each in told)
    lost = [ticket for each in told for ticket in each["lost"]]
    unreadable = [why for each in told for why in each["unreadable"]]
    record_property(
        "figures",
        f"kills {len(told)}, runs {sum(each['runs'] for each in told)}, finished calls {calls}, "
        f"lost {len(lost)}, unreadable {len(unreadable)}, seed {seed}",
    )
    assert len(told) == count
    assert all(each["killed"] for each in told)
    assert calls
    assert (lost, unreadable) == ([], []), seed


def test_a_process_killed_before_its_first_call_stands_in_the_journal_leaves_no_run(project: Project) -> None:
    """An empty file would be damage to whoever reads it (B73)."""
    project.write(
        {
            "agent.py": """
                import os, signal, stepfork

                stepfork.configure(redactor=lambda value: os.kill(os.getpid(), signal.SIGKILL))

                @stepfork.step
                def handle(value):
                    return value

                handle("x")
            """
        }
    )
    assert project.run("python", "agent.py").code == -signal.SIGKILL
    assert [path for path in project.files(".stepfork") if path.endswith(".jsonl")] == []
