"""What a process does that a replayed agent sends work to: it runs no tool, and leaves word of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stepfork import _context
from stepfork.errors import ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Callable


def refused(name: str, report: str | None = None) -> ReplayStopped:
    """Note, in another process, that a call was not executed; returns what is to be raised.

    ``report`` is the file for such notes; by default the one that the environment names.
    """
    path = Path(os.environ.get(_context.REPLAYING, "") if report is None else report)
    if path.is_absolute():
        with suppress(OSError):
            descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(descriptor, f"{name}\n".encode())
            os.close(descriptor)
    return ReplayStopped(
        f"{name} was not executed: this process was started by an agent that is being replayed"
    )


class Refused:
    """Stands for a decorated function in a process that was there before the replay that pickled it."""

    def __init__(self, name: str, report: str) -> None:
        self._name = name
        self._report = report

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse; as an Exception, which a pool of processes hands back instead of dying of it."""
        raise RuntimeError(str(refused(self._name, self._report)))


def refusing_elsewhere(name: str, find: Callable[..., Any], found_by: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what pickles as ``find(*found_by)`` in this process, and in every other as one that refuses."""
    report = os.environ.get(_context.REPLAYING, "")
    return _find, (os.getpid(), name, report, find, found_by)


def _find(process: int, name: str, report: str, find: Callable[..., Any], found_by: tuple[Any, ...]) -> Any:
    return find(*found_by) if os.getpid() == process else Refused(name, report)
