"""The command line.

Exit codes: 0 done, 1 differences or failures, 2 usage, 3 a run or recording that cannot be used. A
command that was interrupted, or whose reader went away, says nothing and ends as the shell expects
it: 130 and 141.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import stepfork
from stepfork import errors
from stepfork._near import did_you_mean, near_names

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, DIFFERENT, USAGE, UNUSABLE = 0, 1, 2, 3
INTERRUPTED, READER_GONE = 130, 141

_EXIT_CODES: dict[type[errors.StepforkError], int] = {
    errors.OptionError: USAGE,
    errors.CriterionMet: USAGE,
    errors.UnsafeName: USAGE,
    errors.FailingRun: USAGE,
    errors.RecordingMissing: UNUSABLE,
    errors.RecordingDamaged: UNUSABLE,
    errors.RecordingTooNew: UNUSABLE,
    errors.RunNotFound: UNUSABLE,
    errors.NotReproduced: UNUSABLE,
    errors.NotRedacted: UNUSABLE,
    errors.EntryNotFound: UNUSABLE,
    errors.SnapshotDamaged: UNUSABLE,
    errors.ClassChanged: UNUSABLE,
    errors.AdapterFailed: UNUSABLE,
}


class Command(NamedTuple):
    """A row of the table of commands; its module has ``add_parser(subparsers)`` and ``run(args) -> int``."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("run", "stepfork.cli._run", "run a program and record it, without an edit to it"),
    Command("runs", "stepfork.cli._runs", "list the runs that were kept, newest first"),
    Command("show", "stepfork.cli._show", "show the calls of a run, or one of them in full"),
    Command("fail", "stepfork.cli._fail", "mark a run as failed that did not raise"),
    Command("make-test", "stepfork.cli._make_test", "make a pytest test of a run, and prove it"),
    Command("demo", "stepfork.cli._demo", "walk the whole road on an example, in a scratch folder"),
    Command("export", "stepfork.cli._export", "write a run into one file, to take it elsewhere"),
)


class _Parser(argparse.ArgumentParser):
    """Raises what argparse would print, so that usage errors look like all others."""

    def error(self, message: str) -> NoReturn:
        raise errors.OptionError(message, ways_on=[f"{self.prog} --help"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` is by default that of the process."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _print_whatever_the_encoding()
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What is still in the buffer would fail once more when the interpreter ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def _print_whatever_the_encoding() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _main(arguments: list[str]) -> int:
    try:
        code = _run_command(arguments)
    except errors.StepforkError as error:
        code = _report(error, as_json=_wants_json(arguments))
    sys.stdout.flush()
    return code


def _wants_json(arguments: list[str]) -> bool:
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _run_command(arguments: list[str]) -> int:
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name is not None and name not in {command.name for command in COMMANDS}:
        _refuse_command(name)
    parser = _parser(name)
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        helpful = f"stepfork {name} --help" if name else "stepfork --help"
        raise errors.OptionError(f"there is no option {unknown[0]!r} here", ways_on=[helpful])
    if args.command is None:
        parser.print_help()
        return DONE
    chosen = next(command for command in COMMANDS if command.name == args.command)
    code: int = importlib.import_module(chosen.module).run(args)
    return code


def _refuse_command(name: str) -> NoReturn:
    known = [command.name for command in COMMANDS]
    near = near_names(name, known)
    raise errors.OptionError(
        f"there is no command {name!r}",
        ways_on=did_you_mean(near) or [f"there are {', '.join(known)}"],
        near=near,
    )


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return the parser; of the commands only the chosen one is loaded."""
    parser = _Parser(
        prog="stepfork",
        description="Turn a failed run of an agent into an ordinary pytest test.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"stepfork {stepfork.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        if command.name == chosen:
            importlib.import_module(command.module).add_parser(subparsers)
        else:
            subparsers.add_parser(command.name, help=command.summary)
    return parser


def _report(error: errors.StepforkError, *, as_json: bool) -> int:
    from stepfork.cli._terminal import Span, show, show_json

    if as_json:
        described = {"code": error.code, "what": error.what, "detail": error.detail, "ways_on": error.ways_on}
        show_json({"error": {**error.facts, **described}})
    else:
        first, *rest = str(error).splitlines()
        show([[Span(first, "failed")], *([Span(line)] for line in rest)], sys.stderr)
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), DIFFERENT)
