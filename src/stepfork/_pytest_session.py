"""What the plug-in keeps of one test while it runs: options, held writes, what is to be said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepfork._assess import Assessment


def in_ci(environ: os._Environ[str] | dict[str, str] = os.environ) -> bool:
    """Whether ``CI`` is set and neither empty, 0 nor false."""
    return environ.get("CI", "").strip().lower() not in ("", "0", "false")


@dataclass
class TestSession:
    """One test that replays."""

    __test__ = False

    update: bool
    new_only: bool
    allow_ci: bool
    extend: tuple[str, ...] | None = None
    held: list[Assessment] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    guards_part: bool = False
    on_stale: bool = False

    @property
    def may_write(self) -> bool:
        """Whether an update was asked for and is allowed here."""
        return (self.update or self.new_only) and (self.allow_ci or not in_ci())

    def refuses(self, assessment: Assessment) -> bool:
        """Whether this comparison must fail and write nothing."""
        if assessment.row.check == "pass":
            return False
        if not self.may_write or assessment.row.update != "accept":
            return True
        return self.new_only and not self.update and assessment.case.accepted != "nothing"

    def hold(self, assessment: Assessment) -> None:
        """Keep a write until the whole test has passed."""
        self.held.append(assessment)

    def note(self, assessment: Assessment) -> None:
        """Keep what the verdict was, for machines."""
        self.guards_part |= assessment.guards_part
        self.on_stale |= assessment.on_stale
        self.reports.append(machine_report(assessment))

    def say(self, text: str, assessment: Assessment) -> None:
        """Keep what is to be said aloud at the end."""
        if text:
            self.said.append(text)

    def commit(self) -> Iterator[str]:
        """Write what was held, and yield the files."""
        from stepfork import _snapshot

        for assessment in self.held:
            _snapshot.write(assessment.path, assessment.text)
            if assessment.renamed_from is not None:
                assessment.renamed_from.unlink(missing_ok=True)
            yield str(assessment.path)
        self.held.clear()


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
