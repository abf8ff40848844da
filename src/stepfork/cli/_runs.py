"""``stepfork runs``: the runs that were kept, newest first."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork._recording import read_run
from stepfork._retention import times_seen
from stepfork._store import StoredRun, how_to_record, list_runs, runs_folder
from stepfork._text import ago
from stepfork.cli import _words
from stepfork.cli._terminal import Line, Span, cells, columns, cut, cut_start, show, show_json, width
from stepfork.errors import OptionError, RecordingMissing, RecordingTooNew, StepforkError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from stepfork._calls import Run, Usage

_SHOWN_WITHOUT_LIMIT = 20


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "runs",
        help="list the runs that were kept, newest first",
        description="List the runs that were kept, newest first.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--failed", action="store_true", help="only runs that failed, and files that cannot be read"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="the newest N (default: 20; all with --json)")
    parser.add_argument("--json", action="store_true", help="for machines")


class _Row(NamedTuple):
    """One run of the list; of a file that cannot be used ``damage`` says why."""

    stored: StoredRun
    outcome: Span
    place: str = ""
    calls: int = 0
    usage: Usage | None = None
    run: dict[str, Any] | None = None
    damage: StepforkError | None = None


def run(args: argparse.Namespace) -> int:
    """List the runs."""
    if args.limit is not None and args.limit < 1:
        raise OptionError(f"--limit {args.limit} shows nothing", ways_on=["give a number from 1 on"])
    folder = runs_folder()
    stored = list_runs(folder)
    rows = _rows(stored, times_seen(folder), only_failed=args.failed)
    if args.json:
        show_json({"folder": str(folder), "runs": [_document(row) for row in islice(rows, args.limit)]})
    elif not stored:
        show(_how_to_record(folder))
    else:
        limit = args.limit or _SHOWN_WITHOUT_LIMIT
        shown = list(islice(rows, limit))
        show(
            _table(shown) if shown else [[Span(f"None of the {_words.count_of(len(stored), 'run')} failed.")]]
        )
        if next(rows, None) is not None:
            show([[Span(f"more with --limit {10 * limit}", "faint")]])
    return 0


def _rows(runs: list[StoredRun], seen: dict[str, int], *, only_failed: bool) -> Iterator[_Row]:
    for stored in runs:
        try:
            # Not stored.run: a thousand runs need not be in memory at once.
            run = read_run(stored.path)
        except RecordingMissing:
            continue  # removed since the folder was listed
        except StepforkError as error:
            yield _Row(stored, _damage(error), place=_spot(stored.path, error), damage=error)
        else:
            if run.failure is not None or not only_failed:
                yield _Row(
                    stored,
                    _words.outcome(run),
                    _words.place(run),
                    sum(1 for _ in run.walk()),
                    run.usage,
                    {**_facts(run), "seen": seen.get(stored.id, 1)},
                )


def _damage(error: StepforkError) -> Span:
    return Span("made by a newer stepfork" if isinstance(error, RecordingTooNew) else "damaged", "warning")


def _spot(path: Path, error: StepforkError) -> str:
    line = error.facts.get("line")
    return path.name if line is None else f"{path.name}:{line}"


def _facts(run: Run) -> dict[str, Any]:
    return {
        "ended": run.ended,
        "killed": _words.was_killed(run),
        "going_on": _words.is_going_on(run),
        "incomplete": run.incomplete,
        "failure": run.failure,
        "seconds": run.seconds,
        "parent": run.parent,
    }


def _document(row: _Row) -> dict[str, Any]:
    stored = row.stored
    known = {"id": stored.id, "name": stored.name, "path": str(stored.path), "started": stored.started}
    if row.damage is not None:
        error = {"code": row.damage.code, "what": row.damage.what, "detail": row.damage.detail}
        return {**known, "outcome": row.outcome.text, "error": error}
    shown = {"outcome": row.outcome.text, "place": row.place, "calls": row.calls, "usage": row.usage}
    return {**known, **shown, **(row.run or {})}


_HEADINGS = ("RUN", "AGENT", "OUTCOME", "WHERE", "CALLS", "TOKENS", "AGE")
_TOKENS = 5
"""The column that is left out where no run says what it used, and on a narrow terminal."""
_SHRINKABLE = ((2, 18), (3, 16), (1, 8))
"""Columns that give way on a narrow terminal, in this order, and the cells that they keep."""


def _table(rows: list[_Row]) -> list[Line]:
    texts = [_HEADINGS, *map(_texts, rows)]
    widths = _fitting(texts)
    if all(row.usage is None for row in rows) or _taken(widths) > width():
        texts = [(*each[:_TOKENS], *each[_TOKENS + 1 :]) for each in texts]
        widths = _fitting(texts)
    headings, *texts_of_rows = texts
    table = [[[Span(text, "faint")] for text in headings]]
    for row, (run_id, agent, outcome, where, *numbers, age) in zip(rows, texts_of_rows, strict=True):
        table.append(
            [
                [Span(run_id, "strong")],
                [Span(cut(agent, widths[1]))],
                [Span(cut(outcome, widths[2]), row.outcome.style)],
                [Span(cut_start(where, widths[3]))],
                *([Span(number)] for number in numbers),
                [Span(age, "faint")],
            ]
        )
    return columns(table, right=frozenset({4}))


def _texts(row: _Row) -> tuple[str, ...]:
    calls = "" if row.damage is not None else str(row.calls)
    age = ago(time.time() - row.stored.started)
    outcome = _times(row.outcome.text, (row.run or {}).get("seen", 1))
    tokens = _words.tokens(row.usage)
    return row.stored.id, row.stored.name or "?", outcome, row.place, calls, tokens, age


def _times(outcome: str, seen: int) -> str:
    """Add how often the failure was seen: of most of its runs nothing else is left."""
    return outcome if seen < 2 else f"{outcome} ({seen} times)"


def _fitting(texts: list[tuple[str, ...]]) -> list[int]:
    widths = [max(map(cells, column)) for column in zip(*texts, strict=True)]
    too_wide = _taken(widths) - width()
    for column, least in _SHRINKABLE:
        given = min(max(too_wide, 0), max(widths[column] - least, 0))
        widths[column] -= given
        too_wide -= given
    return widths


def _taken(widths: list[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _how_to_record(folder: Path) -> Iterator[Line]:
    yield [Span("No runs yet in "), Span(str(folder), "strong")]
    yield []
    yield from ([Span(line)] for line in how_to_record())
