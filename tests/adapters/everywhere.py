"""Runs the tests of the adapters in all environments, or in those named: ``python everywhere.py openai mcp``.

Every environment is made and tried, whatever happened in those before; then a table says how each ended.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]

ENVIRONMENTS = {
    "openai": ("openai", "anthropic"),
    "openai2": ("openai",),
    "old": ("openai", "anthropic", "mcp"),
    "litellm": ("litellm",),
    "langgraph": ("langgraph",),
    "mcp": ("mcp",),
}
"""The folders of tests that run in each environment; what it holds is its group ``adapters-...``."""

_SCENARIOS = re.compile(r"(\S+(?: \S+)?): (\d+) of (\d+) scenarios")


class Ended(NamedTuple):
    """How it went in one environment."""

    environment: str
    code: int
    seconds: float
    last_line: str
    scenarios: list[str]


def make(environments: list[str], *options: str) -> int:
    """Make the environments, two at a time; returns make's exit code."""
    stamps = [f".venv-adapters/{environment}/.ready" for environment in environments]
    command = ["make", "--no-print-directory", "--keep-going", "--jobs=2", *options, *stamps]
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(command, cwd=CHECKOUT, env=clean, check=False).returncode


def tested(environment: str, options: list[str]) -> Ended:
    """Run the tests of an environment; all that they print is shown while they run."""
    print(f"\n-- {environment}", flush=True)
    if make([environment], "--question"):
        return Ended(environment, 1, 0, "its environment could not be made", [])
    start = time.monotonic()
    code, lines = _pytest(environment, options)
    found = [line for line in lines if _SCENARIOS.fullmatch(line)]
    return Ended(environment, code, time.monotonic() - start, lines[-1] if lines else "", found)


def _pytest(environment: str, options: list[str]) -> tuple[int, list[str]]:
    python = CHECKOUT / ".venv-adapters" / environment / "bin" / "python"
    folders = [str(HERE / folder) for folder in ENVIRONMENTS[environment]]
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "--color=no", *options, *folders]
    clean = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    lines: list[str] = []
    with subprocess.Popen(command, cwd=CHECKOUT, env=clean, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.strip())
    return process.returncode, [line for line in lines if line]


def main(arguments: list[str]) -> int:
    """Run the named environments, or all; what follows ``--`` is for pytest."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    names, options = arguments[:end] or list(ENVIRONMENTS), arguments[end + 1 :]
    unknown = [name for name in names if name not in ENVIRONMENTS]
    if unknown:
        print(f"no environment {', '.join(unknown)}: there are {', '.join(ENVIRONMENTS)}", file=sys.stderr)
        return 2
    make(names)
    ended = [tested(name, options) for name in names]
    print("\nenvironment  exit code  seconds  tests")
    for each in ended:
        print(f"{each.environment:11}  {each.code:9}  {each.seconds:7.0f}  {each.last_line}")
        for line in each.scenarios:
            print(f"{'':33}{line}")
    return int(any(each.code for each in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
