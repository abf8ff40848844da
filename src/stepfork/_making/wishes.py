"""What ``make-test`` was asked for, and whether that goes with the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepfork._calls import Criterion
from stepfork._near import did_you_mean, near_names
from stepfork._plain import readable
from stepfork._verdict.criterion import call_pattern
from stepfork._verdict.judge import find_values, judge_criterion
from stepfork.errors import CriterionMet, FailingRun, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepfork._calls import Plain, Run

_ALIKE = 0.75
"""How alike a misspelt name is to the one that was meant."""
_A_LITTLE_ALIKE = 0.5


@dataclass(frozen=True)
class Wishes:
    """The options of ``make-test``."""

    name: str | None = None
    into: Path | None = None
    """An absolute path."""
    entry: str | None = None
    xfail: bool = False
    scrub: bool = False
    """Replace personal data."""
    criterion: Criterion = field(default_factory=Criterion)


def check_wishes(run: Run, wishes: Wishes) -> None:
    """Raise FailingRun, CriterionMet or OptionError for wishes that do not go with the run."""
    if run.root.outcome.status == "unfinished" and not run.ended:
        raise FailingRun(
            f"the run {run.id} is still going on", ways_on=["wait until it has ended, or end it"], run=run.id
        )
    if run.incomplete:
        raise FailingRun(
            f"the run {run.id} is incomplete: stepfork itself failed while it was recorded",
            ways_on=["look at the warning that the agent's process printed, and record the run again"],
            run=run.id,
        )
    if run.unseen:
        names = ", ".join(run.unseen)
        raise FailingRun(
            f"stepfork did not see all tools of the run {run.id} at work: the test would run {names} again",
            ways_on=[
                "decorate the function that does the work with @stepfork.tool, and record the run again",
                'or name it in [tool.stepfork]: tools = ["module:function"]',
            ],
            run=run.id,
        )
    if wishes.xfail and run.failure is None and not wishes.criterion:
        raise FailingRun(
            f"the run {run.id} did not fail: there is no failure to expect",
            ways_on=["leave out --xfail", "or say what was wrong with it: --expect, --never, --times"],
            run=run.id,
        )
    if not wishes.criterion:
        return
    if run.failure is not None and run.failure.kind == "raised":
        raise FailingRun(
            f"the run {run.id} raised: that is its failure, and it takes no criterion",
            ways_on=["leave out --expect, --never and --times"],
            run=run.id,
        )
    _refuse_misspelt(wishes.criterion, run)
    if judge_criterion(wishes.criterion, run).finding != "shown":
        raise CriterionMet(
            f"the recorded run {run.id} meets this criterion already: the test would never be red",
            ways_on=["say what should have been different from what the run did"],
            run=run.id,
        )


def _refuse_misspelt(criterion: Criterion, run: Run) -> None:
    """A tool that never was called would be a criterion that says nothing, or one that is never met."""
    called = {call.name for call in run.walk()}
    for option, texts in (("--never", criterion.never), ("--times", criterion.times)):
        for text in texts:
            name = call_pattern(text).name
            near = near_names(name, called, alike=_ALIKE)
            if near and name not in called and "(" not in text:
                raise OptionError(
                    f"{option} {text}: the run {run.id} never called {name}",
                    ways_on=[*did_you_mean(near), f"if {name} is right: '{name}()'"],
                    near=near,
                )


def notes_on_paths(criterion: Criterion, run: Run) -> Iterator[str]:
    """Yield what is said of ``--expect`` where the recorded result has nothing at its path."""
    outcome = run.root.outcome
    if outcome.status != "returned":
        return
    names = sorted(_keys(readable([outcome.value, outcome.items])))
    for path in criterion.expect:
        if find_values(path, run):
            continue
        last = path.rpartition(".")[2].partition("[")[0]
        near = near_names(last, names, alike=_A_LITTLE_ALIKE)
        there = f"; near: {', '.join(near)}" if near else f"; there: {', '.join(names[:8])}" if names else ""
        yield f"{path} is not in the recorded result{there}"


def _keys(plain: Plain) -> set[str]:
    if isinstance(plain, list):
        return set().union(*map(_keys, plain))
    if not isinstance(plain, dict):
        return set()
    return {key for key in plain if not key.startswith("$")}.union(*map(_keys, plain.values()))
