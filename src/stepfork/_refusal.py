"""What a process does that a replayed agent started: it runs no tool, and leaves word of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from stepfork import _context
from stepfork.errors import ReplayStopped


def refused(name: str) -> ReplayStopped:
    """Note, in a child process, that a call was not executed; returns what is to be raised."""
    report = Path(os.environ.get(_context.REPLAYING, ""))
    if report.is_absolute():
        with suppress(OSError):
            descriptor = os.open(report, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(descriptor, f"{name}\n".encode())
            os.close(descriptor)
    return ReplayStopped(
        f"{name} was not executed: this process was started by an agent that is being replayed"
    )
