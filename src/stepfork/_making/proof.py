"""Runs a new test as its owner will, with a bare pytest, and checks that it shows what the run showed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork._making.entry import Reach, quiet_environment
from stepfork._making.resemblance import cut_off_in
from stepfork._text import ago
from stepfork._verdict.document import walk
from stepfork._verdict.lacking import way_to_set
from stepfork.errors import NotReproduced, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Run

Verdict = dict[str, Any]
"""What ``stepfork._pytest.proof`` writes of one time that the test ran."""

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
    def variables_set(self) -> list[str]:
        """The variables with secrets that the project itself has set, as from a file."""
        return self.verdicts[0]["variables_set"] if self.verdicts else []

    @property
    def lacks_import(self) -> bool:
        """Whether a module or an adapter was not found, by the test or by the program that it runs."""
        if not self.verdicts:
            return "ModuleNotFoundError" in self.output
        if any("errors.AdapterFailed" in (verdict.get("error") or "") for verdict in self.verdicts):
            return True
        failures = [verdict.get("failure") for verdict in self.verdicts if verdict.get("finding") != "shown"]
        return any(failure and failure[1] == "builtins:ModuleNotFoundError" for failure in failures)


def run_pytest(test_file: Path, name: str, root: Path, *, times: int, environment: Mapping[str, str]) -> Seen:
    """Run one test of a file, ``times`` times in one process."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.jsonl"
        # The cache plug-in stays, for the project's own options may name it; what it writes goes elsewhere.
        options = ["-q", "--color=no", "-p", "stepfork._pytest.proof", "-o", f"cache_dir={folder}/cache"]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *options, f"{test_file}::test_{name}"],
            cwd=root,
            env={
                **environment,
                "STEPFORK_PROOF_REPORT": str(target),
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
    without: frozenset[str] = frozenset()
    """The variables of this environment that the test has to do without."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Variables that hold something else than here."""

    def once(self) -> Seen:
        """Run the test in a fresh process."""
        return self._run()

    def _run(self, times: int = 1) -> Seen:
        environment = quiet_environment(path=self.reach.needs_path, without=self.without)
        return run_pytest(
            self.test_file, self.name, self.root, times=times, environment={**environment, **self.instead}
        )

    def twice(self) -> Verdict:
        """Run the test twice in one process, which finds caches and clocks; raises NotReproduced."""
        first, second = self.checked(self._run(times=2), 2)
        if second["again"]:
            raise self._not_reproduced(
                "two replays in one process differ",
                _first_difference(second["again"], "the first replay"),
                ["a cache, a counter or a clock in the agent's modules lives on from one run to the next"],
            )
        return first

    def green(self) -> Verdict:
        """Run the test a last time, now with its snapshot; raises NotReproduced where it is not green."""
        seen = self.once()
        if not seen.verdicts or seen.verdicts[0]["outcome"] != "passed":
            raise self._not_reproduced("the test is not green", _tail(seen.output), [])
        return seen.verdicts[0]

    def checked(self, seen: Seen, times: int = 1) -> list[Verdict]:
        """Return the verdicts if each shows what the run showed.

        Raises NotReproduced, and OptionError where an option or a setting of the project does not fit.
        """
        for verdict in seen.verdicts:
            if "refused" in verdict:
                raise OptionError(**verdict["refused"])
        errors = [verdict["error"] for verdict in seen.verdicts if verdict["verdict"] is None]
        if errors or len(seen.verdicts) != times:
            output = _tail("\n".join(errors) or seen.output)
            missing = self._what_was_missing()
            raise self._not_reproduced("pytest could not run the test", output, [missing] if missing else [])
        for verdict in seen.verdicts:
            self._check(verdict)
        return seen.verdicts

    def _check(self, verdict: Verdict) -> None:
        if self.run.failure is None:
            if not verdict["parted"] or (not self.run.ended and verdict["covers"]):
                return
            what = "the replay differs from the run"
        else:
            if verdict["finding"] == "shown" and not verdict["stale"]:
                return
            what = "the recorded failure did not come back"
        raise self._not_reproduced(
            what, _first_difference(verdict["parted"], "the run"), self._likely(verdict)
        )

    def _likely(self, verdict: Verdict) -> list[str]:
        """Return the likely reasons why the replay is another run, the likeliest first."""
        lacking = verdict["lacking"]
        known = way_to_set(lacking) if lacking else self._what_was_missing()
        known = known or self._other_root(verdict) or self._was_cut_off()
        if known:
            return [known]
        age = ago(time.time() - self.run.started)
        changed = (
            f"the agent may have been changed since the run (recorded {age}): "
            "make the test with the version that was run"
        )
        if verdict["failure"] is not None or verdict["stopped"]:
            return [_USUAL_REASONS, changed]
        return [changed, _USUAL_REASONS]

    def _was_cut_off(self) -> str:
        call = cut_off_in(self.run)
        if call is None or call.kind != "step" or self.run.criterion:
            return ""
        how = "interrupted" if self.run.ended else "killed"
        way = "say what is right, with --expect, --never or --times" if self.run.failure is not None else ""
        where = f"the run was {how} in the agent's own code, in {call.address}, where a replay goes on"
        return f"{where}: {way}" if way else where

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

    def _not_reproduced(self, what: str, seen: str, likely: list[str]) -> NotReproduced:
        labels = ["likely", *[""] * len(likely)]
        return NotReproduced(
            what,
            detail=[("seen", seen), *zip(labels, likely, strict=False)],
            ways_on=[
                f"look at the run: stepfork show {self.run.id}",
                "mark what reaches outside as @stepfork.tool, and make the test of a new run",
            ],
            run=self.run.id,
        )


def _first_difference(lines: list[str], other: str) -> str:
    """Say at which call two replays, or a replay and its run, first parted, and how."""
    if not lines:
        return "every call was the same"
    return "\n".join([f"it first parted from {other} at", *lines[:_LINES_SHOWN]])


def _tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-_OUTPUT_SHOWN:])
