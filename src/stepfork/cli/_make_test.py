"""``stepfork make-test``: one command from a failed run to a test that is red until the agent is fixed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork._paths import project_root
from stepfork._store import find_run, runs_folder
from stepfork.cli._arguments import add_run
from stepfork.cli._progress import progress
from stepfork.cli._terminal import Line, Span, show, show_json
from stepfork.errors import OptionError

if TYPE_CHECKING:
    import argparse

    from stepfork._making.make import Made

_NEEDED = ("pytest", "syrupy", "deepdiff", "yaml", "jsonpath")


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "make-test",
        help="make a pytest test of a run, and prove it",
        description="Make a pytest test of a run, and prove it.",
        allow_abbrev=False,
    )
    add_run(parser)
    parser.add_argument("--name", help="name of the test and its files")
    parser.add_argument("--into", type=Path, metavar="FILE", help="add the test to this file")
    parser.add_argument(
        "--entry", metavar="MODULE:CALLABLE", help="what to call, where the root cannot be imported"
    )
    parser.add_argument("--xfail", action="store_true", help="mark it as an expected failure")
    parser.add_argument(
        "--expect", action="append", default=[], metavar="PATH=JSON", help="what must stand in the result"
    )
    parser.add_argument(
        "--never", action="append", default=[], metavar="TOOL", help="a tool that must not be called"
    )
    parser.add_argument(
        "--times", action="append", default=[], metavar="TOOL=N", help="how often a tool must be called"
    )
    parser.add_argument(
        "--scrub",
        action="store_true",
        help="replace e-mail addresses, phone numbers, card numbers and IBANs in what is written",
    )
    parser.add_argument("--json", action="store_true", help="for machines")


def run(args: argparse.Namespace) -> int:
    """Make the test, prove it, and say what was seen."""
    _check_installed()
    from stepfork._making.make import make_test
    from stepfork._making.wishes import Wishes
    from stepfork._verdict.criterion import read_criterion

    criterion = read_criterion(args.expect, args.never, args.times)
    into = Path(os.path.abspath(args.into)) if args.into else None  # noqa: PTH100 - links stay links
    root = project_root(Path.cwd())
    stored = find_run(args.run, runs_folder())
    with progress(quiet=args.json) as say:
        wishes = Wishes(args.name, into, args.entry, args.xfail, args.scrub, criterion)
        made = make_test(stored.path, stored.run, root, wishes, say)
    if args.json:
        show_json(_for_machines(made, root))
    else:
        show(_for_people(made, root, xfail=args.xfail))
    return 0


def _check_installed() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(
            f"make-test runs pytest, and {', '.join(missing)} is not installed here",
            ways_on=["install stepfork with its extra: pip install 'stepfork[pytest] @ <source>'"],
        )


def _for_machines(made: Made, root: Path) -> dict[str, Any]:
    return {
        "name": made.name,
        "verdict": made.verdict,
        "reason": made.reason,
        "stopped": made.stopped,
        "test": _relative(made.test_file, root),
        "recording": _relative(made.recording, root),
        "snapshot": _relative(made.snapshot, root),
        "files": [_relative(path, root) for path in made.files],
        "notes": made.notes,
        "personal": made.personal,
        "personal_in_code": made.personal_in_code,
        "scrubbed": made.is_scrubbed,
        "environment": made.environment,
    }


def _for_people(made: Made, root: Path, *, xfail: bool) -> list[Line]:
    lines: list[Line] = []
    for path in made.files:
        lines.append([Span("  wrote  ", "faint"), Span(_relative(path, root))])
    is_red = made.verdict == "still failing"
    lines += _verdict_lines(made, is_red)
    lines += [[Span("  note   ", "warning"), Span(note)] for note in made.notes]
    test = _relative(made.test_file, root)
    if is_red:
        mark = "fix the agent, take the xfail mark away" if xfail else "fix the agent"
        lines.append([Span("  next   ", "faint"), Span(f"{mark}, and see what changed:  pytest {test}")])
        lines.append([Span("         "), Span("accept the fix:  pytest --snapshot-update")])
    return lines


def _verdict_lines(made: Made, is_red: bool) -> list[Line]:
    if is_red:
        return [
            [Span("  red    ", "failed"), Span(made.reason)],
            [Span("  proof  ", "faint"), Span("the failure came back in a fresh process, and twice in one")],
        ]
    return [
        [Span("  green  ", "passed"), Span(f"the run replays as it was recorded, {made.how_far}")],
        [
            Span("  proof  ", "faint"),
            Span("the same in a fresh process, twice in one, and green with its snapshot"),
        ],
    ]


def _relative(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()
