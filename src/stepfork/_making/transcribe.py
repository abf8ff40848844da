"""Copies a journal into a recording: without secrets, and for a test, where the agent's file is a module."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stepfork._calls import Failure
from stepfork._events import RunEnded, RunStarted, decode_line, encode_line, redacted, with_values
from stepfork._journal import in_place, store_blob
from stepfork._paths import blobs_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._calls import Entry, Plain
    from stepfork._events import Event
    from stepfork._redact import Redactor

_MAIN = "__main__"
_NAMES_A_CLASS = ("$object", "$enum", "$exception", "$opaque", "$global")


class Transcript(NamedTuple):
    """What a recording consists of."""

    lines: bytes
    blobs: dict[str, bytes]
    """Large payloads by the name of their file."""


def transcribe(journal: Path, redactor: Redactor, *, main_module: str | None, blob_bytes: int) -> Transcript:
    """Return the recording of a journal or an export; what tore when the run was killed is left out.

    ``main_module`` is the name under which a test imports what was ``__main__``.
    Raises ValueError or OSError where a large payload is missing or was changed.
    """
    *lines, _torn = journal.read_bytes().split(b"\n")
    with tempfile.TemporaryDirectory() as folder:
        blobs = Path(folder) / "blobs"

        def loaded(plain: Plain) -> Plain:
            plain = in_place(blobs_dir(journal), plain)
            return plain if main_module is None else renamed(plain, main_module)

        def stored(plain: Plain) -> Plain:
            return store_blob(blobs, plain, blob_bytes)

        copies = (_copied_line(line, loaded, stored, redactor, main_module, blob_bytes) for line in lines)
        text = b"".join(copies)
        return Transcript(text, {blob.name: blob.read_bytes() for blob in sorted(blobs.glob("*.json"))})


def _copied_line(
    line: bytes,
    loaded: Callable[[Plain], Plain],
    stored: Callable[[Plain], Plain],
    redactor: Redactor,
    main_module: str | None,
    blob_bytes: int,
) -> bytes:
    names_main = main_module is not None and b'"__main__' in line
    if not (names_main or b'"$blob"' in line or len(line) > blob_bytes or redactor.scan(line)):
        return line + b"\n"
    event = _of_module(with_values(decode_line(line), loaded), main_module)
    return encode_line(with_values(redacted(event, redactor.redact), stored))


def _of_module(event: Event, main_module: str | None) -> Event:
    """Name the module that was ``__main__`` where the frame of the run names it."""
    match event:
        case RunStarted():
            event.entry = _entry_of_module(event.entry, main_module)
        case RunEnded(failure=Failure(type=str() as kind) as failure) if main_module is not None:
            event.failure = msgspec.structs.replace(failure, type=_class_name(kind, main_module))
        case _:
            pass
    return event


def _entry_of_module(entry: Entry | None, main_module: str | None) -> Entry | None:
    if entry is None or entry.module != _MAIN or main_module is None:
        return entry
    return msgspec.structs.replace(entry, module=main_module)


def renamed(plain: Plain, main_module: str) -> Plain:
    """Return the value with every class of ``__main__`` named by its module; texts stay as they are."""
    if isinstance(plain, list):
        return [renamed(item, main_module) for item in plain]
    if not isinstance(plain, dict):
        return plain
    return {
        key: _class_name(value, main_module)
        if key in _NAMES_A_CLASS and isinstance(value, str)
        else renamed(value, main_module)
        for key, value in plain.items()
    }


def _class_name(name: str, main_module: str) -> str:
    return f"{main_module}:{name.removeprefix(f'{_MAIN}:')}" if name.startswith(f"{_MAIN}:") else name
