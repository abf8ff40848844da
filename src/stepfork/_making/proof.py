"""Runs a new test as its owner will, with a bare pytest, and checks that it shows what the run showed."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork._making.entry import Reach, quiet_environment
from stepfork._replay.session import facts_of
from stepfork._verdict.align import align
from stepfork._verdict.document import document, walk
from stepfork._verdict.report import difference_lines
from stepfork.errors import NotReproduced

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Run

Verdict = dict[str, Any]
"""One row of ``_pytest_session.machine_report``, with ``test`` and ``outcome``."""

_LINES_SHOWN = 8
_OUTPUT_SHOWN = 15
_USUAL_REASONS = (
    "a clock, a random number, the environment, or a call to the outside that is no @stepfork.tool"
)


@dataclass(frozen=True)
class Seen:
    """What one pytest process showed of the test."""

    verdicts: list[Verdict]
    """One row for each time the test ran."""
    output: str

    @property
    def lacks_import(self) -> bool:
        """Whether pytest did not find a module."""
        return not self.verdicts and "ModuleNotFoundError" in self.output


def run_pytest(test_file: Path, name: str, root: Path, *, times: int = 1) -> Seen:
    """Run one test of a file, ``times`` times in one process."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.jsonl"
        # The cache plug-in stays, for the project's own options may name it; what it writes goes elsewhere.
        options = ["-q", "--color=no", "-p", "stepfork._pytest.proof", "-o", f"cache_dir={folder}/cache"]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *options, f"{test_file}::test_{name}"],
            cwd=root,
            env={
                **quiet_environment(),
                "STEPFORK_REPORT": str(target),
                "STEPFORK_PROOF_TIMES": str(times),
                "COVERAGE_FILE": f"{folder}/coverage",
                "PYTEST_ADDOPTS": "",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        lines = target.read_text("utf-8").splitlines() if target.exists() else []
    return Seen([json.loads(line) for line in lines], done.stdout + done.stderr)


@dataclass(frozen=True)
class Prover:
    """Checks what pytest shows of one new test against the run that it was made from."""

    run: Run
    name: str
    test_file: Path
    root: Path
    reach: Reach

    def once(self) -> Seen:
        """Run the test in a fresh process."""
        return run_pytest(self.test_file, self.name, self.root)

    def twice(self) -> Verdict:
        """Run the test twice in one process, which finds caches and clocks; raises NotReproduced."""
        first, second = self.checked(run_pytest(self.test_file, self.name, self.root, times=2), 2)
        if first["document"] != second["document"]:
            raise self._not_reproduced(
                "two replays in one process differ",
                _first_difference(first["document"], second["document"]),
                "a cache, a counter or a clock in the agent's modules lives on from one run to the next",
            )
        return first

    def green(self) -> Verdict:
        """Run the test a last time, now with its snapshot; raises NotReproduced where it is not green."""
        seen = self.once()
        if not seen.verdicts or seen.verdicts[0]["outcome"] != "passed":
            raise self._not_reproduced("the test is not green", _tail(seen.output), "")
        return seen.verdicts[0]

    def checked(self, seen: Seen, times: int = 1) -> list[Verdict]:
        """Return the verdicts if each shows what the run showed; raises NotReproduced."""
        errors = [verdict.get("error", "") for verdict in seen.verdicts if verdict["verdict"] is None]
        if errors or len(seen.verdicts) != times:
            output = _tail("\n".join(errors) or seen.output)
            raise self._not_reproduced("pytest could not run the test", output, self._what_was_missing())
        for verdict in seen.verdicts:
            self._check(verdict)
        return seen.verdicts

    def _check(self, verdict: Verdict) -> None:
        recorded = self._recorded_document()
        if self.run.failure is None:
            now = verdict["document"]
            if recorded["calls"] == now["calls"] or (not self.run.ended and _goes_as_far(recorded, now)):
                return
            what = "the replay differs from the run"
        else:
            if verdict["finding"] == "shown" and not verdict["stale"]:
                return
            what = "the recorded failure did not come back"
        hint = self._what_was_missing() or self._other_root(verdict) or _USUAL_REASONS
        raise self._not_reproduced(what, _first_difference(recorded, verdict["document"]), hint)

    def _what_was_missing(self) -> str:
        if self.reach.missing:
            return (
                f"{', '.join(self.reach.missing)} of {self.reach.expression} was not recorded, and the test "
                f"handed in None: write a function that makes it and calls {self.reach.expression}, "
                "and name that one: --entry MODULE:CALLABLE"
            )
        if self.run.root.lossy:
            return (
                "an argument of the root could not be recorded: find another way in, --entry MODULE:CALLABLE"
            )
        return ""

    def _other_root(self, verdict: Verdict) -> str:
        labels = {label for address, _ in walk(verdict["document"]["calls"]) for label in address.split("/")}
        if self.run.root.label in labels:
            return ""
        return f"{self.reach.expression} does not call {self.run.root.name}, which was the root of the run"

    def _recorded_document(self) -> dict[str, Any]:
        facts, _ = facts_of(self.run)
        clock = (self.run.started, self.run.started + max(self.run.seconds, 1.0))
        run = copy.deepcopy(self.run)
        for call in run.walk():
            # A call that was killed has no outcome to be replayed.
            call.unrecorded = call.kind != "step" and call.outcome.status in ("killed", "unfinished")
        return document(run, recording=self.name, state="recorded failure", facts=facts, clock=clock)

    def _not_reproduced(self, what: str, seen: str, hint: str) -> NotReproduced:
        return NotReproduced(
            what,
            detail=[("seen", seen), *([("likely", hint)] if hint else [])],
            ways_on=[
                f"look at the run: stepfork show {self.run.id}",
                "mark what reaches outside as @stepfork.tool, and make the test of a new run",
            ],
            run=self.run.id,
        )


def _goes_as_far(killed: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the replay made every call that a killed run had made; it may have gone on."""
    made = {address: node["input"] for address, node in walk(now["calls"])}
    return all(made.get(address) == node["input"] for address, node in walk(killed["calls"]))


def _first_difference(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say at which call two documents first parted, and how."""
    lines = list(difference_lines(align(dict(recorded), dict(now))))
    if not lines:
        return "every call was the same"
    return "\n".join(["it first parted from the run at", *lines[:_LINES_SHOWN]])


def _tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-_OUTPUT_SHOWN:])
