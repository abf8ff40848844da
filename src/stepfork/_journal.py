"""What a running process appends: one write per event, so that SIGKILL loses no finished event."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._events import Event, encode_line
from stepfork._file_lock import lock
from stepfork._paths import blobs_dir, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from stepfork._calls import Plain


UNBEGUN_ENDING = ".new"
"""Of the file of a run whose first line is not written yet."""


class Journal:
    """An append-only file of events. Any OSError is the caller's to handle."""

    def __init__(self, path: Path, blob_bytes: int, most: int = sys.maxsize) -> None:
        self.path = path
        self.blob_bytes = blob_bytes
        self._most = self._left = most
        """Bytes that it may take, its blobs included."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._lock = threading.RLock()
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        # Under its own name only with its first line: a process that is killed before leaves no empty run.
        self._file_now = path.with_suffix(UNBEGUN_ENDING)
        self._descriptor: int | None = os.open(self._file_now, flags, 0o600)
        try:
            self._file = _identity(self._descriptor)
            lock(self._descriptor)  # while it is open; without locks the run looks killed while it goes
        except BaseException:
            os.close(self._descriptor)
            self._file_now.unlink()
            raise

    def write(self, line: bytes) -> None:
        """Append one line with one write; nothing after the end, or after a line that was torn."""
        with self._lock:
            descriptor = self._own_descriptor()
            if descriptor is None:
                return
            written = os.write(descriptor, line)
            self._left -= written
            if written != len(line):
                # Anything after a torn line would be damage; a torn last line is a run that was cut short.
                self.close()
                # Not how many bytes of which file: that is another text, and another warning, in each run.
                raise OSError(errno.ENOSPC, "only a part of a line could be written")
            if self._file_now is not self.path:
                self._file_now.rename(self.path)
                self._file_now = self.path
            if self._left < 0:
                self._left = sys.maxsize  # how the run was given up is still to be written
                raise OSError(f"it weighs more than the {self._most} bytes that all runs may (max_bytes)")

    def append(self, event: Event) -> None:
        """Append one event."""
        self.write(encode_line(event))

    def outsource(self, plain: Plain) -> Plain:
        """Return the value, or a reference to a blob that now holds it where it is large."""
        found = store_blob(blobs_dir(self.path), plain, self.blob_bytes)
        if found is not plain:
            self._left -= found["bytes"]
        return found

    def discard(self) -> None:
        """Remove the file of a run that came to nothing."""
        self._file_now.unlink()

    def close(self) -> None:
        """Close the file; the run no longer counts as going on."""
        with self._lock:
            descriptor, self._descriptor = self._own_descriptor(), None
            if descriptor is not None:
                os.close(descriptor)

    def _own_descriptor(self) -> int | None:
        """Return the descriptor, unless the agent has closed it and may have a file of its own there now."""
        if self._descriptor is not None and _identity(self._descriptor) != self._file:
            self._descriptor = None
            raise OSError(errno.EBADF, "the agent closed the descriptor of the journal")
        return self._descriptor


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def store_blob(folder: Path, plain: Plain, limit: int) -> Plain:
    """Write ``plain`` to ``folder`` once, under its digest, where its JSON takes over ``limit`` bytes."""
    if plain is None or isinstance(plain, (bool, int, float)):
        return plain
    data = msgspec.json.encode(plain)
    if len(data) <= limit:
        return plain
    digest = hashlib.sha256(data).hexdigest()
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{digest}.json"
    if not target.exists():
        write_whole(target, data, mode=0o600)
    return {"$blob": digest, "bytes": len(data)}


def in_place(folder: Path, plain: Plain) -> Plain:
    """Return a recorded value, from its blob where a reference stands for it; the errors of ``load_blob``."""
    return load_blob(folder, plain) if type(plain) is dict and "$blob" in plain else plain


def load_blob(folder: Path, reference: dict[str, Any]) -> Plain:
    """Return the value that a reference stands for; ValueError where the blob is missing or was changed."""
    digest = reference["$blob"]
    if not (isinstance(digest, str) and len(digest) == 64 and digest.isalnum()):
        raise ValueError(f"not a digest: {digest!r}")
    data = (folder / f"{digest}.json").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"the blob {digest} was changed since it was recorded")
    return msgspec.json.decode(data)


def is_going_on(path: Path) -> bool | None:
    """Whether a live process still holds the journal open; None where files have no locks to tell it by."""
    try:
        # A pipe under the name of a run would else be waited for.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        is_free = lock(descriptor, is_shared=True)
        return None if is_free is None else not is_free
    finally:
        os.close(descriptor)
