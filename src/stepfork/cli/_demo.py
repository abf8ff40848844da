"""``stepfork demo``: the whole road on an example, in a scratch folder, with the real commands."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork.cli._terminal import Line, Span, show

if TYPE_CHECKING:
    import argparse

_PACKAGED = Path(__file__).parents[1] / "_examples"
_CHECKOUT = Path(__file__).parents[3] / "examples"
_EXAMPLE = "refund_crash"
_PROJECT = '[project]\nname = "shop"\nversion = "1"\n'


class _Station(NamedTuple):
    """One command of the road, and what has to be seen for the road to be right."""

    title: str
    command: tuple[str, ...]
    code: int
    seen: str
    lines: int = 7


_CRASH = _Station("The agent crashes", ("python", "agent.py"), 1, "KeyError: 'amount'", 3)
_MAKE = _Station("One command makes a test of that run", ("stepfork", "make-test"), 0, "red", 12)
_RED = _Station("It is red, for the recorded reason, offline", ("pytest", "-q"), 1, "StillFailing")
_CHANGED = _Station(
    "pytest shows what the agent does now", ("pytest", "-q"), 1, "the recorded failure is gone", 30
)
_ACCEPT = _Station(
    "Accepted; the team reviews the snapshot's diff", ("pytest", "-q", "--snapshot-update"), 0, "accepted"
)
_GREEN = _Station("Green from now on", ("pytest", "-q"), 0, "1 passed", 5)
_RED_AGAIN = _Station("With the bug back it is red again", ("pytest", "-q"), 1, "StillFailing")


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "demo",
        help="walk the whole road on an example, in a scratch folder",
        description="Walk the whole road on an example, in a scratch folder.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the scratch folder there, to look around in"
    )


def run(args: argparse.Namespace) -> int:
    """Run agent, crash, test, fix, acceptance, and the bug again."""
    folder = Path(tempfile.mkdtemp(prefix="stepfork-demo-")).resolve()
    try:
        complete = _Road(folder).walk()
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    if args.keep:
        show([[Span(f"it is all in {folder}", "faint")]])
    return 0 if complete else 1


class _Road:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = (_PACKAGED if _PACKAGED.is_dir() else _CHECKOUT) / _EXAMPLE
        self.buggy = (source / "agent.py").read_text("utf-8")
        self.fixed = (source / "agent_fixed.py").read_text("utf-8")
        (folder / "pyproject.toml").write_text(_PROJECT, "utf-8")

    def walk(self) -> bool:
        """Return whether every station showed what it should."""
        self._agent(self.buggy)
        if not all(map(self._visit, (_CRASH, _MAKE, _RED))):
            return False
        self._agent(self.fixed)
        self._show_fix()
        if not all(map(self._visit, (_CHANGED, _ACCEPT, _GREEN))):
            return False
        self._agent(self.buggy)
        return self._visit(_RED_AGAIN)

    def _agent(self, text: str) -> None:
        (self.folder / "agent.py").write_text(text, "utf-8")

    def _visit(self, station: _Station) -> bool:
        _title(station.title)
        show([[Span(f"$ {' '.join(station.command)}", "strong")]])
        done = self._call(station.command)
        show([_coloured(line) for line in _essence(done.stdout, station.lines)])
        if done.returncode == station.code and station.seen in done.stdout:
            return True
        show(
            [
                [
                    Span(
                        f"expected exit code {station.code} and {station.seen!r}, got {done.returncode}:",
                        "failed",
                    )
                ]
            ]
        )
        show([[Span(line)] for line in done.stdout.splitlines()])
        return False

    def _call(self, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        program, *rest = command
        real = [sys.executable, *([] if program == "python" else ["-m", program]), *rest]
        return subprocess.run(
            real,
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def _show_fix(self) -> None:
        _title("Somebody fixes the agent")
        before, after = self.buggy.splitlines()[1:], self.fixed.splitlines()[1:]
        diff = list(difflib.unified_diff(before, after, "agent.py", "agent.py", lineterm="", n=1))
        show([_coloured(line) for line in diff])


def _environment() -> dict[str, str]:
    """The reader's own, but for settings that send runs elsewhere, and CI, where nothing is accepted."""
    foreign = ("STEPFORK_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {
        "CI": "",
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _essence(output: str, limit: int) -> list[str]:
    """Return the report of a failing test, or the last lines of anything else."""
    lines = output.rstrip().splitlines()
    report = [line.removeprefix("E").removeprefix("  ") for line in lines if line.startswith("E  ")]
    if not report:
        return lines[-limit:]
    if len(report) > limit:
        report = report[:limit]
        while report and (not report[-1].strip() or report[-1].endswith(":")):
            report.pop()
        report.append("     ...")
    return report + lines[-1:]


def _title(text: str) -> None:
    show([[], [Span(f"── {text}", "tool")]])


def _coloured(line: str) -> Line:
    stripped = line.lstrip()
    if stripped.startswith("+"):
        return [Span(line, "passed")]
    if stripped.startswith(("-", "StillFailing")):
        return [Span(line, "failed")]
    return [Span(line)]
