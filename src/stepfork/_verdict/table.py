"""What ``assert run == snapshot`` means, as a table: the first row that fits decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._verdict.judge import Finding

Accepted = Literal["nothing", "recorded failure", "stopped", "ended"]
"""What the snapshot holds: no file, the failure as recorded, a run up to a frontier, or to its end."""

Likeness = Literal["equal", "within", "different"]
"""``within``: only drift inside tolerance, and other names and places of steps."""

RowName = Literal[
    "another assertion failed",
    "cannot be judged: stopped",
    "still failing",
    "cannot be judged: stale",
    "as accepted",
    "as it failed",
    "ended badly",
    "no snapshot",
    "stopped, but ended once",
    "failure gone, stopped",
    "stopped elsewhere",
    "different",
]

OnCheck = Literal["pass", "fail"]
OnUpdate = Literal["refuse", "pass", "accept"]


class Case(NamedTuple):
    """All that the verdict depends on."""

    other_assertion_failed: bool = False
    stopped: bool = False
    """The replay ended at a frontier."""
    finding: Finding = "gone"
    stale: bool = False
    accepted: Accepted = "recorded failure"
    likeness: Likeness = "different"
    ended_badly: bool = False

    @property
    def is_as_accepted(self) -> bool:
        """Whether it is like what a person accepted; what had ended by itself then must end so now."""
        is_held = self.accepted == "stopped" or (self.accepted == "ended" and not self.stopped)
        return is_held and self.likeness != "different"

    @property
    def is_as_it_failed(self) -> bool:
        """Whether nothing differs from the run that failed, though its failure is not seen."""
        return self.accepted == "recorded failure" and self.likeness != "different"


class Row(NamedTuple):
    """One row of the table."""

    name: RowName
    fits: Callable[[Case], bool]
    check: OnCheck
    update: OnUpdate


TABLE: tuple[Row, ...] = (
    Row("another assertion failed", lambda case: case.other_assertion_failed, "fail", "refuse"),
    Row(
        "cannot be judged: stopped", lambda case: case.stopped and case.finding == "unknown", "fail", "refuse"
    ),
    Row("still failing", lambda case: case.finding == "shown" and not case.stale, "fail", "refuse"),
    Row("cannot be judged: stale", lambda case: case.finding == "shown" and case.stale, "fail", "refuse"),
    Row(
        "as accepted",
        lambda case: case.is_as_accepted,
        "pass",
        "pass",
    ),
    Row("as it failed", lambda case: case.is_as_it_failed, "fail", "refuse"),
    Row("ended badly", lambda case: case.ended_badly, "fail", "refuse"),
    Row("no snapshot", lambda case: case.accepted == "nothing", "fail", "accept"),
    Row("stopped, but ended once", lambda case: case.stopped and case.accepted == "ended", "fail", "refuse"),
    Row(
        "failure gone, stopped",
        lambda case: case.stopped and case.accepted == "recorded failure",
        "fail",
        "accept",
    ),
    Row("stopped elsewhere", lambda case: case.stopped, "fail", "accept"),
    Row("different", lambda _case: True, "fail", "accept"),
)


def decide(case: Case) -> Row:
    """Return the first row that fits; the last fits always."""
    return next(row for row in TABLE if row.fits(case))
