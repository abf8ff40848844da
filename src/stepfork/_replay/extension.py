"""Calls that were run live to get past the end of a recording, kept in a file beside it."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Any

from stepfork._events import (
    FORMAT_VERSION,
    CallEnded,
    CallStarted,
    Event,
    ExtensionStarted,
    ItemYielded,
    encode_line,
)
from stepfork._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepfork._calls import Call


class ExtensionWriter:
    """Decides which calls run live and keeps what came of them, at once: a live call costs money."""

    def __init__(self, recording: Path, run_id: str, addresses: Iterable[str] = ()) -> None:
        self._recording = recording
        self._run_id = run_id
        self._addresses = tuple(addresses)
        self._path: Path | None = None
        self._data = b""
        self.calls: list[str] = []
        """The addresses of the calls that ran live."""

    def wants(self, address: str, answered: bool) -> bool:
        """Whether this call is to run live: named, or, where none is named, without a fitting answer."""
        if self._addresses:
            return any(address == end or address.endswith("/" + end) for end in self._addresses)
        return not answered

    def write(self, call: Call, changes: dict[str, list[Any]] | None = None) -> None:
        """Add one finished call and what it changed in place; the file is complete after each."""
        if not self._data:
            header = ExtensionStarted(FORMAT_VERSION, self._run_id, __version__, round(time.time(), 3))
            self._data = encode_line(header)
        self._data += b"".join(map(encode_line, _events_of(call, changes)))
        self.calls.append(call.address)
        digest = hashlib.sha256(self._data).hexdigest()[:12]
        target = self._recording.with_name(f"{self._recording.stem}.ext-{digest}.jsonl")
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(self._data)
        temporary.replace(target)
        if self._path is not None and self._path != target:
            self._path.unlink()
        self._path = target


def _events_of(call: Call, changes: dict[str, list[Any]] | None) -> Iterable[Event]:
    outcome = call.outcome
    yield CallStarted(call.address, call.kind, call.input, lossy=call.lossy)
    for item in outcome.items or ():
        yield ItemYielded(call.address, item)
    yield CallEnded(call.address, outcome.status, outcome.value, outcome.shape, changes=changes)
