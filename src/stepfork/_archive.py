"""An export: one run as one file, which every command takes in place of an id.

It is a journal with its large payloads written into it, so whatever reads journals reads exports.
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stepfork._events import decode_line, encode_line, with_values
from stepfork._journal import in_place
from stepfork._paths import blobs_dir
from stepfork._recording import read_run
from stepfork._store import ARCHIVE_ENDING
from stepfork.errors import OptionError, RecordingDamaged

if TYPE_CHECKING:
    from stepfork._calls import Run

_LONGEST_PART = 60


def archive_name(run: Run) -> str:
    """Return the file name of an export: ``refund-agent-3f2a9c01bd.stepfork``."""
    return f"{_portable(run.name) or 'run'}-{_portable(run.id) or 'unnamed'}{ARCHIVE_ENDING}"


def _portable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text)[:_LONGEST_PART].strip("-")


def export(run: str | os.PathLike[str]) -> bytes:
    """Return the run in this file, its large payloads included, as one file that every command takes as RUN.

    For who takes failed runs out of a container: the path is what ``on_failed`` is given.

    Raises:
        RecordingDamaged: a payload is missing or was changed.
        OSError: the file cannot be read.
    """
    return archive(Path(run))


def archive(path: Path) -> bytes:
    """Return the journal at ``path`` as a file that stands alone, without the line that tore in a kill.

    Raises:
        RecordingDamaged: a payload is missing or was changed.
    """
    *lines, _torn = path.read_bytes().split(b"\n")
    return b"".join(
        _stand_alone(path, number, line) if b'"$blob"' in line else line + b"\n"
        for number, line in enumerate(lines, 1)
    )


def _stand_alone(path: Path, number: int, line: bytes) -> bytes:
    try:
        return encode_line(with_values(decode_line(line), partial(in_place, blobs_dir(path))))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordingDamaged(
            f"cannot be exported: {path}:{number}",
            detail=[("why", f"its blob cannot be read: {error}")],
            ways_on=[f"a run's large payloads lie beside it: bring {blobs_dir(path).name} too"],
            path=str(path),
            line=number,
        ) from None


def write_archive(target: Path, data: bytes, *, force: bool = False) -> None:
    """Write an export for its owner alone, whole and readable or not at all.

    Raises:
        OptionError: ``target`` exists and ``force`` is not set, or cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if not force:
            _create(target, data)
            return
        _create(temporary, data)
        temporary.replace(target)
    except FileExistsError:
        raise OptionError(
            f"there is a file already: {target}",
            ways_on=["write over it: --force", "or give another name: --output FILE"],
            path=str(target),
        ) from None
    except OSError as error:
        raise OptionError(
            f"cannot write {target}", detail=[("why", error.strerror or str(error))], path=str(target)
        ) from None


def _create(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        read_run(path)
    except BaseException:
        path.unlink()
        raise
