"""A journal that goes on in memory where its file cannot be written, to be handed over in one piece."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from stepfork._events import Event, encode_line
from stepfork._fork import in_children, renew_in_children
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from pathlib import Path

    from stepfork._calls import Plain
    from stepfork._journal import Journal

MOST = 16 * 2**20
"""Bytes that all runs in memory together may take."""


class _Budget:
    """What is in memory now, of all runs of this process."""

    def __init__(self) -> None:
        self.taken = 0
        self._lock = threading.RLock()
        renew_in_children(self, "_lock")
        in_children(self.forget)

    def forget(self) -> None:
        """Those of the parent are none of a forked child's."""
        self.taken = 0

    def take(self, size: int) -> None:
        with self._lock:
            if self.taken + size > MOST:
                raise MemoryError(f"the runs that cannot be written take the {MOST} bytes they may")
            self.taken += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self.taken -= size


budget = _Budget()


class RescuedJournal:
    """A journal whose file may fail it, at the start or in the middle."""

    def __init__(self, path: Path, journal: Journal | None) -> None:
        self.path = path
        self._journal = journal
        self._lock = threading.RLock()
        self._lines: list[bytes] = []
        self._size = 0
        self._is_closed = False

    @property
    def blob_bytes(self) -> int:
        """From which size on a value goes elsewhere; in memory it never does."""
        return sys.maxsize if self._journal is None else self._journal.blob_bytes

    @property
    def data(self) -> bytes | None:
        """The run as a file that stands alone; None where its file holds it."""
        return b"".join(self._lines) if self._journal is None else None

    def write(self, line: bytes) -> None:
        """Append lines to the file, else to what is in memory; nothing after the end."""
        with self._lock:
            if self._journal is not None:
                try:
                    self._journal.write(line)
                except OSError as fault:
                    self._rescue(fault)
                else:
                    return
            self._hold(line)

    def append(self, event: Event) -> None:
        """Append one event."""
        self.write(encode_line(event))

    def outsource(self, plain: Plain) -> Plain:
        """Return the value, or a reference to the blob that holds it; in memory it stays where it is."""
        with self._lock:
            if self._journal is not None:
                try:
                    return self._journal.outsource(plain)
                except OSError as fault:
                    self._rescue(fault)
            return plain

    def discard(self) -> None:
        """Remove the file of a run that came to nothing."""
        if self._journal is not None:
            self._journal.discard()
        self.release()

    def close(self) -> None:
        """Close the file; nothing is written any more."""
        with self._lock:
            self._is_closed = True
            if self._journal is not None:
                self._journal.close()

    def release(self) -> None:
        """Give back what the run took in memory."""
        with self._lock:
            size, self._size, self._lines = self._size, 0, []
        budget.give_back(size)

    def _hold(self, line: bytes) -> None:
        if not self._is_closed:
            budget.take(len(line))
            self._size += len(line)
            self._lines.append(line)

    def _rescue(self, fault: OSError) -> None:
        """Take what the file holds into memory, without the line that tore."""
        from stepfork._archive import archive

        assert self._journal is not None
        warn_in_memory(self.path.parent, fault)
        with suppress(OSError):
            self._journal.close()
        data = archive(self.path) if self.path.exists() else b""
        if not data:
            with suppress(OSError):
                self._journal.discard()
        self._hold(data)
        self._journal = None


def warn_in_memory(folder: Path, fault: OSError) -> None:
    """Say once that runs are handed over as bytes."""
    warn_once(
        f"stepfork cannot write in {folder} ({fault.strerror or fault}): "
        "runs are held in memory, and on_failed gets their bytes"
    )
