"""What a running process appends: one write per event, so that SIGKILL loses no finished event."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._events import Event, encode_line
from stepfork._paths import blobs_dir

if TYPE_CHECKING:
    from pathlib import Path

    from stepfork._calls import Plain

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]


class Journal:
    """An append-only file of events. Any OSError is the caller's to handle."""

    def __init__(self, path: Path, blob_bytes: int) -> None:
        self.path = path
        self.blob_bytes = blob_bytes
        self._broken = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(path, flags, 0o600)
        if fcntl is not None:
            with contextlib.suppress(
                OSError
            ):  # a file system without locks: the run looks killed while it goes
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, line: bytes) -> None:
        """Append one line with one write."""
        if self._broken:
            return
        written = os.write(self._descriptor, line)
        if written != len(line):
            # Anything after a torn line would be damage; a torn last line is a run that was cut short.
            self._broken = True
            raise OSError(f"wrote {written} of {len(line)} bytes to {self.path}")

    def append(self, event: Event) -> None:
        """Append one event."""
        self.write(encode_line(event))

    def outsource(self, plain: Plain) -> Plain:
        """Return the value, or a reference to a blob that now holds it where it is large."""
        return store_blob(blobs_dir(self.path), plain, self.blob_bytes)

    def discard(self) -> None:
        """Remove the file of a run that came to nothing."""
        self.path.unlink()

    def close(self) -> None:
        """Close the file; the run no longer counts as going on."""
        os.close(self._descriptor)


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
        temporary = folder / f".{digest}.{os.getpid()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(target)
    return {"$blob": digest, "bytes": len(data)}


def load_blob(folder: Path, reference: dict[str, Any]) -> Plain:
    """Return the value that a reference stands for; ValueError where the blob is missing or was changed."""
    digest = reference["$blob"]
    if not (isinstance(digest, str) and len(digest) == 64 and digest.isalnum()):
        raise ValueError(f"not a digest: {digest!r}")
    data = (folder / f"{digest}.json").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"the blob {digest} was changed since it was recorded")
    return msgspec.json.decode(data)


def is_going_on(path: Path) -> bool:
    """Whether a live process still holds the journal open."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
