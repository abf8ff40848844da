"""Processes that a replayed agent starts: they run no tool either, and the replay hears of it.

A child finds the path of a file in its environment and adds the name of each call that it refused; so
the replay fails even where the agent ignores how the child ended.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepfork import _context
from stepfork.errors import UnrecordedCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._replay.session import Replay

_lock = threading.Lock()
_going_on = 0


@contextmanager
def watching_processes(session: Replay) -> Iterator[None]:
    """Mark the environment while a replay goes on; at the end note what its children refused."""
    report = _enter()
    seen = len(_refusals(report))
    try:
        yield
    finally:
        for name in dict.fromkeys(_refusals(report)[seen:]):
            session.errors.append(_error(name))
        _leave(report)


def _error(name: str) -> UnrecordedCall:
    return UnrecordedCall(
        f"{name} was called in another process, where there is no recorded outcome for it",
        detail=[("why", "a run is recorded in one process; the call was refused, and its body did not run")],
        ways_on=["make a @stepfork.tool of the function that starts the process"],
        address=name,
    )


def _enter() -> Path:
    global _going_on
    with _lock:
        _going_on += 1
        if _going_on == 1:
            name = f"stepfork-{os.getpid()}-{secrets.token_hex(6)}.refused"
            os.environ[_context.REPLAYING] = str(Path(tempfile.gettempdir()) / name)
        return Path(os.environ[_context.REPLAYING])


def _leave(report: Path) -> None:
    global _going_on
    with _lock:
        _going_on -= 1
        if _going_on == 0:
            os.environ.pop(_context.REPLAYING, None)
            report.unlink(missing_ok=True)


def _refusals(report: Path) -> list[str]:
    try:
        return report.read_text("utf-8").splitlines()
    except OSError:
        return []
