"""``stepfork run -- python my_agent.py``: record a program, without an edit to it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from stepfork._launch import CODE, PER_STEP, PROGRAM
from stepfork._settings import settings
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INTERPRETER = re.compile(r"(?:python|pypy)[0-9.]*w?t?(?:\.exe)?", re.IGNORECASE)
_WITH_VALUE = "WX"
"""Options of Python that take a value, in the same word or in the next."""
_LONG_WITH_VALUE = ("--check-hash-based-pycs",)
_SHEBANG_BYTES = 1000
_PROBE = "import sys; sys.flags.safe_path or sys.path.pop(0); import stepfork._launch"
_EXAMPLE = "stepfork run -- python my_agent.py"


class Program(NamedTuple):
    """A command line of Python, taken apart."""

    interpreter: str
    options: list[str]
    target: list[str]
    """The words from the script, ``--`` or ``-m`` on, as they were typed."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "run",
        help="run a program and record it, without an edit to it",
        description="Run a program and record it, without an edit to it.",
        usage="%(prog)s [options] -- python my_agent.py [arguments]",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--adapters",
        default="",
        metavar="NAMES",
        help="the libraries to record, as in openai,mcp (default: all)",
    )
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="a function of the program that is a tool; may be given again",
    )
    parser.add_argument(
        "--per-step",
        action="store_true",
        help="for servers and workers: a run for each outermost step, none for the program",
    )
    parser.add_argument("command_line", nargs=argparse.REMAINDER, metavar="COMMAND", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Put the program in the place of this process."""
    words = args.command_line[1:] if args.command_line[:1] == ["--"] else args.command_line
    if not words:
        raise OptionError(
            "there is no program to run", ways_on=[_EXAMPLE, "stepfork run -- python -m shop.cli"]
        )
    program = taken_apart(words) if _is_to_record() else None
    if program is None:
        return _replace_process(words)
    _check_interpreter(program)
    mode = PER_STEP if args.per_step else PROGRAM
    launcher = ["-c", CODE, mode, args.adapters, ",".join(args.tool)]
    return _replace_process([program.interpreter, *program.options, *launcher, *program.target])


def _is_to_record() -> bool:
    """Whether the settings say so; wrong ones are told by the recorder in the program, at no cost to it."""
    try:
        return settings().record
    except OptionError:
        return True


def taken_apart(words: Sequence[str]) -> Program | None:
    """Return the parts of a command line of Python; None where it only asks for help or for the version.

    Raises OptionError for a command that is not Python's, and for code that has no file.
    """
    name, *rest = words
    if _INTERPRETER.fullmatch(Path(name).name):
        return _of_interpreter(name, rest)
    interpreter, *options = _interpreter_of(name, rest)
    return Program(interpreter, options, [_found(name), *rest])


def _of_interpreter(name: str, rest: list[str]) -> Program | None:
    options: list[str] = []
    words = iter(rest)
    for word in words:
        if word == "-" or not word.startswith("-"):
            if word == "-":
                _refuse_code("the program that comes on standard input")
            return Program(name, options, [word, *words])
        if word == "--":
            return Program(name, options, _with_script([word, *words]))
        if word.startswith("--"):
            if word in _LONG_WITH_VALUE:
                options += [word, next(words, "")]
                continue
            return None  # --help, --version
        found = _cluster(word, words)
        if found is None:
            return None
        before, target = found
        options += before
        if target:
            return Program(name, options, [*target, *words])
    return _refuse_code("an interactive session")


def _cluster(word: str, following: Iterator[str]) -> tuple[list[str], list[str]] | None:
    """Take ``-Xdev`` or ``-Im`` apart: options, and the words for a module; None where it asks for help."""
    for position, letter in enumerate(word[1:], start=1):
        value = word[position + 1 :]
        if letter in _WITH_VALUE:
            return [word] if value else [word, next(following, "")], []
        if letter == "c":
            _refuse_code("the program in the option -c")
        if letter == "m":
            before = [word[:position]] if position > 1 else []
            return before, [word] if value else [word, next(following, "")]
        if letter in "hV?":
            return None
        if letter == "x":
            raise OptionError("python -x is not supported here", ways_on=["remove the script's first line"])
    return [word], []


def _with_script(words: list[str]) -> list[str]:
    return words if words[1:] else _refuse_code("an interactive session")


def _refuse_code(what: str) -> NoReturn:
    raise OptionError(
        f"{what} has no file that a test could run again", ways_on=[f"put it into one: {_EXAMPLE}"]
    )


def _found(name: str, rest: Sequence[str] = ()) -> str:
    path = shutil.which(name)
    if path is None:
        raise OptionError(f"there is no command {name}", ways_on=_nearest(name, rest), command=name)
    return path


def _nearest(name: str, rest: Sequence[str]) -> list[str]:
    if Path(name).is_file() or name.endswith(".py"):
        return [f"stepfork run -- python {shlex.join([name, *rest])}"]
    return [f"for example: {_EXAMPLE}"]


def _interpreter_of(name: str, rest: Sequence[str]) -> list[str]:
    """Return the interpreter that a command's own first line names, with its options.

    Raises OptionError where it is no script of Python.
    """
    with Path(_found(name, rest)).open("rb") as file:
        start = file.read(_SHEBANG_BYTES).decode("utf-8", "replace")
    first, *rest = start.splitlines() or [""]
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words[:1] == ["/bin/sh"] and rest and rest[0].startswith("'''exec'"):
        words = [
            rest[0].removeprefix("'''exec'").strip().partition(' "$0"')[0].strip('"')
        ]  # pip's, where it is long
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    if words and _INTERPRETER.fullmatch(Path(words[0]).name):
        return words
    raise OptionError(
        f"{name} is no program of Python",
        detail=[
            (
                "what can be run",
                "python my_agent.py, python -m shop.cli, or a command that is a script of Python",
            )
        ],
        ways_on=[f"put stepfork into it, right before python: uv run {_EXAMPLE}"],
        command=name,
    )


def _check_interpreter(program: Program) -> None:
    """Raise OptionError where that interpreter has no stepfork: it is another environment than ours."""
    path = shutil.which(program.interpreter)
    if path is None:
        raise OptionError(f"there is no interpreter {program.interpreter}", command=program.interpreter)
    if os.path.abspath(path) == sys.executable and not program.options:  # noqa: PTH100 - a link is another one
        return
    words = [path, *program.options, "-c", _PROBE]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise OptionError(
            f"{' '.join([program.interpreter, *program.options])} finds no stepfork of this version",
            detail=[("why", why), ("it is", path)],
            ways_on=[
                "install stepfork in its environment",
                f"or name the interpreter of this one: {sys.executable}",
            ],
            command=program.interpreter,
        )


def _replace_process(words: Sequence[str]) -> int:
    """Become the command; on Windows, where there is no such thing, wait for it."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        return subprocess.call(list(words))
    try:
        os.execvp(words[0], list(words))
    except OSError as error:
        raise OptionError(
            f"{words[0]} cannot be run: {error.strerror}",
            ways_on=_nearest(words[0], words[1:]),
            command=words[0],
        ) from None
