"""``stepfork fail``: mark a run as failed that did not raise."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from typing import TYPE_CHECKING, Any

from stepfork._ending import limits_of
from stepfork._events import RunMarked, encode_line
from stepfork._file_lock import lock
from stepfork._journal import is_going_on
from stepfork._open_run import make_redactor
from stepfork._retention import keeper_of
from stepfork._run_files import fingerprint_of_mark, is_run_id
from stepfork._settings import settings
from stepfork._store import find_run, runs_folder
from stepfork.cli import _words
from stepfork.cli._terminal import Span, show, show_json
from stepfork.errors import FailingRun, OptionError, RecordingDamaged

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from stepfork._store import StoredRun

_PROBES, _BETWEEN_PROBES = 20, 0.01


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Describe the command's arguments."""
    parser = subparsers.add_parser(
        "fail",
        help="mark a run as failed that did not raise",
        description="Mark a run as failed that did not raise. Said again, the newest reason counts.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="an id, the beginning of one, or a file")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="what was wrong with it")
    parser.add_argument("--json", action="store_true", help="for machines")


def run(args: argparse.Namespace) -> int:
    """Mark the run."""
    # Bytes of the command line that are no UTF-8 arrive as lone surrogates, which a journal cannot hold.
    reason = args.reason.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip()
    if not reason:
        raise OptionError("the reason is empty", ways_on=["say what was wrong: --reason TEXT"])
    stored = find_run(args.run, runs_folder())
    before = stored.run.failure
    _refuse_what_needs_no_mark(stored)
    reason = str(make_redactor(settings()).redact(reason))
    _append(stored.path, encode_line(RunMarked(reason)))
    _keep_as_failed(stored, reason)
    if args.json:
        show_json({"id": stored.id, "path": str(stored.path), "reason": reason})
        return 0
    show([[Span(stored.id, "strong"), Span(f" {stored.name}  "), Span(f"failed: {reason}", "failed")]])
    if before is not None:
        show([[Span(f"before: {_words.first_line(before.message)}", "faint")]])
    show([[Span(f"make a test of it: stepfork make-test {shlex.quote(args.run)}", "faint")]])
    return 0


def _keep_as_failed(stored: StoredRun, reason: str) -> None:
    """Let it no longer count as one of the runs that passed, of which few are kept."""
    if stored.path == runs_folder() / f"{stored.id}.jsonl" and is_run_id(stored.id):
        with contextlib.suppress(OSError):  # where the folder cannot be written, nothing is removed either
            fingerprint = fingerprint_of_mark(stored.name, reason)
            keeper_of(stored.path.parent).note(stored.id, fingerprint, limits_of(settings()))


def _refuse_what_needs_no_mark(stored: StoredRun) -> None:
    run = stored.run
    if not run.ended and _stays_locked(stored.path):
        raise FailingRun(
            f"{stored.id} is still going", ways_on=["mark it when it has ended"], path=str(stored.path)
        )
    if run.failure is not None and run.failure.kind != "marked":
        raise FailingRun(
            f"{stored.id} is a failed run already: {_words.outcome(run).text}",
            detail=[("where", _words.place(run)), ("why", _words.first_line(run.failure.message))],
            ways_on=[f"make a test of it: stepfork make-test {stored.id}"],
            path=str(stored.path),
        )


def _stays_locked(path: Path) -> bool:
    """Whether a process writes the run: it holds its lock to the end, other readers for a moment only."""
    for _ in range(_PROBES):
        if not is_going_on(path):
            return False
        time.sleep(_BETWEEN_PROBES)
    return True


def _append(path: Path, line: bytes) -> None:
    """Add a line with one write; what tore when the run was killed is no event and goes first."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise OptionError(
            f"cannot write to {path}", detail=[("why", error.strerror or str(error))], path=str(path)
        ) from None
    try:
        lock(descriptor, waits=True)
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(descriptor, whole)
        if os.write(descriptor, line) != len(line):
            os.ftruncate(descriptor, whole)
            raise RecordingDamaged(f"no room to write to {path}", path=str(path))
    finally:
        os.close(descriptor)
