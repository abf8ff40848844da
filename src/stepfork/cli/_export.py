"""``stepfork export``: one run as one file, to take it elsewhere."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork._archive import archive, archive_name, write_archive
from stepfork._store import find_run, runs_folder
from stepfork.cli import _words
from stepfork.cli._arguments import add_run
from stepfork.cli._terminal import Span, show, show_json, write_json_text
from stepfork.errors import FailingRun, OptionError

if TYPE_CHECKING:
    import argparse

    from stepfork._store import StoredRun

_STANDARD_OUTPUT = "-"


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "export",
        help="write a run into one file, to take it elsewhere",
        description="Write a run into one file. Every command takes such a file as RUN.",
        allow_abbrev=False,
    )
    add_run(parser)
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=".",
        help="a file, a folder, or - for standard output (default: <agent>-<id>.stepfork here)",
    )
    parser.add_argument("--force", action="store_true", help="write over a file that exists")
    parser.add_argument("--json", action="store_true", help="for machines")


def run(args: argparse.Namespace) -> int:
    """Export the run."""
    if args.json and args.output == _STANDARD_OUTPUT:
        raise OptionError("--json and --output - both want standard output", ways_on=["leave one out"])
    stored = find_run(args.run, runs_folder())
    if _words.is_going_on(stored.run):
        raise FailingRun(
            f"{stored.id} is still going", ways_on=["export it when it has ended"], path=str(stored.path)
        )
    data = archive(stored.path)
    if args.output == _STANDARD_OUTPUT:
        write_json_text(data)
        return 0
    target = _target(Path(args.output), stored)
    write_archive(target, data, force=args.force)
    if args.json:
        show_json({"id": stored.id, "path": str(target), "bytes": len(data)})
        return 0
    show(
        [
            [Span(str(target), "strong"), Span(f"  {_size(len(data))}, readable by you alone")],
            [Span("It holds what the agent saw and said. Any command takes it as RUN:", "faint")],
            [Span(f"stepfork show {shlex.quote(_as_path(target))}", "faint")],
        ]
    )
    return 0


def _target(output: Path, stored: StoredRun) -> Path:
    target = output / archive_name(stored.run) if output.is_dir() else output
    if target.exists() and target.samefile(stored.path):
        raise OptionError(
            f"{target} is the run itself", ways_on=["give another file: --output FILE"], path=str(target)
        )
    return target


def _as_path(target: Path) -> str:
    """Return the file as an argument that is no id."""
    return str(target) if target.suffix == ".stepfork" or len(target.parts) > 1 else f"./{target}"


def _size(size: int) -> str:
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
