"""Reads journals, recordings and extensions into a :class:`Run`. Data only: nothing is imported or run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from stepfork._calls import Call, Failure, Outcome, Plain, Run, parent_address
from stepfork._events import (
    FORMAT_VERSION,
    CallEnded,
    CallStarted,
    Event,
    ExtensionStarted,
    FactsFound,
    ItemYielded,
    RunEnded,
    RunMarked,
    RunStarted,
    ToolFound,
    ToolUnseen,
    decode_line,
)
from stepfork._journal import is_going_on
from stepfork._paths import blobs_dir
from stepfork._plain import damage, tag
from stepfork._repeats import Expander
from stepfork.errors import RecordingDamaged, RecordingMissing, RecordingTooNew

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_run(path: Path) -> Run:
    """Read a journal or recording.

    A torn last line is a run that was killed. Raises RecordingMissing, RecordingDamaged (with file
    and line) or RecordingTooNew.
    """
    events = _events(path)
    reader = _RunReader(path, next(events, None))
    for line_number, event in events:
        reader.read(line_number, event)
    return reader.finish()


def read_extension(path: Path, run: Run) -> list[Call]:
    """Read the calls of one extension of ``run``, in order; the same errors as :func:`read_run`."""
    events = _events(path)
    _, header = next(events, (0, None))
    if not isinstance(header, ExtensionStarted):
        raise _damaged(path, 1, "the first line is not the header of an extension")
    if header.run != run.id:
        raise _damaged(path, 1, f"it extends the run {header.run}, and the recording beside it is {run.id}")
    calls = _CallReader(path, is_whole=False)
    for line_number, event in events:
        calls.read(line_number, event)
    return calls.finish(still_open="killed")


def _damaged(path: Path, line_number: int, why: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"cannot be read: {path}:{line_number}",
        detail=[("why", why)],
        ways_on=["restore the file from version control, or export the run again"],
        path=str(path),
        line=line_number,
    )


def _events(path: Path) -> Iterator[tuple[int, Event]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RecordingMissing(f"no recording at {path}", path=str(path)) from None
    except OSError as error:
        raise _damaged(path, 1, str(error)) from None
    *lines, torn = data.split(b"\n")
    if not lines:
        raise _damaged(path, 1, "it holds no complete line" if torn else "it is empty")
    _check_version(path, lines[0])
    for line_number, line in enumerate(lines, 1):
        try:
            yield line_number, decode_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _damaged(path, line_number, str(error)) from None


class _Header(msgspec.Struct):
    v: int
    made_by: str = "?"


def _check_version(path: Path, line: bytes) -> None:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, 1, f"not a stepfork file: {error}") from None
    if header.v > FORMAT_VERSION:
        raise RecordingTooNew(
            f"{path} was made by stepfork {header.made_by}, in format {header.v}",
            detail=[("this one", f"reads formats up to {FORMAT_VERSION}")],
            ways_on=["upgrade stepfork"],
            path=str(path),
        )
    if header.v < 1:
        raise _damaged(path, 1, f"no such format: {header.v}")


@dataclass
class _CallReader:
    """Puts call events together; knows the address of everything it has seen."""

    path: Path
    is_whole: bool = True
    """Every call but the root has its caller in the same file; not so in an extension."""
    calls: dict[str, Call] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._expander = Expander(blobs_dir(self.path))

    def read(self, position: int, event: Event) -> None:
        try:
            event = self._expander.whole(event)
        except (OSError, ValueError, RecursionError) as error:
            raise _damaged(self.path, position, f"a value in it cannot be read: {error}") from None
        match event:
            case CallStarted():
                self._start(position, event)
            case ItemYielded():
                call = self._open_call(position, event.call)
                if call.outcome.items is None:
                    call.outcome.items = []
                call.outcome.items.append(self._sound(position, event.value))
                call.moments.append(position)
                call.lossy |= event.lossy
            case CallEnded():
                self._end(position, event)
            case _:
                raise _damaged(self.path, position, f"unexpected {type(event).__name__} line")

    def _start(self, position: int, event: CallStarted) -> None:
        if event.call in self.calls:
            raise _damaged(self.path, position, f"{event.call} starts twice")
        name = event.call.rpartition("/")[2].rpartition("#")[0]
        if not name:
            raise _damaged(self.path, position, f"not an address: {event.call!r}")
        parent = parent_address(event.call)
        if self.is_whole and parent and parent not in self.calls:
            raise _damaged(self.path, position, f"the start of {parent}, which made this call, is missing")
        self.calls[event.call] = Call(
            kind=event.kind,
            name=name,
            address=event.call,
            input={key: self._sound(position, value) for key, value in event.input.items()},
            outcome=Outcome("unfinished"),
            at=event.at,
            span=(position, position),
            lossy=event.lossy,
            repeats=event.repeats,
            plain=event.plain,
        )
        self.open.add(event.call)

    def _end(self, position: int, event: CallEnded) -> None:
        call = self._open_call(position, event.call)
        self.open.discard(event.call)
        value = self._sound(position, event.value)
        if event.status in ("raised", "suspended") and tag(value) not in ("$exception", "$shared"):
            raise _damaged(self.path, position, f"{event.call} raised something that is no exception")
        call.outcome = Outcome(
            status=event.status,
            value=value,
            items=call.outcome.items
            if event.shape not in ("stream", "astream")
            else call.outcome.items or [],
            shape=event.shape,
            origin=event.origin,
            changes=self._sound(position, event.changes),
            usage=event.usage,
        )
        call.seconds = event.at - call.at
        call.span = (call.span[0], position)
        call.lossy |= event.lossy

    def _open_call(self, position: int, address: str) -> Call:
        if address not in self.open:
            raise _damaged(self.path, position, f"{address} is not under way here")
        return self.calls[address]

    def _sound(self, position: int, value: Plain) -> Plain:
        if why := damage(value):
            raise _damaged(self.path, position, f"it holds {why}")
        return value

    def finish(self, still_open: str) -> list[Call]:
        """Return the outermost calls, each with its children, in the order in which they started."""
        end = max((call.span[1] for call in self.calls.values()), default=0) + 1
        for address in self.open:
            call = self.calls[address]
            call.outcome.status = still_open  # type: ignore[assignment]
            call.span = (call.span[0], end)
        outermost: list[Call] = []
        for call in self.calls.values():
            parent = self.calls.get(parent_address(call.address))
            (outermost if parent is None else parent.children).append(call)
        return outermost


class _RunReader:
    def __init__(self, path: Path, first: tuple[int, Event] | None) -> None:
        if first is None or not isinstance(first[1], RunStarted):
            raise _damaged(path, 1, "the first line is not the header of a run")
        self.path = path
        self.header = first[1]
        self.calls = _CallReader(path)
        self.ended: RunEnded | None = None
        self.marks: list[RunMarked] = []
        self.facts: list[str] = []
        self.unseen: list[str] = []
        self.found: list[str] = []

    def read(self, line_number: int, event: Event) -> None:
        match event:
            case RunMarked():
                self.marks.append(event)
            case ToolUnseen():
                self.unseen.append(event.tool)
            case ToolFound():
                self.found.append(event.tool)
            case RunEnded():
                self.ended = event
            case FactsFound():
                self.facts = event.texts
            case _:
                self.calls.read(line_number, event)

    def finish(self) -> Run:
        killed = self.ended is None and not is_going_on(self.path)
        outermost = self.calls.finish(still_open="killed" if killed else "unfinished")
        if not outermost:
            raise _damaged(self.path, 1, "it holds no call")
        root = outermost[0]
        criteria = [mark.criterion for mark in self.marks if mark.criterion]
        return Run(
            id=self.header.id,
            name=self.header.name,
            root=root,
            failure=self._failure(root),
            criterion=criteria[-1] if criteria else None,
            entry=self.header.entry,
            started=self.header.at,
            seconds=self.ended.at if self.ended else 0.0,
            ended=self.ended is not None,
            incomplete=self.ended is not None and self.ended.incomplete,
            made_by=self.header.made_by,
            parent=self.header.parent,
            adapters=self.header.adapters,
            tools=self.header.tools,
            found=tuple(self.found),
            variables=self.header.variables,
            variables_set=self.ended.variables if self.ended else (),
            unseen=tuple(self.unseen),
            facts=self.facts,
        )

    def _failure(self, root: Call) -> Failure | None:
        if self.ended is not None and self.ended.failure is not None:
            return self.ended.failure
        for mark in reversed(self.marks):
            return Failure(
                "marked" if mark.call is None else "failed", address=mark.call, message=mark.reason
            )
        return _failure_of(root) if self.ended is None else None


def _failure_of(root: Call) -> Failure | None:
    """Return the failure of a run that was killed between its root's end and the last line."""
    outcome = root.outcome
    if outcome.status != "raised" or not isinstance(outcome.value, dict):
        return None
    return Failure(
        "raised",
        outcome.origin,
        str(outcome.value.get("$exception", "?")),
        str(outcome.value.get("message", "")),
    )
