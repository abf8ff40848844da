"""What the plug-in keeps of one test while it runs: options, held writes, what is to be said."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepfork._verdict.assess import Assessment


def in_ci(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether ``CI`` is set and neither empty, 0 nor false."""
    return environ.get("CI", "").strip().lower() not in ("", "0", "false")


class Held(NamedTuple):
    """A write that waits until the whole test has passed."""

    assessment: Assessment
    withdraw: Callable[[], None]
    """Takes back what syrupy believes was written."""


@dataclass
class TestSession:
    """One test that replays."""

    __test__ = False

    update: bool
    new_only: bool
    allow_ci: bool
    extend: tuple[str, ...] | None = None
    colour: bool = False
    is_over: bool = False
    """The call phase has ended; reports before that are of subtests."""
    failed_inside: bool = False
    """A subtest failed, or something else that does not end the test."""
    comparisons: int = 0
    held: list[Held] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """About a test that passed."""
    said_anyway: list[str] = field(default_factory=list)
    """Whatever came of the test: calls that went out, rules that found nothing."""
    assessments: list[Assessment] = field(default_factory=list)

    @property
    def may_write(self) -> bool:
        """Whether an update was asked for and is allowed here."""
        return (self.update or self.new_only) and (self.allow_ci or not in_ci())

    def refuses(self, assessment: Assessment) -> bool:
        """Whether this comparison must fail and write nothing."""
        if assessment.row.check == "pass":
            return False
        return not self.may_write or assessment.row.update != "accept" or self._leaves_alone(assessment)

    def rewrites(self, assessment: Assessment) -> bool:
        """Whether a comparison that passes has addresses to be rewritten."""
        moved = assessment.alignment is not None and bool(assessment.alignment.moved)
        return self.may_write and moved and not self._leaves_alone(assessment)

    def _leaves_alone(self, assessment: Assessment) -> bool:
        return not self.update and assessment.case.accepted != "nothing"

    def note_for(self, assessment: Assessment) -> str:
        """Return what a failing comparison says of writing."""
        from stepfork._text import shown_file

        file = shown_file(assessment.path)
        if not (self.update or self.new_only):
            # At a frontier accepting is one of the ways on that are listed there.
            acceptable = assessment.row.update == "accept" and not assessment.case.stopped
            return "accept it with: pytest --snapshot-update" if acceptable else ""
        if not self.may_write:
            return f"where CI is set nothing is written without --stepfork-allow-ci: {file} is left as it was"
        if assessment.row.update == "accept" and self._leaves_alone(assessment):
            return f"--snapshot-update-new-only: {file} is left as it was"
        return f"--snapshot-update refused: {file} is left as it was"

    def note(self, assessment: Assessment) -> None:
        """Keep a verdict."""
        from stepfork._verdict.assess import unused_rules
        from stepfork._verdict.report import said_of_live

        self.assessments.append(assessment)
        if assessment.replayed.extended:
            self.said_anyway.append(said_of_live(assessment.replayed.extended))
        self.said_anyway += [
            text for text in unused_rules(assessment.replayed) if text not in self.said_anyway
        ]

    @property
    def guards_part(self) -> bool:
        """Whether green covers only the run up to a frontier."""
        return any(assessment.guards_part for assessment in self.assessments)

    @property
    def on_stale(self) -> bool:
        """Whether green rests on replies to other prompts."""
        return any(assessment.on_stale for assessment in self.assessments)

    @property
    def is_fixed(self) -> bool:
        """Whether a recorded failure is gone, and an update would accept what came instead."""
        return any(
            assessment.judgement.finding == "gone" and assessment.row.update == "accept"
            for assessment in self.assessments
        )

    def settle(self, *, passed: bool) -> bool:
        """Write what was held, or withdraw it all; whether something was withdrawn. Raises OSError."""
        from stepfork._verdict import snapshot as _snapshot
        from stepfork._verdict.table import decide

        held, self.held = self.held, []
        # A comparison that failed is one of the test's assertions, even if the test swallowed it.
        passed = passed and not any(map(self.refuses, self.assessments))
        for assessment, withdraw in held:
            row = decide(assessment.case._replace(other_assertion_failed=not passed))
            if row.update == "refuse":
                withdraw()
                continue
            try:
                _snapshot.write(assessment.path, assessment.text)
            except OSError:
                withdraw()
                raise
            if assessment.renamed_from is not None:
                assessment.renamed_from.unlink(missing_ok=True)
        return bool(held) and not passed

    def machine_reports(self) -> Iterator[dict[str, Any]]:
        """Yield the verdicts for programs."""
        yield from map(machine_report, self.assessments)


def machine_report(assessment: Assessment) -> dict[str, Any]:
    """Return one verdict as JSON-able data."""
    replayed = assessment.replayed
    failure = replayed.run.failure
    return {
        "recording": str(replayed.recording.path),
        "snapshot": str(assessment.path),
        "verdict": assessment.row.name,
        "finding": assessment.judgement.finding,
        "reason": assessment.judgement.reason,
        "failure": [failure.kind, failure.type, failure.address, failure.message] if failure else None,
        "stopped": [frontier.call.address for frontier in replayed.frontiers],
        "stale": [view.address for view in replayed.stale],
        "unused": [view.address for view in replayed.unused],
        "extended": replayed.extended,
        "constants": replayed.constants,
        "document": assessment.new,
    }
