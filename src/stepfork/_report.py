"""The report of a failed comparison, and what is said aloud about one that passed or was accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from stepfork._align import Alignment, Changed
from stepfork._assess import Assessment
from stepfork._document import Node, kind_of, walk
from stepfork._explain import explain_frontier
from stepfork._text import shown, shown_arguments, shown_path

_ROWS = 40
"""Differences shown in full; the rest is counted."""


def report(assessment: Assessment, *, updating: bool) -> str:
    """Return what a failing ``assert run == snapshot`` says."""
    head = _HEADS[assessment.row.name](assessment)
    lines = [head, *_frontier(assessment), *_differences(assessment)]
    if updating and assessment.row.update == "refuse":
        lines.append(f"--snapshot-update refused: {assessment.path.name} is left as it was")
    elif assessment.row.update == "accept":
        lines.append("accept it with: pytest --snapshot-update")
    return "\n".join(lines)


def _still_failing(assessment: Assessment) -> str:
    failure = assessment.replayed.recording.run.failure
    where = f" at {failure.address}" if failure is not None and failure.address else ""
    return f"StillFailing: the recorded failure shows again: {assessment.judgement.reason}{where}"


def _cannot_be_judged_stopped(assessment: Assessment) -> str:
    call = assessment.replayed.frontiers[0].call
    return f"cannot be judged: stopped at {shown_arguments(call.name, call.input)}"


def _cannot_be_judged_stale(assessment: Assessment) -> str:
    stale = len(assessment.replayed.stale)
    return (
        "cannot be judged offline: the prompt changed and the old replies show the recorded failure again; "
        f"--stepfork-extend makes at least {stale} live call{'' if stale == 1 else 's'}"
    )


def _ended_badly(assessment: Assessment) -> str:
    replayed = assessment.replayed
    if replayed.timed_out:
        return str(replayed.error)
    failure = replayed.run.failure
    if failure is None:
        return "the replay gave nothing to compare: no step, tool or model was called"
    what = f"{failure.type}: {failure.message}" if failure.kind == "raised" else f"failed: {failure.message}"
    return f"the replay ended badly: {what.removeprefix('builtins:')} at {failure.address}"


def _no_snapshot(assessment: Assessment) -> str:
    if assessment.renamed_from is not None:
        return f"no snapshot at {assessment.path}; {assessment.renamed_from.name} is of the same recording, its test is gone"
    return f"no snapshot at {assessment.path}"


def _stopped_but_ended(assessment: Assessment) -> str:
    call = assessment.replayed.frontiers[0].call
    return f"the accepted run ended by itself; now the agent stopped at {shown_arguments(call.name, call.input)}"


def _gone_and_stopped(assessment: Assessment) -> str:
    call = assessment.replayed.frontiers[0].call
    return f"the recorded failure is gone; the agent went on to {shown_arguments(call.name, call.input)}"


def _stopped_elsewhere(assessment: Assessment) -> str:
    call = assessment.replayed.frontiers[0].call
    return f"the agent stopped at another call than accepted: {shown_arguments(call.name, call.input)}"


def _different(assessment: Assessment) -> str:
    if assessment.case.accepted == "recorded failure":
        return "the recorded failure is gone; the agent took these steps instead"
    return "the agent behaves differently from what was accepted"


_HEADS = {
    "another assertion failed": lambda _: "another assertion of this test failed",
    "cannot be judged: stopped": _cannot_be_judged_stopped,
    "still failing": _still_failing,
    "cannot be judged: stale": _cannot_be_judged_stale,
    "as accepted": lambda _: "as accepted",
    "ended badly": _ended_badly,
    "no snapshot": _no_snapshot,
    "stopped, but ended once": _stopped_but_ended,
    "failure gone, stopped": _gone_and_stopped,
    "stopped elsewhere": _stopped_elsewhere,
    "different": _different,
}


def _frontier(assessment: Assessment) -> Iterator[str]:
    replayed = assessment.replayed
    for frontier in replayed.frontiers[:3]:
        yield ""
        yield str(explain_frontier(replayed, frontier))
    if replayed.frontiers:
        if assessment.row.update == "accept":
            yield "  or accept it: offline, the test then guards up to that call"
        yield from _raised_inside_tool(assessment)
        yield ""


def _raised_inside_tool(assessment: Assessment) -> Iterator[str]:
    failure = assessment.replayed.recording.run.failure
    if failure is None or failure.kind != "raised":
        return
    kinds = {call.address: call.kind for call in assessment.replayed.recording.run.walk()}
    if kinds.get(failure.address or "") in ("tool", "model"):
        yield f"  the failure was raised inside {failure.address}, whose body is not in the replay: "
        yield f"  --stepfork-extend={(failure.address or '').rpartition('/')[2]} runs that one call live"


def _differences(assessment: Assessment) -> Iterator[str]:
    alignment = assessment.alignment
    if alignment is None or alignment.within:
        return
    yield ""
    yield f"{assessment.path.name}: - accepted, + now   ({alignment.summary()})"
    places = {address: number for number, (address, _) in enumerate(walk(assessment.new["calls"]))}
    lines = list(difference_lines(alignment, places))
    yield from lines[:_ROWS]
    if len(lines) > _ROWS:
        yield f"  ... and {len(lines) - _ROWS} more lines"
    yield ""


def difference_lines(alignment: Alignment, places: Mapping[str, int]) -> Iterator[str]:
    """Yield what differs call by call, in the order of ``places``, the first divergence marked."""
    sections = [
        *((changed.address, list(_changed(changed))) for changed in alignment.changed),
        *((address, [f"    - {_node(node)}"]) for address, node in alignment.removed),
        *((address, [f"    + {_node(node)}"]) for address, node in alignment.added),
        *((address, ["    in another order than accepted"]) for address in alignment.reordered),
    ]
    sections.sort(key=lambda section: places.get(section[0], len(places)))
    for number, (address, lines) in enumerate(sections):
        yield f"  {address}{'   <- first' if number == 0 and len(sections) > 1 else ''}"
        yield from lines
    if alignment.outcome:
        yield f"  outcome\n    - {shown(alignment.outcome[0])}\n    + {shown(alignment.outcome[1])}"
    if alignment.rules:
        yield f"  rules\n    - {shown(alignment.rules[0])}\n    + {shown(alignment.rules[1])}"
    for pair in alignment.moved:
        yield f"  moved: {pair.old_address} -> {pair.new_address}"


def _changed(changed: Changed) -> Iterator[str]:
    for difference in changed.differences:
        path = shown_path(difference.path)
        old, new = difference.old, difference.new
        if isinstance(old, str) and isinstance(new, str) and ("\n" in old or "\n" in new or len(old) + len(new) > 160):
            yield f"    {path}:"
            yield from _text_difference(old, new)
            continue
        if difference.kind != "added":
            yield f"    - {path}: {shown(old)}"
        if difference.kind != "removed":
            yield f"    + {path}: {shown(new)}"


def _text_difference(old: str, new: str) -> Iterator[str]:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)
    for line in list(lines)[2:]:
        yield f"      {line}"[:200]


def _node(node: Node) -> str:
    return f"{kind_of(node)} {shown_arguments(str(node[kind_of(node)]), node['input'])}"


def said_aloud(assessment: Assessment, *, accepted: bool) -> str:
    """Return what a passing comparison has to tell; empty where there is nothing."""
    parts: list[str] = []
    alignment = assessment.alignment
    if accepted:
        summary = alignment.summary() if alignment else ""
        parts.append(f"accepted: {summary}" if summary else "accepted: new snapshot")
        if assessment.renamed_from is not None:
            parts.append(f"taken over from {assessment.renamed_from.name}")
    elif alignment is not None:
        if alignment.drifted:
            parts.append(f"{alignment.drift} drifted within tolerance")
        if alignment.moved:
            parts.append(f"{len(alignment.moved)} moved")
    if assessment.case.stopped:
        call = assessment.replayed.frontiers[0].call
        parts.append(f"guards up to {shown_arguments(call.name, call.input, 80)}")
    if assessment.on_stale:
        parts.append(f"{len(assessment.replayed.stale)} stale")
    return "; ".join(parts)
