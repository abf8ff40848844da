"""The index of a folder of runs: a line for each run that ended, and for what became of it.

Every process that records in the folder has read it once and then only what others added since, so
that ending a run costs the same among ten runs as among ten thousand.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepfork._file_lock import lock, unlock
from stepfork._paths import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = ".index"

_TRIES, _BETWEEN_TRIES = 20, 0.001


class Line(msgspec.Struct, omit_defaults=True):
    """A run that ended, or what became of runs."""

    id: str = ""
    at: float = 0.0
    """When it ended, in seconds since the epoch."""
    bytes: int = 0
    fingerprint: str = ""
    """What it has in common with other runs that failed alike; empty where it passed."""
    gone: list[str] = []
    """Runs that were removed."""
    kept: str = ""
    """A run that is never removed."""
    removed: dict[str, int] = {}
    """How many runs of each failure were removed before the index was written anew."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)


def _encoded(lines: list[Line]) -> bytes:
    return b"".join(_encoder.encode(line) + b"\n" for line in lines)


class Index:
    """The file, and how much of it this process has read."""

    def __init__(self, folder: Path) -> None:
        self.lines = 0
        """How many it holds."""
        self._path = str(folder / NAME)
        self._descriptor: int | None = None
        self._opened_file: os.stat_result | None = None
        self._status: os.stat_result | None = None
        self._file: os.stat_result | None = None
        self._read = 0
        self._is_torn = False

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Keep other processes out; False where one of them does not let go of it."""
        descriptor = self._lock()
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                unlock(descriptor)

    def read(self) -> list[Line] | None:
        """Return what was added since the last time; None where it is another file: then read on."""
        assert self._descriptor is not None
        assert self._status is not None
        size = self._status.st_size
        if self._file is None or not os.path.samestat(self._status, self._file) or size < self._read:
            self._file, self._read, self.lines, self._is_torn = self._status, 0, 0, False
            return None
        if size == self._read:
            return []
        data = os.pread(self._descriptor, size - self._read, self._read)
        self._read += len(data)
        self._is_torn = not data.endswith(b"\n")
        return self._decoded(data)

    def _decoded(self, data: bytes) -> list[Line]:
        found = []
        for text in data.split(b"\n"):
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                found.append(_decoder.decode(text))
        self.lines += len(found)
        return found

    def add(self, lines: list[Line]) -> None:
        """Append lines with one write."""
        if not lines or self._descriptor is None:
            return
        data = _encoded(lines)
        if self._is_torn:  # a process was killed, or a disk was full, in the middle of a line
            data = b"\n" + data
        written = os.write(self._descriptor, data)
        self._is_torn = written < len(data)
        self._read += written
        self.lines += len(lines)

    def replace(self, lines: list[Line]) -> None:
        """Put a shorter one in its place; every process, this one too, reads that when it next looks."""
        write_whole(Path(self._path), _encoded(lines), mode=0o600)

    def look(self) -> list[Line]:
        """Return all lines, without a lock; none where there is no index."""
        with suppress(OSError), open(self._path, "rb") as file:  # noqa: PTH123
            return self._decoded(file.read())
        return []

    def forget(self) -> None:
        """In a forked child: its descriptor shares the lock of the parent's."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None and self._is_ours(descriptor):
            os.close(descriptor)

    def _lock(self) -> int | None:
        for _ in range(_TRIES):
            descriptor = self._opened()
            if lock(descriptor) is False:  # without locks two processes may count a run twice
                time.sleep(_BETWEEN_TRIES)
            elif self._is_in_place():
                return descriptor
            else:
                self.forget()
        return None

    def _opened(self) -> int:
        if self._descriptor is not None and self._is_ours(self._descriptor):
            return self._descriptor
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(self._path, flags, 0o600)
        self._opened_file = os.fstat(self._descriptor)
        return self._descriptor

    def _is_ours(self, descriptor: int) -> bool:
        """Whether it is what was opened: the agent may have closed it, and have its own file there."""
        try:
            return self._opened_file is not None and os.path.samestat(os.fstat(descriptor), self._opened_file)
        except OSError:
            return False

    def _is_in_place(self) -> bool:
        """Whether what was opened is still the index: it may have been replaced, or the folder removed."""
        try:
            self._status = os.stat(self._path)  # noqa: PTH116 - for speed
        except FileNotFoundError:
            return False
        return self._opened_file is not None and os.path.samestat(self._status, self._opened_file)
