"""What ``stepfork run -- python my_agent.py`` puts in front of the program, in the program's own process.

The interpreter that was named is started with its own options and with :data:`CODE`, so that signals, the
terminal and the exit code are those of the program; ``sys.orig_argv``, ``sys.argv``, ``sys.path`` and
``__main__`` are then made what they would be without it.
"""

from __future__ import annotations

import atexit
import functools
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from stepfork import _context
from stepfork._as_main import Source
from stepfork._frames import PACKAGE
from stepfork._unopened_run import UnopenedRun
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from types import TracebackType

    from stepfork._program import ProgramSpec
    from stepfork._record import RecordedFrame
    from stepfork._spec import Spec

CODE = "import sys; sys.flags.safe_path or sys.path.pop(0); from stepfork._launch import main; main()"
"""Python's ``-c`` puts the working directory on the path, where it might hide a module."""

PROGRAM, PER_STEP = "program", "per-step"
"""What a run is: the whole program, or what each of its outermost steps does."""

_USAGE = 2
_LONGEST_MESSAGE = 100
"""Characters of an exception's text in the one line that tells of it."""


def main() -> None:
    """Run the program that ``sys.argv`` names after three words: the mode, adapters and tools."""
    mode, names, tools, *typed = sys.argv[1:]
    source, argv, letters = _parsed(typed)
    begin = len(sys.orig_argv) - len(sys.argv) - 1
    sys.orig_argv[begin - bool(letters) :] = typed
    _instrument(names, tools)
    main_module = source.enter(argv)
    if mode == PROGRAM:
        _record(source, argv, main_module)
    else:
        _execute(source, main_module)


def _parsed(typed: list[str]) -> tuple[Source, list[str], str]:
    """Return the program, its arguments, and the options that stand in one word with ``-m``."""
    word, *rest = typed
    if word == "--":
        return Source(script=rest[0]), rest[1:], ""
    if not word.startswith("-"):
        return Source(script=word), rest, ""
    letters, _, module = word.partition("m")
    return Source(module=module or rest.pop(0)), rest, letters[1:]


def _instrument(names: str, tools: str) -> None:
    from stepfork.adapters._switch import instrument
    from stepfork.errors import StepforkError

    try:
        instrument(*filter(None, names.split(",")), tools=[*filter(None, tools.split(","))])
    except StepforkError as error:
        print(error, file=sys.stderr)
        raise SystemExit(_USAGE) from None
    except Exception as fault:
        warn_once(f"stepfork cannot record here: {type(fault).__name__}: {fault}")


def _record(source: Source, argv: list[str], main_module: Any) -> None:
    from stepfork._program import ProgramSpec

    spec = ProgramSpec.of(source)
    spec.mains.append(main_module)
    launch = Launch(spec, argv)
    launch.begin()
    # After this come the threads that are still waited for, and what the program registers for the exit.
    atexit.register(launch.end_with_its_process)
    try:
        _execute(source, main_module)
    except SystemExit as error:
        launch.error = error if error.code not in (None, 0) else None
        raise
    except BaseException as error:
        launch.error = error
        raise


def _execute(source: Source, main_module: Any) -> None:
    try:
        source.execute(main_module)
    except SystemExit:
        raise
    except BaseException:
        _hide_what_is_ours()
        raise


def _hide_what_is_ours() -> None:
    """Have the traceback that Python is about to show begin with the program."""
    hook = getattr(sys, "excepthook", None)
    if not callable(hook):
        return  # Python has something to say about that

    def shown(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> Any:
        while traceback is not None and _is_ours(traceback.tb_frame.f_code.co_filename):
            traceback = traceback.tb_next
        error.__traceback__ = sys.last_traceback = traceback
        return hook(kind, error, traceback)

    sys.excepthook = shown


def _is_ours(filename: str) -> bool:
    return filename == "<string>" or filename.startswith(PACKAGE)


@final
class Launch(UnopenedRun):
    """The run of a whole program; its first call opens it."""

    def __init__(self, spec: ProgramSpec, argv: list[str]) -> None:
        super().__init__()
        self.error: BaseException | None = None
        """What the program ended with; None where it ended well."""
        self._spec = spec
        self._argv = argv

    @functools.cached_property
    def id(self) -> str:
        """Of its run; other processes may be told it before the run is open."""
        from stepfork._open_run import new_id

        return new_id()

    def begin(self) -> None:
        """Let the calls of this thread, and those without a context, belong to it."""
        _context.make_known(self)
        _context._frame.set(self)

    @property
    def is_open(self) -> bool:
        """Whether a call may still belong to it."""
        return super().is_open and (self._root is None or self._root.session.is_open)

    def _open(self, spec: Spec) -> RecordedFrame | None:
        from stepfork._open_run import open_run

        mine = self._spec
        root = open_run(
            mine,
            lambda: {"argv": self._argv},
            file=lambda: mine.file,
            entry=lambda: mine.entry,
            run_id=self.id,
        )
        _context.make_unknown(self)
        return root

    def fail(self, reason: str, _frame: Any) -> None:
        """Mark the run; a program that did nothing but fail leaves one too."""
        root = self.opened(self._spec)
        if root is not None:
            root.session.fail(reason, root)

    def end_with_its_process(self) -> None:
        """End the run, and say so where it failed."""
        root = self.root
        self.end(self.error)
        self.error = None
        if root is None:
            return
        with suppress(Exception):
            self._tell(root)

    def _tell(self, root: Any) -> None:
        from stepfork._text import printable

        failure, run = root.session.failure, root.session
        if failure is None or not run.journal.path.exists():
            return
        kind = (failure.type or "").rpartition(":")[2]
        message = next(iter(failure.message.splitlines()), "")[:_LONGEST_MESSAGE]
        what = ": ".join(filter(None, [kind, message]))
        where = (failure.address or "").rpartition("/")[2]
        told = f"{what} in {where}" if where else what
        print(f"stepfork: run {run.id} failed ({printable(told)}): stepfork make-test", file=sys.stderr)
