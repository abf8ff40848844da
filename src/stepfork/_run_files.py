"""The files of one run: its journal and its blobs. What else lies in the folder is somebody else's."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from stepfork._calls import Failure
from stepfork._events import RunEnded, RunMarked, RunStarted, decode_line
from stepfork._paths import RUNS

if TYPE_CHECKING:
    from pathlib import Path

KEPT_ENDING = ".kept"
"""Beside a journal: the run was made into a test, and is never removed."""

PASSED = ""

_ID = re.compile(r"[0-9a-f]{10}")
_BLOB = re.compile(r"[0-9a-f]{64}\.json|\.[0-9a-f]{64}\.json\.[0-9a-f]{8}")
_READ_AT_ONCE = 2**16


def is_run_id(text: str) -> bool:
    """Whether runs are called like this."""
    return _ID.fullmatch(text) is not None


def fingerprint_of(name: str, failure: Failure | None, *, incomplete: bool = False) -> str:
    """Return what runs have in common that failed in the same way; ``PASSED`` where it did not fail.

    The numbers of calls and the digits in a reason do not count: the third search that fails is the
    failure of the second.
    """
    if failure is None:
        return f"{name} incomplete" if incomplete else PASSED
    place = re.sub(r"#\d+", "", failure.address or "")
    # Not the text itself: it may hold what the redactor takes out.
    what = failure.type or f"{failure.kind}:{_digest(re.sub(r'[0-9]+', '0', failure.message))}"
    return f"{name} {what} {place}".rstrip()


def fingerprint_of_mark(name: str, reason: str) -> str:
    """Return the same of a run that somebody marked as failed."""
    return fingerprint_of(name, Failure("marked", message=reason))


def fingerprint_in_test(nodeid: str, fingerprint: str) -> str:
    """Return the same of a run in a test that failed, which may itself have passed."""
    return f"test {_digest(nodeid)} {fingerprint}".rstrip()


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def fingerprint_in(path: Path) -> str:
    """Return the fingerprint of a run that has ended or was killed; only the ends of its file are read.

    Raises OSError, and ``msgspec.DecodeError`` for a file that is no run.
    """
    with path.open("rb") as file:
        header = decode_line(file.readline(_READ_AT_ONCE))
        if not isinstance(header, RunStarted) or header.id != path.stem:
            raise msgspec.DecodeError("another file with the name of a run")
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _READ_AT_ONCE))
        *lines, _torn = file.read().split(b"\n")
    for line in reversed(lines):
        if not line.startswith((b'{"event":"close"', b'{"event":"fail"')):
            continue
        match decode_line(line):
            case RunEnded(failure=failure, incomplete=incomplete):
                return fingerprint_of(header.name, failure, incomplete=incomplete)
            case RunMarked(reason=reason, call=None):
                return fingerprint_of_mark(header.name, reason)
    return f"{header.name} killed"


def weight(folder: Path, run_id: str) -> int | None:
    """Return how many bytes a run takes, its blobs included; None where it is gone."""
    try:
        size = os.stat(f"{folder}/{run_id}.jsonl").st_size  # noqa: PTH116 - for speed
    except FileNotFoundError:
        return None
    path = f"{folder}/{run_id}.blobs"
    if os.path.isdir(path):  # noqa: PTH112 - for speed
        with suppress(OSError), os.scandir(path) as blobs:
            size += sum(blob.stat(follow_symlinks=False).st_size for blob in blobs)
    return size


def remove_run(folder: Path, run_id: str) -> bool:
    """Remove a run that is not going on, and then its blobs; False where it is made a test or cannot be."""
    start = f"{folder}/{run_id}"
    if os.path.lexists(start + KEPT_ENDING):
        return False
    try:
        os.unlink(f"{start}.jsonl")  # noqa: PTH108 - for speed
    except FileNotFoundError:
        pass
    except OSError:
        return False
    remove_blobs(f"{start}.blobs")
    return True


def remove_blobs(path: str) -> None:
    """Remove a folder of blobs; what else lies in it stays, and the folder with it."""
    if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114 - for speed
        return
    with suppress(OSError):
        with os.scandir(path) as entries:
            for entry in entries:
                if _BLOB.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(path)  # noqa: PTH106


def keep(journal: Path) -> None:
    """Never remove the run at ``journal``: it was made into a test. A file elsewhere needs no mark."""
    if journal.parent.name == RUNS and journal.suffix == ".jsonl" and is_run_id(journal.stem):
        os.close(os.open(journal.with_suffix(KEPT_ENDING), os.O_WRONLY | os.O_CREAT, 0o600))
