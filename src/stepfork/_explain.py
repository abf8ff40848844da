"""Says what stopped a replay: recorded against now, what differs, and the ways on."""

from __future__ import annotations

from stepfork._calls import Call
from stepfork._replay import Frontier
from stepfork._replayed import Replayed
from stepfork._text import shown, shown_call, shown_path
from stepfork.errors import UnrecordedCall


def explain_frontier(replayed: Replayed, frontier: Frontier) -> UnrecordedCall:
    """Return the error for a call that the recording cannot answer."""
    call = frontier.call
    used = {other.moved_from or other.address for other in replayed.run.walk() if not other.unrecorded}
    detail: list[tuple[str, str]] = [("now", _at_site(shown_call(call), call.site))]
    if call.address in used or frontier.why.startswith("it "):
        detail.append(("why", frontier.why))
    for near in frontier.nearest:
        state = "used" if near.address in used else "unused"
        detail.append(("recorded", f"{shown_call(near)}   {near.address}, {state}"))
    if frontier.nearest:
        detail.append(("differs", _difference(frontier.nearest[0], call)))
    equal = [near for near in frontier.nearest if near.name == call.name and near.input == call.input]
    if equal:
        detail.append(("count", f"recorded {len(equal)} time(s) with these arguments; this is one more"))
    return UnrecordedCall(
        f"unrecorded call at {call.address}   {replayed.recording.path}",
        detail=detail,
        ways_on=ways_on(call, frontier),
        address=call.address,
        recording=str(replayed.recording.path),
    )


def ways_on(call: Call, frontier: Frontier) -> list[str]:
    """Return the ways past a call without an answer."""
    label = call.address.rpartition("/")[2]
    ways = [
        f'stub it           replay(..., override={{"{label}": ...}})',
        "run it live once  pytest --stepfork-extend",
    ]
    renamed = [near.name for near in frontier.nearest if near.name != call.name]
    if renamed:
        ways.insert(0, f'if it was renamed  @stepfork.{call.kind}(name="{renamed[0]}")')
    return ways


def _at_site(text: str, site: str | None) -> str:
    return f"{text}   {site}" if site else text


def _difference(recorded: Call, now: Call) -> str:
    from stepfork._compare import compare

    if recorded.name != now.name:
        return f"the name: {recorded.name} -> {now.name}"
    comparison = compare(recorded.input, now.input)
    lines = [
        f"{shown_path(difference.path)}: {_side(difference.kind, 'added', difference.old)} -> "
        f"{_side(difference.kind, 'removed', difference.new)}"
        for difference in comparison.differences[:5]
    ]
    if len(comparison.differences) > 5:
        lines.append(f"... and {len(comparison.differences) - 5} more")
    return "\n".join(lines) or "nothing but the place or the count"


def _side(kind: str, missing_when: str, value: object) -> str:
    return "(missing)" if kind == missing_when else shown(value, 80)
