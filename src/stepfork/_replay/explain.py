"""Says what stopped a replay: recorded against now, what differs, and the ways on."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from stepfork._calls import parent_address
from stepfork._text import columns, shown, shown_apart, shown_call, shown_file, shown_path
from stepfork.errors import UnrecordedCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from stepfork._calls import Call
    from stepfork._compare.compare import Difference
    from stepfork._replay.frame import Frontier
    from stepfork._replay.result import Replayed

_DIFFERENCES = 5


_MARGIN = 8
"""Columns that pytest needs before a line."""

_NARROW = 40
"""The least that is shown of a call."""


class _Row(NamedTuple):
    label: str
    text: str | Call
    note: str = ""
    """Stands in a column of its own, on the right."""


def explain_frontier(replayed: Replayed, frontier: Frontier) -> UnrecordedCall:
    """Return the error for a call that the recording cannot answer."""
    return explain(replayed.recording.path, replayed.run.walk(), frontier, replayed.unknown_overrides)


def explain(
    recording: Path, made: Iterable[Call], frontier: Frontier, unknown_overrides: Mapping[str, list[str]]
) -> UnrecordedCall:
    """Do the same for the calls that were ``made`` so far."""
    call = frontier.call
    others = [other for other in made if not other.unrecorded and other.kind != "step"]
    rows = [
        *_recorded(frontier, {other.moved_from or other.address for other in others}),
        _Row("now", call, call.site or ""),
        *_differences(frontier),
        *_count(frontier, others),
        *_unused_overrides(unknown_overrides),
    ]
    what, detail = _in_columns(f"unrecorded call at {call.address}", shown_file(recording), rows)
    return UnrecordedCall(
        what,
        detail=detail,
        ways_on=ways_on(frontier),
        address=call.address,
        recording=str(recording),
        site=call.site,
    )


def ways_on(frontier: Frontier) -> list[str]:
    """Return the ways past a call without an answer."""
    call = frontier.call
    ways = [
        f'stub it           replay(..., override={{"{call.label}": ...}})',
        "run it live once  pytest --stepfork-extend" + (f"={call.label}" if frontier.is_in_part else ""),
    ]
    renamed = [near.name for near in frontier.nearest if near.name != call.name]
    if renamed:
        ways.insert(0, f'if it was renamed @stepfork.{call.kind}(name="{renamed[0]}")')
    return ways


def _recorded(frontier: Frontier, used: set[str]) -> Iterator[_Row]:
    call = frontier.call
    for number, near in enumerate(frontier.nearest):
        note = "used" if near.address in used else "unused"
        if parent_address(near.address) != parent_address(call.address):
            note += f", at {near.address}"
        yield _Row("" if number else "recorded", near, note)
    if not frontier.nearest and not frontier.is_in_part:
        yield _Row("recorded", f"no call of {call.name}")


def _differences(frontier: Frontier) -> Iterator[_Row]:
    call = frontier.call
    nearest = frontier.nearest[0] if frontier.nearest else None
    if not frontier.why.startswith("the recording"):
        yield _Row("why", frontier.why)
    elif nearest is not None and nearest.name != call.name:
        yield _Row("differs", f"the name: {nearest.name} -> {call.name}")
    elif nearest is not None:
        lines = list(_changes(nearest, call))
        if lines:
            yield _Row("differs", "\n".join(lines))


def _changes(recorded: Call, now: Call) -> Iterator[str]:
    from stepfork._compare.compare import compare

    differences = compare(recorded.input, now.input).differences
    for difference in differences[:_DIFFERENCES]:
        old, new = _shown_difference(difference)
        within = now.input if difference.kind == "added" else recorded.input
        yield f"{shown_path(difference.path, within)}: {old} -> {new}"
    if len(differences) > _DIFFERENCES:
        yield f"... and {len(differences) - _DIFFERENCES} more"


def _shown_difference(difference: Difference) -> tuple[str, str]:
    if difference.kind == "added":
        return "(missing)", shown(difference.new, 80)
    if difference.kind == "removed":
        return shown(difference.old, 80), "(missing)"
    return shown_apart(difference.old, difference.new, 80)


def _count(frontier: Frontier, others: list[Call]) -> Iterator[_Row]:
    """Of a call that was made more often than recorded, how often, and where else."""
    call = frontier.call
    equal = [other for other in others if other.name == call.name and other.input == call.input]
    if not equal or not frontier.why.startswith("the recording"):
        return
    recorded = f"{len(equal)} call{'' if len(equal) == 1 else 's'}"
    yield _Row("count", f"recorded {recorded}, this is call {len(equal) + 1}")
    for other in equal[-3:]:
        yield _Row("", other.label, other.site or "")


def _unused_overrides(unknown: Mapping[str, list[str]]) -> Iterator[_Row]:
    """Of the overrides that fit nothing, and may have been meant for this call."""
    for number, (key, near) in enumerate(unknown.items()):
        yield _Row("" if number else "unused", f"override {key!r}: near {', '.join(near) or 'none'}")


def _in_columns(what: str, where: str, rows: list[_Row]) -> tuple[str, list[tuple[str, str]]]:
    """Return title and rows with everything that stands on the right in one column, if the lines hold it."""
    labels = max(len(label) for label in chain((row.label for row in rows), ["ways on"])) + 3
    room = columns() - _MARGIN - 2 - labels
    widest_note = max([len(row.note) for row in rows if not isinstance(row.text, str)], default=0)
    texts = [_shown_text(row.text, max(room - 3 - widest_note, _NARROW)) for row in rows]
    width = max((len(text) for text, row in zip(texts, rows, strict=True) if row.note), default=0) + 3
    shown_rows = [
        (row.label, f"{text:<{width}}{row.note}" if row.note else text)
        for text, row in zip(texts, rows, strict=True)
    ]
    indent = 2 + labels - len(f"{UnrecordedCall.code} ")
    width = max(width, len(what) - indent + 3)
    if width + len(where) > room:
        return what, [*shown_rows, ("in", where)]
    return f"{what:<{width + indent}}{where}", shown_rows


def _shown_text(text: str | Call, limit: int) -> str:
    return text if isinstance(text, str) else shown_call(text, limit)
