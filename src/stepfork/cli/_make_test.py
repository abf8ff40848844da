"""``stepfork make-test``: one command from a failed run to a test that is red until the agent is fixed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._calls import Criterion
from stepfork._paths import project_root
from stepfork._store import find_run, runs_folder
from stepfork.cli._progress import progress
from stepfork.cli._terminal import Line, Span, show, show_json
from stepfork.errors import OptionError

if TYPE_CHECKING:
    import argparse

    from stepfork._make_test import Made


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "make-test",
        help="make a pytest test of a run, and prove it",
        description="Make a pytest test of a run, and prove it.",
        allow_abbrev=False,
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="an id, the beginning of one, or a file; by default the last failed run")
    parser.add_argument("--name", help="name of the test and its files")
    parser.add_argument("--into", type=Path, metavar="FILE", help="add the test to this file")
    parser.add_argument("--entry", metavar="MODULE:CALLABLE", help="what to call, where the root cannot be imported")
    parser.add_argument("--xfail", action="store_true", help="mark it as an expected failure")
    parser.add_argument("--expect", action="append", default=[], metavar="PATH=JSON", help="what must stand in the result")
    parser.add_argument("--never", action="append", default=[], metavar="TOOL", help="a tool that must not be called")
    parser.add_argument("--times", action="append", default=[], metavar="TOOL=N", help="how often a tool must be called")
    parser.add_argument("--json", action="store_true", help="for machines")


def run(args: argparse.Namespace) -> int:
    """Make the test, prove it, and say what was seen."""
    from stepfork._make_test import Wishes, make_test

    wishes = Wishes(args.name, args.into, args.entry, args.xfail, criterion_of(args.expect, args.never, args.times))
    stored = find_run(args.run, runs_folder())
    root = project_root(Path.cwd())
    with progress(quiet=args.json) as say:
        made = make_test(stored.path, stored.run, root, wishes, say)
    if args.json:
        show_json(_for_machines(made, root))
    else:
        show(_for_people(made, root, xfail=args.xfail))
    return 0


def criterion_of(expect: list[str], never: list[str], times: list[str]) -> Criterion:
    """Read the criterion options; raises OptionError naming the one that does not fit."""
    expected: dict[str, Any] = {}
    for text in expect:
        path, equals, value = text.partition("=")
        try:
            expected[path] = msgspec.json.decode(value.encode())
        except msgspec.DecodeError as error:
            raise OptionError(
                f"--expect {text}: {error if equals else 'there is no ='}",
                ways_on=["PATH=JSON, for example: --expect 'status=\"refunded\"' --expect 'items[0].total=120'"],
            ) from None
    counts: dict[str, int] = {}
    for text in times:
        name, _, number = text.rpartition("=")
        if not name or not number.isdigit():
            raise OptionError(f"--times {text} is not of the form TOOL=N")
        counts[name] = int(number)
    return Criterion(expected, tuple(never), counts)


def _for_machines(made: Made, root: Path) -> dict[str, Any]:
    return {
        "name": made.name,
        "verdict": made.verdict,
        "reason": made.reason,
        "test": _relative(made.test_file, root),
        "recording": _relative(made.recording, root),
        "snapshot": _relative(made.snapshot, root),
        "files": [_relative(path, root) for path in made.files],
        "notes": made.notes,
    }


def _for_people(made: Made, root: Path, *, xfail: bool) -> list[Line]:
    lines: list[Line] = []
    for path in made.files:
        lines.append([Span("  wrote  ", "faint"), Span(_relative(path, root))])
    if made.verdict == "still failing":
        lines.append([Span("  red    ", "failed"), Span(made.reason)])
        proof = "the failure came back in a fresh process, and twice in one"
    else:
        lines.append([Span("  green  ", "passed"), ("the run replays as it was recorded", "")])
        proof = "green in a fresh process, and twice in one"
    lines.append([Span("  proof  ", "faint"), Span(proof)])
    lines += [[Span("  note   ", "warning"), Span(note)] for note in made.notes]
    if made.verdict == "still failing" and not xfail:
        lines.append([Span("  next   ", "faint"), Span(f"fix the agent, look at: pytest {_relative(made.test_file, root)}")])
        lines.append([Span("         "), Span("accept the fix with:    pytest --snapshot-update")])
    return lines


def _relative(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()
