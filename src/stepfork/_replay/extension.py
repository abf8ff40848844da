"""Calls that were run live to get past the end of a recording, kept in a file beside it."""

from __future__ import annotations

import hashlib
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
from stepfork._paths import write_whole
from stepfork._replay.near import ends_with, near_addresses
from stepfork._version import __version__
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepfork._calls import Call, Run

_OPTION = "--stepfork-extend"


class ExtensionWriter:
    """Decides which calls run live and keeps what came of them, at once: a live call costs money."""

    def __init__(self, recording: Path, run_id: str, addresses: Iterable[str] = ()) -> None:
        self._recording = recording
        self._run_id = run_id
        self._chosen: dict[str, set[str]] = {end: set() for end in addresses}
        """The addresses that are to run live, each an end of one, and the calls that it fits."""
        self._path: Path | None = None
        self._data = b""
        self.calls: list[str] = []
        """The addresses of the calls that ran live."""

    def wants(self, address: str, answered: bool) -> bool:
        """Whether this call is to run live: named, or, where none is named, without a fitting answer."""
        if not self._chosen:
            return not answered
        for end, fitting in self._chosen.items():
            if ends_with(address, end):
                fitting.add(address)
                return len(fitting) == 1
        return False

    def expect(self, recorded: Run) -> None:
        """Raise OptionError where an address fits several recorded calls, or a step."""
        for end, fitting in self._chosen.items():
            calls = [call for call in recorded.walk() if ends_with(call.address, end)]
            fitting.update(call.address for call in calls if call.kind != "step")
            if calls and not fitting:
                raise OptionError(
                    f"{_OPTION}={end} names a step: it executes in every replay",
                    ways_on=["name a tool or model call below it"],
                )
        self._refuse_ambiguous()

    def check_used(self, made: Iterable[str]) -> None:
        """Raise OptionError where an address fits no recorded call and none that was ``made``."""
        self._refuse_ambiguous()
        for end, fitting in self._chosen.items():
            if not fitting:
                raise OptionError(
                    f"{_OPTION}={end} names no call of this replay",
                    detail=[("near", ", ".join(near_addresses(end, made)) or "none")],
                    ways_on=["correct the address, or its end (search#2)"],
                )

    def _refuse_ambiguous(self) -> None:
        for end, fitting in self._chosen.items():
            if len(fitting) > 1:
                raise OptionError(
                    f"{_OPTION}={end} names {len(fitting)} calls",
                    detail=[("these", "\n".join(sorted(fitting)))],
                    ways_on=["give more of the address of the one that is to run live"],
                )

    def write(self, call: Call, changes: dict[str, list[Any]] | None = None) -> None:
        """Add one finished call and what it changed in place; the file is complete after each."""
        if not self._data:
            header = ExtensionStarted(FORMAT_VERSION, self._run_id, __version__, round(time.time(), 3))
            self._data = encode_line(header)
        self._data += b"".join(map(encode_line, _events_of(call, changes)))
        self.calls.append(call.address)
        digest = hashlib.sha256(self._data).hexdigest()[:12]
        target = self._recording.with_name(f"{self._recording.stem}.ext-{digest}.jsonl")
        write_whole(target, self._data)
        if self._path is not None and self._path != target:
            self._path.unlink()
        self._path = target


def _events_of(call: Call, changes: dict[str, list[Any]] | None) -> Iterable[Event]:
    outcome = call.outcome
    yield CallStarted(call.address, call.kind, call.input, lossy=call.lossy, plain=call.plain)
    for item in outcome.items or ():
        yield ItemYielded(call.address, item)
    yield CallEnded(
        call.address, outcome.status, outcome.value, outcome.shape, changes=changes, usage=outcome.usage
    )
