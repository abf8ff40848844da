"""``stepfork show``: the calls of a run as a tree, or one of them in full."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._answers import answer_of
from stepfork._near import did_you_mean, near_names
from stepfork._store import find_run, runs_folder
from stepfork._text import ago
from stepfork.cli import _words
from stepfork.cli._arguments import add_run
from stepfork.cli._terminal import Line, Span, Style, columns, cut, glyphs, show, show_json, width
from stepfork.cli._values import exception_text, first_lines, pretty, pretty_fields, short_input, text_of
from stepfork.errors import OptionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from stepfork._calls import Call, Run
    from stepfork._store import StoredRun

_LINES_OF_A_MESSAGE = 12
_WIDEST_INDENT = 60
_CANDIDATES_SHOWN = 10
_LEAST_CALL, _LEAST_OUTCOME = 24, 12
_KIND_STYLES: dict[str, Style] = {"step": "faint", "tool": "tool", "model": "model"}


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "show",
        help="show the calls of a run, or one of them in full",
        description="Show the calls of a run as a tree, or one of them with its whole input and output.",
        allow_abbrev=False,
    )
    add_run(parser)
    parser.add_argument(
        "address", metavar="ADDRESS", nargs="?", help="of one call, or the end of it: search#2"
    )
    parser.add_argument("--json", action="store_true", help="for machines")


def run(args: argparse.Namespace) -> int:
    """Show the run, or the call."""
    stored = find_run(args.run, runs_folder())
    if args.address is not None:
        call = find_call(stored.run, args.address)
        if args.json:
            show_json(_call_document(call))
        else:
            show(_whole_call(stored.run, call))
    elif args.json:
        show_json(_run_document(stored))
    else:
        show(_whole_run(stored, shlex.quote(args.run or stored.id)))
    return 0


def find_call(run: Run, text: str) -> Call:
    """Return the call whose address is ``text`` or ends with it: ``search#2``, ``search`` where there is one.

    Raises:
        OptionError: no call is meant, or several are.
    """
    calls = {call.address: call for call in run.walk()}
    if text in calls:
        return calls[text]
    ends = [call for address, call in calls.items() if address.endswith(f"/{text}") or call.name == text]
    if len(ends) == 1:
        return ends[0]
    if ends:
        addresses = [call.address for call in ends]
        shown = addresses[:_CANDIDATES_SHOWN]
        left_out = len(addresses) - len(shown)
        raise OptionError(
            f"{len(ends)} calls of run {run.id} are meant by {text!r}",
            ways_on=[*shown, *([f"and {left_out} more"] if left_out else [])],
            candidates=addresses,
        )
    raise OptionError(
        f"there is no call {text!r} in run {run.id}",
        ways_on=[*did_you_mean(_near(text, calls)), f"all of them: stepfork show {run.id}"],
        candidates=[],
    )


def _near(text: str, addresses: dict[str, Call]) -> list[str]:
    by_end = {address.rpartition("/")[2]: address for address in addresses}
    return [by_end[end] for end in near_names(text.rpartition("/")[2], by_end)]


def _whole_run(stored: StoredRun, named: str) -> Iterator[Line]:
    run = stored.run
    yield from _heading(stored)
    yield []
    yield from _tree(run)
    yield []
    place = _words.place(run)
    if place:
        yield [Span(f"one call in full: stepfork show {named} {_shortest_end(run, place)}", "faint")]
    if run.failure is not None:
        yield [Span(f"a test of it:     stepfork make-test {named}", "faint")]


def _shortest_end(run: Run, address: str) -> str:
    label = address.rpartition("/")[2]
    alone = sum(call.label == label for call in run.walk()) == 1
    return label if alone else address


def _heading(stored: StoredRun) -> Iterator[Line]:
    run = stored.run
    yield [Span(run.name, "strong"), Span(f"  {run.id}  "), _words.outcome(run)]
    count = _words.count_of(sum(1 for _ in run.walk()), "call")
    length = f" in {_words.duration(run.seconds)}" if run.ended else ""
    used = f", {_words.total_of_tokens(run.usage)}" if run.usage is not None else ""
    age = ago(time.time() - run.started)
    yield [Span(f"{count}{length}{used}, {age}, {os.path.relpath(stored.path)}", "faint")]
    if run.parent is not None:
        yield [Span(f"in a process that run {run.parent} started", "faint")]


def _tree(run: Run) -> Iterator[Line]:
    """Yield one line a call, and below the one where it went wrong what went wrong."""
    drawn = list(_drawn(run.root))
    rows = _rows(run, drawn)
    place = _words.place(run)
    for (call, _, below), line in zip(drawn, rows, strict=True):
        yield line
        if call.address == place:
            yield from _what_went_wrong(run, call, below)


def _drawn(root: Call) -> Iterator[tuple[Call, str, str]]:
    """Yield each call with what is drawn before it, and before further lines of its own."""
    draw = glyphs()
    waiting = [(root, "", "")]
    while waiting:
        call, before, below = waiting.pop()
        space = " " * len(draw.trunk)
        yield call, before, _bounded(below + (draw.trunk if call.children else space))
        last = len(call.children) - 1
        for number in range(last, -1, -1):
            ends = number == last
            waiting.append(
                (
                    call.children[number],
                    _bounded(below + (draw.last_branch if ends else draw.branch)),
                    _bounded(below + (space if ends else draw.trunk)),
                )
            )


def _bounded(drawn: str) -> str:
    """Return what is drawn before a call, no wider than the deepest level that is indented."""
    return drawn[-_WIDEST_INDENT:]


def _rows(run: Run, drawn: list[tuple[Call, str, str]]) -> list[Line]:
    marks = [_mark(run, call) for call, _, _ in drawn]
    lengths = [_words.duration(call.seconds) if call.outcome.status in _TIMED else "" for call, _, _ in drawn]
    room = width() - 5 - 2 - 2 - 2 - max(map(len, lengths)) - _column(marks)
    used = [_words.tokens(call.outcome.usage) for call, _, _ in drawn]
    has_used = any(used) and room - _column(used) >= _LEAST_CALL + _LEAST_OUTCOME
    limits = _limits(room - _column(used) if has_used else room)
    rows = [
        [
            *_row(run, call, before, mark, limits),
            [Span(length, "faint")],
            *([[Span(tokens, "faint")]] if has_used else []),
            [Span(mark, _style(run, call))],
        ]
        for (call, before, _), length, tokens, mark in zip(drawn, lengths, used, marks, strict=True)
    ]
    return columns(rows, right=frozenset({3}))


def _column(texts: list[str]) -> int:
    """Return the cells that a column takes which is there only where one of its rows has something."""
    return max(map(len, texts)) + 2 if any(texts) else 0


def _row(run: Run, call: Call, before: str, mark: str, limits: tuple[int, int]) -> list[Line]:
    """Return the call and what it did, each within its limit."""
    style = _style(run, call)
    named = f"({short_input(call.input)})"
    outcome = _words.call_outcome(call, limits[1], told_below=bool(mark))
    return [
        [Span(call.kind, _KIND_STYLES[call.kind])],
        [
            Span(before, "faint"),
            Span(call.label, style if mark else "strong"),
            Span(cut(named, max(limits[0] - len(before) - len(call.label), 0)), "faint"),
        ],
        [Span(cut(outcome, limits[1]), style)],
    ]


_TIMED = ("returned", "raised", "suspended", "closed_early")


def _limits(room: int) -> tuple[int, int]:
    """Share the room between the call and its outcome."""
    outcome = max(room * 2 // 5, _LEAST_OUTCOME)
    return max(room - outcome, _LEAST_CALL), outcome


def _mark(run: Run, call: Call) -> str:
    if call.address == _words.place(run) and run.failure is not None:
        return f"{glyphs().arrow} failed here"
    return f"{glyphs().arrow} killed here" if _words.is_last_killed(call) else ""


def _style(run: Run, call: Call) -> Style:
    status = call.outcome.status
    if run.failure is not None and call.address == _words.place(run):
        return "failed"
    if status == "raised":
        return (
            "failed" if run.failure is not None and call.outcome.origin == run.failure.address else "warning"
        )
    return "" if status == "returned" else "warning"


def _what_went_wrong(run: Run, call: Call, below: str) -> Iterator[Line]:
    if run.failure is None:
        return
    text, line_of_code = run.failure.message, ""
    if run.failure.kind == "raised" and call.outcome.has_exception:
        text = exception_text(call.outcome.value)
        line_of_code = text_of(call.outcome.value.get("at"))
    for line in first_lines(text, _LINES_OF_A_MESSAGE):
        yield [Span(" " * 7), Span(below, "faint"), Span(line, "failed")]
    if line_of_code:
        yield [Span(" " * 7), Span(below, "faint"), Span(f"at {line_of_code}", "faint")]


def _whole_call(run: Run, call: Call) -> Iterator[Line]:
    place = _words.place(run)
    yield [Span(f"{call.kind} ", _KIND_STYLES[call.kind]), Span(call.address, "strong")]
    status = call.outcome.status.replace("_", " ")
    length = f" in {_words.duration(call.seconds)}" if call.outcome.status in _TIMED else ""
    mark = f"  {_mark(run, call)}" if place == call.address else ""
    yield [Span(f"{status}{length}"), Span(mark, _style(run, call))]
    if call.outcome.usage is not None:
        yield [Span(_words.exact_tokens(call.outcome.usage))]
    if call.lossy:
        yield [Span("something in it could not be recorded and stands as a placeholder", "warning")]
    yield from _section("input", pretty_fields(call.input, width() - 2) or ["(no arguments)"])
    answer = answer_of(call.outcome.items)
    if answer is not None:
        yield from _section("answer", [line for text in answer.lines for line in text.splitlines()])
    if call.outcome.items is not None:
        yield from _section(
            "chunks" if answer is None else "as it came over the wire",
            pretty(call.outcome.items, width() - 2),
        )
    if call.outcome.has_exception:
        yield from _section(call.outcome.status, pretty(call.outcome.value, width() - 2), "failed")
        if call.outcome.origin not in (None, call.address):
            yield [Span(f"  first seen at {call.outcome.origin}", "faint")]
    elif call.outcome.status == "returned" and answer is None:
        yield from _section("output", pretty(call.outcome.value, width() - 2))
    if call.outcome.changes:
        yield from _section("changed in place", pretty_fields(call.outcome.changes, width() - 2))


def _section(title: str, lines: list[str], style: Style = "") -> Iterator[Line]:
    yield []
    yield [Span(title, "strong")]
    for line in lines:
        yield [Span("  "), Span(line, style)]


def _run_document(stored: StoredRun) -> dict[str, Any]:
    run = stored.run
    return {
        "id": run.id,
        "name": run.name,
        "path": str(stored.path),
        "outcome": _words.outcome(run).text,
        "place": _words.place(run),
        "failure": run.failure,
        "criterion": run.criterion,
        "entry": run.entry,
        "started": run.started,
        "seconds": run.seconds,
        "usage": run.usage,
        "ended": run.ended,
        "incomplete": run.incomplete,
        "made_by": run.made_by,
        "parent": run.parent,
        "calls": [_call_document(call) for call in run.walk()],
    }


def _call_document(call: Call) -> dict[str, Any]:
    return {
        "address": call.address,
        "kind": call.kind,
        "name": call.name,
        "seconds": call.seconds,
        "lossy": call.lossy,
        "usage": call.outcome.usage,
        "input": call.input,
        "outcome": msgspec.structs.replace(call.outcome, usage=None),
    }
