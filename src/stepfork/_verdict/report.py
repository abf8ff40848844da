"""The report of a failed comparison, and what is said aloud about one that passed or was accepted."""

from __future__ import annotations

import difflib
import re
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from stepfork._frames import is_stand_in, is_users
from stepfork._replay.explain import explain_frontier
from stepfork._text import printable, shown, shown_apart, shown_arguments, shown_file, shown_path
from stepfork._verdict.document import ENDINGS, FLAGS, Node, kind_of
from stepfork._verdict.judge import short_type
from stepfork._verdict.lacking import lacking_variable, way_to_set
from stepfork.errors import UnrecordedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from stepfork._calls import Plain
    from stepfork._compare.compare import Difference
    from stepfork._verdict.align import Alignment, Changed
    from stepfork._verdict.assess import Assessment
    from stepfork._verdict.document import RuleTexts
    from stepfork._verdict.table import RowName


_MARKS = (*FLAGS, "closed early", "stopped", "cut off")
"""Entries of a node that are there or not."""

_ROWS = 60
"""Lines of differences shown in full; the rest is counted."""

_FRONTIERS = 3
"""Frontiers explained in full; the rest is counted."""


def report(assessment: Assessment, *, note: str) -> str:
    """Return what a failing ``assert run == snapshot`` says; ``note`` tells what may be written."""
    sections = [
        [_HEADS[assessment.row.name](assessment)],
        list(_frontiers(assessment)),
        list(_body_not_replayed(assessment)),
        list(_another_failure(assessment)),
        list(_stale(assessment)),
        list(_differences(assessment)),
        [note] if note else [],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


_COLOURS = (
    (re.compile(r"^ {4,6}- .*$", re.MULTILINE), "31"),
    (re.compile(r"^ {4,6}\+ .*$", re.MULTILINE), "32"),
    (re.compile(r"<- first divergence$", re.MULTILINE), "1;33"),
)


def coloured(text: str) -> str:
    """Return a report for a terminal: what was accepted red, what is now green."""
    for pattern, code in _COLOURS:
        text = pattern.sub(f"\033[0;{code}m\\g<0>\033[0m", text)
    return text


# The first line, for each row of the table.


def _still_failing(assessment: Assessment) -> str:
    return f"the recorded failure shows again: {printable(assessment.judgement.reason)}{_where(assessment)}"


def _where(assessment: Assessment) -> str:
    failure = assessment.replayed.run.failure
    if failure is None or not failure.address:
        return ""
    line = _users_line(assessment.replayed.error)
    return f" at {failure.address}" + (f" ({line})" if line else "")


def _users_line(error: BaseException | None) -> str:
    """Return where the agent's code raised: a line of this project if one is on the way."""
    entries = [entry for entry in _entries(error) if not is_stand_in(entry.tb_frame.f_code)]
    lines = [(entry.tb_frame.f_code.co_filename, entry.tb_lineno) for entry in entries]
    named = [(shown_file(Path(name)), number) for name, number in lines if is_users(name)]
    inside = [(name, number) for name, number in named if not Path(name).is_absolute()] or named
    return f"{inside[-1][0]}:{inside[-1][1]}" if inside else ""


def _entries(error: BaseException | None) -> Iterator[TracebackType]:
    entry = error.__traceback__ if error else None
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _stopped_at(assessment: Assessment) -> str:
    """Return the frontier's call in short: it is told in full below."""
    call = assessment.replayed.frontiers[0].call
    return shown_arguments(call.name, call.input, 60)


def _stale_only(assessment: Assessment) -> str:
    stale = len(assessment.replayed.stale)
    return (
        "cannot be judged offline: the prompt changed; "
        f"--stepfork-extend makes at least {stale} live call{'' if stale == 1 else 's'}"
    )


def _ended_badly(assessment: Assessment) -> str:
    replayed = assessment.replayed
    if replayed.timed_out:
        return str(replayed.error)
    failure = replayed.run.failure
    if failure is None:
        return "the replay gave nothing to compare: no step, tool or model was called"
    what = f"{short_type(failure.type)}: {failure.message}" if failure.kind == "raised" else failure.message
    return f"the replay ended badly: {printable(what)}{_where(assessment)}"


def _no_snapshot(assessment: Assessment) -> str:
    if assessment.renamed_from is not None:
        return (
            f"no snapshot at {shown_file(assessment.path)}; the same steps are accepted in "
            f"{shown_file(assessment.renamed_from)}, whose test is gone: an update moves it"
        )
    return f"no snapshot at {shown_file(assessment.path)}"


def _different(assessment: Assessment) -> str:
    if assessment.case.accepted == "recorded failure":
        return "the recorded failure is gone; the agent took these steps instead"
    return "the agent behaves differently from what was accepted"


_HEADS: dict[RowName, Callable[[Assessment], str]] = {
    "another assertion failed": lambda _: "another assertion of this test failed",
    "cannot be judged: stopped": lambda its: f"cannot be judged: stopped at {_stopped_at(its)}",
    "still failing": _still_failing,
    "cannot be judged: stale": _stale_only,
    "as accepted": lambda _: "as accepted",
    "as it failed": lambda _: "nothing differs from the run that failed, so it is not mended",
    "ended badly": _ended_badly,
    "no snapshot": _no_snapshot,
    "stopped, but ended once": lambda its: (
        f"the accepted run ended by itself; now the agent stopped at {_stopped_at(its)}"
    ),
    "failure gone, stopped": lambda its: (
        f"the recorded failure is gone; the agent went on to {_stopped_at(its)}"
    ),
    "stopped elsewhere": lambda its: f"the agent stopped at another call than accepted: {_stopped_at(its)}",
    "different": _different,
}


def _frontiers(assessment: Assessment) -> Iterator[str]:
    frontiers = assessment.replayed.frontiers
    for frontier in frontiers[:_FRONTIERS]:
        error = explain_frontier(assessment.replayed, frontier)
        accept = ["accept it         pytest --snapshot-update: offline, guards up to this call"]
        ways = [*(accept if assessment.row.update == "accept" else []), *error.ways_on]
        yield str(UnrecordedCall(error.what, detail=error.detail, ways_on=ways))
    if len(frontiers) > _FRONTIERS:
        yield f"... and {len(frontiers) - _FRONTIERS} more calls without an answer"


def _body_not_replayed(assessment: Assessment) -> Iterator[str]:
    """A fix inside a tool changes nothing in a replay, which serves the recorded exception."""
    failure = assessment.replayed.recording.run.failure
    if assessment.row.name != "still failing" or failure is None or failure.kind != "raised":
        return
    kinds = {call.address: call.kind for call in assessment.replayed.recording.run.walk()}
    if kinds.get(failure.address or "") in ("tool", "model"):
        label = (failure.address or "").rpartition("/")[2]
        yield f"it was raised inside {label}, whose body is not in the replay; to run that one call live:"
        yield f"  pytest --stepfork-extend={label}"


def _another_failure(assessment: Assessment) -> Iterator[str]:
    """Where the agent failed before it made the recorded calls, the recorded failure may be there yet."""
    replayed = assessment.replayed
    recorded = replayed.recording.run.failure
    if assessment.row.name != "ended badly" or replayed.error is None or replayed.timed_out:
        return
    unmade = sum(call.kind != "step" for call in replayed.unused_calls)
    if recorded is not None and recorded.kind == "raised" and unmade:
        told = printable(f"{short_type(recorded.type)}: {recorded.message}".rstrip(": "))
        made = sum(call.kind != "step" for call in replayed.recording.run.walk()) - unmade
        yield f"this is not the recorded failure, {told} at {recorded.address}:"
        yield f"  {made} of {made + unmade} recorded tool and model calls were made before it"
    lacking = lacking_variable(replayed.error)
    if lacking:
        yield way_to_set(lacking)


def _stale(assessment: Assessment) -> Iterator[str]:
    stale = assessment.replayed.stale
    if stale:
        yield f"answered by replies to other prompts: {', '.join(view.address for view in stale)}"


def _differences(assessment: Assessment) -> Iterator[str]:
    alignment = assessment.alignment
    if alignment is None or alignment.within:
        return
    accepted = assessment.renamed_from or assessment.path
    was = "recorded" if assessment.case.accepted == "recorded failure" else "accepted"
    yield f"{shown_file(accepted)}: - {was}, + now   ({alignment.summary()})"
    lines = list(difference_lines(alignment))
    kept = lines if len(lines) <= _ROWS else _without_dangling(lines[:_ROWS])
    yield from kept
    if len(lines) > len(kept):
        yield f"  ... and {len(lines) - len(kept)} more lines"


def _without_dangling(lines: list[str]) -> list[str]:
    """Return what is left of lines that were cut, without headings at their end."""
    while lines and not lines[-1].startswith("    "):
        lines = lines[:-1]
    return lines


_Section: TypeAlias = tuple[float, str, list[str]]


def difference_lines(alignment: Alignment) -> Iterator[str]:
    """Yield what differs call by call in the order in which it was seen, the first divergence marked."""
    sections = sorted(_sections(alignment), key=itemgetter(0))
    for number, (_, title, lines) in enumerate(sections):
        if number == 1:
            yield "  and what came after it:"
        yield f"  {title}{'   <- first divergence' if number == 0 and len(sections) > 1 else ''}"
        yield from lines
    if alignment.outcome:
        yield from (
            "  outcome",
            f"    - {_outcome(alignment.outcome[0])}",
            f"    + {_outcome(alignment.outcome[1])}",
        )
    if alignment.rules:
        yield from ("  tolerance", *_rules(*alignment.rules))
    for pair in alignment.moved:
        yield f"  moved: {pair.old_address} -> {pair.new_address}"


def _sections(alignment: Alignment) -> Iterator[_Section]:
    for changed in alignment.changed:
        address = changed.pair.new_address
        is_early = any(difference.path[0] not in ENDINGS for difference in changed.differences)
        when = (alignment.started if is_early else alignment.ended)[address]
        yield when, address, list(_changed(changed))
    for address, node in alignment.removed:
        yield alignment.missed[address], address, [f"    - {_node(node)}"]
    for address, node in alignment.added:
        yield alignment.started[address], address, [f"    + {_node(node)}"]
    for address in alignment.reordered:
        yield alignment.started[address], address, ["    in another order than accepted"]


def _changed(changed: Changed) -> Iterator[str]:
    old, new = changed.pair.old, changed.pair.new
    if changed.ended_otherwise:
        yield from (f"    - {_ending(old)}", f"    + {_ending(new)}")
    for difference in changed.differences:
        if changed.ended_otherwise and difference.path[0] in ENDINGS:
            continue
        path = shown_path(difference.path, new if difference.kind == "added" else old)
        yield from _difference(path, difference)
    if changed.truncated:
        yield "    not compared in full: too large, or out of time"


def _difference(path: str, difference: Difference) -> Iterator[str]:
    before, after = difference.old, difference.new
    if difference.kind == "added":
        yield f"    + {_entry(path, after)}"
    elif difference.kind == "removed":
        yield f"    - {_entry(path, before)}"
    elif isinstance(before, str) and isinstance(after, str) and ("\n" in before or "\n" in after):
        yield f"    {path}:"
        yield from _text_difference(before, after)
    else:
        old, new = shown_apart(before, after)
        yield from (f"    - {path}: {old}", f"    + {path}: {new}")


def _text_difference(before: str, after: str) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > 2000:
        old, new = _middle(old, new)
    for line in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]:
        if not line.startswith("@@"):
            yield f"      {line[0]} {printable(line[1:])}"[:200]


def _middle(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Leave out the equal ends, and bound the rest: difflib takes quadratic time."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    return old[start : start + 1000], new[start : start + 1000]


def _ending(node: Node) -> str:
    if "raised" in node or "suspended" in node:
        verb = "raised" if "raised" in node else "suspended"
        return printable(f"{verb} {short_type(node[verb])}: {node.get('message', '')}".rstrip(": "))
    return ", ".join(_entry(key, node[key]) for key in ENDINGS if key in node) or "no output"


def _entry(name: str, value: Plain) -> str:
    return name if value is True and name in _MARKS else f"{name}: {shown(value)}"


def _outcome(outcome: Node) -> str:
    if "stopped" in outcome:
        return f"stopped at {', '.join(outcome['stopped'])}"
    place = f" at {outcome['at']}" if outcome.get("at") else ""
    if "failed" in outcome:
        return f"failed: {printable(str(outcome['failed']))}{place}"
    if "raised" in outcome or "suspended" in outcome:
        return f"{_ending(outcome)}{place}"
    return ", ".join(outcome)


def _rules(old: RuleTexts, new: RuleTexts) -> Iterator[str]:
    for sign, side, other in (("-", old, new), ("+", new, old)):
        for name, rules in side.items():
            for path, text in rules.items():
                if other.get(name, {}).get(path) != text:
                    yield f"    {sign} {name}: {path} {text}"


def _node(node: Node) -> str:
    return f"{kind_of(node)} {shown_arguments(str(node[kind_of(node)]), node['input'])}"


def said_aloud(assessment: Assessment, *, accepted: bool) -> str:
    """Return what a passing comparison has to tell; empty where there is nothing."""
    parts: list[str] = []
    alignment = assessment.alignment
    if accepted:
        parts.append(f"accepted: {(alignment.summary() if alignment else '') or 'new snapshot'}")
    elif alignment is not None:
        if alignment.drifted:
            parts.append(f"{alignment.drift} drifted within tolerance")
        if alignment.moved:
            parts.append(f"{len(alignment.moved)} moved")
    if accepted and assessment.renamed_from is not None:
        parts.append(f"taken over from {shown_file(assessment.renamed_from)}")
    if assessment.case.stopped:
        parts.append(f"guards up to {_stopped_at(assessment)}")
    if assessment.on_stale:
        stale = assessment.replayed.stale
        parts.append(f"{len(stale)} stale repl{'y' if len(stale) == 1 else 'ies'}")
    return "; ".join(parts)


def said_of_live(calls: list[str]) -> str:
    """Return what is said of calls that ran live: they cost something, whatever came of the test."""
    return f"{len(calls)} call{' ran live and is' if len(calls) == 1 else 's ran live and are'} kept"
