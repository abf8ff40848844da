"""Runs a new test as its owner will: with a bare pytest, in a fresh process, and twice in one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seen:
    """What one pytest process showed of the test."""

    verdicts: list[dict[str, Any]]
    """One row for each time the test ran; see ``_pytest_session.machine_report``."""
    output: str
    code: int


def run_pytest(test_file: Path, name: str, root: Path, *, times: int = 1) -> Seen:
    """Run one test of a file, ``times`` times in one process."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.jsonl"
        node = f"{test_file}::test_{name}"
        arguments = ["-q", "-p", "no:cacheprovider", *_one_process()]
        if times > 1:
            arguments += ["--keep-duplicates", *[str(test_file)] * times, "-k", f"test_{name}"]
        else:
            arguments.append(node)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *arguments],
            cwd=root,
            env={**os.environ, "STEPFORK_REPORT": str(target), "PYTEST_ADDOPTS": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        lines = target.read_text("utf-8").splitlines() if target.exists() else []
    verdicts = [json.loads(line) for line in lines]
    verdicts = [verdict for verdict in verdicts if verdict["test"].endswith(f"::test_{name}")]
    return Seen(verdicts, done.stdout + done.stderr, done.returncode)


def _one_process() -> list[str]:
    return ["-n0"] if importlib.util.find_spec("xdist") else []
