"""Locks on open files, which the system takes back from a process that dies."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]


def lock(descriptor: int, *, is_shared: bool = False, waits: bool = False) -> bool | None:
    """Lock an open file; False where another process holds it, None where there are no locks.

    ``is_shared``: others may share it. ``waits``: until it is free.
    """
    if fcntl is None:
        return None
    how = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, how if waits else how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def unlock(descriptor: int) -> None:
    """Let others have the file; harmless where there are no locks."""
    if fcntl is not None:
        try:  # noqa: SIM105 - at the end of each run, and suppress() costs more
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        except OSError:
            pass
