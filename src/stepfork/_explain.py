"""Says what stopped a replay: recorded against now, what differs, and the ways on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepfork._calls import Call, parent_address
from stepfork._text import shown, shown_call, shown_file, shown_path
from stepfork.errors import UnrecordedCall

if TYPE_CHECKING:
    from stepfork._replay import Frontier
    from stepfork._replayed import Replayed

_SHOWN = 5
"""Differences of one call that are listed."""


def explain_frontier(replayed: Replayed, frontier: Frontier) -> UnrecordedCall:
    """Return the error for a call that the recording cannot answer."""
    call = frontier.call
    used = {other.moved_from or other.address for other in replayed.run.walk() if not other.unrecorded}
    rows = [
        _Row("recorded", shown_call(near), _standing(near, call, used=near.address in used))
        for near in frontier.nearest
    ]
    rows.append(_Row("now", shown_call(call), call.site or ""))
    if call.address in used or frontier.why.startswith("it "):
        rows.append(_Row("why", frontier.why))
    if frontier.nearest:
        rows.extend(
            _Row("differs" if number == 0 else "", line) for number, line in enumerate(_differences(frontier))
        )
    equal = [near for near in frontier.nearest if near.name == call.name and near.input == call.input]
    if equal:
        rows.append(_Row("count", f"recorded {_times(len(equal))} with these arguments; this is one more"))
    what, detail = _in_columns(
        f"unrecorded call at {call.address}", shown_file(replayed.recording.path), rows
    )
    return UnrecordedCall(
        what,
        detail=detail,
        ways_on=ways_on(call, frontier),
        address=call.address,
        recording=str(replayed.recording.path),
    )


class _Row(NamedTuple):
    label: str
    text: str
    place: str = ""


def _standing(near: Call, call: Call, *, used: bool) -> str:
    """Say what became of a recorded call, and where it stood if that is another parent."""
    elsewhere = parent_address(near.address) != parent_address(call.address)
    return f"{'used' if used else 'unused'}{f', {near.address}' if elsewhere else ''}"


def _in_columns(what: str, file: str, rows: list[_Row]) -> tuple[str, list[tuple[str, str]]]:
    """Let file, lines of code and states stand in one column on the right."""
    head = len(UnrecordedCall.code) + 1
    indent = 2 + max(len("ways on"), *(len(row.label) for row in rows)) + 3
    texts = [len(row.text) for row in rows if row.place]
    column = max(head + len(what), *(indent + length for length in texts), 0) + 4
    detail = [
        (row.label, f"{row.text:<{column - indent}}{row.place}" if row.place else row.text) for row in rows
    ]
    return f"{what:<{column - head}}{file}", detail


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


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


def _differences(frontier: Frontier) -> list[str]:
    from stepfork._compare import compare

    recorded, now = frontier.nearest[0], frontier.call
    if recorded.name != now.name:
        return [f"the name: {recorded.name} -> {now.name}"]
    differences = compare(recorded.input, now.input).differences
    lines = []
    for path, kind, old, new in differences[:_SHOWN]:
        sides = f"{_side(kind, 'added', old)} -> {_side(kind, 'removed', new)}"
        lines.append(f"{shown_path(path, recorded.input)}: {sides}")
    if len(differences) > _SHOWN:
        lines.append(f"... and {len(differences) - _SHOWN} more")
    return lines or ["nothing but the place or the count"]


def _side(kind: str, missing_when: str, value: object) -> str:
    return "(missing)" if kind == missing_when else shown(value, 80)
