"""Whether a replay does what the recorded run did, within the tolerance of the replay.

Asked in the process that replayed: a rule may be any callable, which cannot travel.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from stepfork._calls import Outcome
from stepfork._replay.facts import facts_of
from stepfork._verdict.align import align
from stepfork._verdict.document import document
from stepfork._verdict.report import difference_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Call, Run
    from stepfork._verdict.align import Alignment
    from stepfork._verdict.document import Node
    from stepfork.tolerance import Rules

_CUT_OFF = ("killed", "unfinished")


def recorded_document(run: Run, name: str) -> Node:
    """Return the document of a recorded run, as its replay would show it."""
    facts, _ = facts_of(run)
    clock = (run.started, run.started + max(run.seconds, 1.0))
    run = copy.deepcopy(run)
    for call in run.walk():
        if call.outcome.status in _CUT_OFF:
            # A call that was killed has no outcome to be replayed, and its callers stop with it.
            call.unrecorded = call.kind != "step"
            call.outcome = Outcome("stopped")
    return document(run, recording=name, state="recorded failure", facts=facts, clock=clock)


def parted(old: Node, new: Node, rules: Mapping[str, Rules]) -> list[str]:
    """Return the lines that say where two documents part beyond tolerance; none where they do not."""
    return list(difference_lines(_aligned(old, new, rules)))


def covers(killed: Node, now: Node, rules: Mapping[str, Rules]) -> bool:
    """Whether a replay made every call that a killed run had made; it may have gone on."""
    alignment = _aligned(killed, now, rules)
    others = [difference for changed in alignment.changed for difference in changed.differences]
    return not (
        alignment.removed
        or alignment.moved
        or any(changed.truncated for changed in alignment.changed)
        or any(difference.path[0] == "input" for difference in others)
    )


def _aligned(old: Node, new: Node, rules: Mapping[str, Rules]) -> Alignment:
    # The texts of the rules stand in a replay's document alone.
    return align(_without_rules(old), _without_rules(new), rules)


def _without_rules(node: Node) -> Node:
    return {key: value for key, value in node.items() if key != "rules"}


def cut_off_in(run: Run) -> Call | None:
    """Return the innermost call that was under way when the run was killed or interrupted."""
    if run.root.outcome.status == "suspended":
        origin = run.root.outcome.origin or run.root.address
        return next((call for call in run.walk() if call.address == origin), run.root)
    under_way = [call for call in run.walk() if call.outcome.status in _CUT_OFF]
    return under_way[-1] if under_way else None
