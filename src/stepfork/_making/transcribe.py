"""Copies a journal into a recording: without secrets, and for a test, where the agent's file is a module."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stepfork._calls import Failure
from stepfork._events import (
    ItemYielded,
    RunEnded,
    RunStarted,
    decode_line,
    encode_line,
    redacted,
    with_values,
)
from stepfork._journal import store_blob
from stepfork._paths import blobs_dir
from stepfork._repeats import SHORT_LINE, Expander, Shortener
from stepfork.errors import UnsafeName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepfork._calls import Entry, Plain
    from stepfork._events import Event
    from stepfork._making.scrub import Personal
    from stepfork._redact import Redactor

_MAIN = "__main__"
_MAIN_OF_A_CHILD = "__mp_main__"
_NAMES_A_CLASS = ("$object", "$enum", "$exception", "$opaque", "$global")


class Transcript(NamedTuple):
    """What a recording consists of."""

    lines: bytes
    blobs: dict[str, bytes]
    """Large payloads by the name of their file."""


def transcribe(
    journal: Path,
    redactor: Redactor,
    *,
    main_module: str | None,
    blob_bytes: int,
    variables: Iterable[str] = (),
    scrub: Personal | None = None,
) -> Transcript:
    """Return the recording of a journal or an export; what tore when the run was killed is left out.

    ``main_module`` is the name under which a test imports what was ``__main__``; ``variables`` are
    those that a replay is to find set; ``scrub`` replaces personal data. Raises ValueError or OSError
    where a large payload is missing or was changed, and UnsafeName where it lies elsewhere.
    """
    *lines, _torn = journal.read_bytes().split(b"\n")
    _check_place_of_blobs(journal)
    expander = Expander(blobs_dir(journal))
    with tempfile.TemporaryDirectory() as folder:
        blobs = Path(folder) / "blobs"

        def stored(plain: Plain) -> Plain:
            return store_blob(blobs, plain, blob_bytes)

        shortener = Shortener(stored)
        chunks = None if scrub is None else scrub.chunks()

        def copied(line: bytes) -> bytes:
            event = expander.whole(decode_line(line))
            if chunks is not None and isinstance(event, ItemYielded):
                event = chunks.next(event).item
            event = _with_variables(_of_module(event, main_module), variables)
            event = redacted(event, redactor.redact)
            event = event if scrub is None else scrub.scrubbed(event)
            line = encode_line(event)
            if len(line) <= min(SHORT_LINE, blob_bytes):
                return line
            line = shortener.shortened(line)
            shortener.keep()
            return line

        text = b"".join(map(copied, lines))
        return Transcript(text, {blob.name: blob.read_bytes() for blob in sorted(blobs.glob("*.json"))})


def with_variables(recording: bytes, variables: Iterable[str]) -> bytes:
    """Return the recording with these variables as those that a replay is to find set."""
    header, end, rest = recording.partition(b"\n")
    return encode_line(_with_variables(decode_line(header + end), variables)) + rest


def _with_variables(event: Event, variables: Iterable[str]) -> Event:
    match event:
        case RunStarted():
            return msgspec.structs.replace(event, variables=tuple(sorted(variables)))
        case RunEnded():
            return msgspec.structs.replace(event, variables=())
        case _:
            return event


def show_placeholders(journal: Path, redactor: Redactor) -> None:
    """Have the redactor know what stands for a secret already: a new one must not look like an old one."""
    for path in (journal, *blobs_dir(journal).glob("*.json")):
        redactor.saw(path.read_bytes())


def _check_place_of_blobs(journal: Path) -> None:
    """Raise UnsafeName where a link leads out of the folder: what lies there is no part of the run."""
    folder = blobs_dir(journal)
    inside = journal.parent.resolve() / folder.name
    for path in (folder, *(folder.iterdir() if folder.is_dir() else ())):
        if not path.resolve().is_relative_to(inside):
            raise UnsafeName(
                f"{path} is a link out of the run's folder",
                ways_on=["put the payloads themselves there"],
                path=str(path),
            )


def _of_module(event: Event, main_module: str | None) -> Event:
    """Name the module that was ``__main__`` where the run or a value names it."""
    if main_module is not None:
        event = with_values(event, lambda plain: renamed(plain, main_module))
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
    whole = [plain]
    left: list[Any] = [whole]
    while left:
        container = left.pop()
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(value, (dict, list)):
                container[key] = value.copy()
                left.append(container[key])
            elif key in _NAMES_A_CLASS and isinstance(value, str):
                container[key] = _class_name(value, main_module)
    return whole[0]


def _class_name(name: str, main_module: str) -> str:
    module, _, rest = name.partition(":")
    return f"{main_module}:{rest}" if module in (_MAIN, _MAIN_OF_A_CHILD) else name
