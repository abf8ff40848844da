"""Records a run as it happens, and never lets the agent feel it.

Whatever goes wrong in here costs one warning and marks the run incomplete: every method that the
agent's calls reach is guarded.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from stepfork import _context
from stepfork._calls import Entry, Failure, Plain, child_address
from stepfork._codec import encode, encode_exception, type_name
from stepfork._codec.messages import contents_of, message_of
from stepfork._control_flow import at_heart, is_control_flow
from stepfork._environment import names_to_note
from stepfork._events import (
    FORMAT_VERSION,
    CallEnded,
    CallStarted,
    Event,
    ItemYielded,
    RunEnded,
    RunMarked,
    RunStarted,
    ToolFound,
    ToolUnseen,
    encode_line,
    redacted,
)
from stepfork._mutation.watch import Watch, changes_of, watch
from stepfork._redact.ending import InterpreterEnds
from stepfork._repeats import SHORT_LINE, Shortener
from stepfork._usage import Tally
from stepfork._version import __version__
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._calls import Shape, Status, Usage
    from stepfork._codec import Encoded
    from stepfork._ending import Ending
    from stepfork._journal import Journal
    from stepfork._memory_journal import RescuedJournal
    from stepfork._redact import Redactor, Stream
    from stepfork._spec import Spec

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Recorder")


def _harmless(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R | None]:
    """Turn any fault of ours into one warning and an incomplete run."""

    @functools.wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if self.broken or not self.is_open:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as fault:
            self.give_up(fault)
            return None

    return guarded


class RecordedFrame:
    """One call that executes and is recorded."""

    __slots__ = ("address", "answer", "is_ended", "numbers", "session", "spec", "stream", "tally", "watches")

    def __init__(self, session: Recorder, spec: Spec | None, address: str) -> None:
        self.session = session
        self.spec = spec
        self.address = address
        self.answer: None = None
        self.is_ended = False
        self.numbers: dict[str, count[int]] = {}
        self.watches: dict[str, Watch] = {}
        self.stream: Stream | None = None
        self.tally: Tally | None = None
        """What it took, of a call that may tell it; a part of a stream tells it for the stream's call."""

    def streaming(self, shape: Shape) -> None:
        """Have it end with the run at the latest."""
        self.session.streaming(self, shape)

    def item(self, value: object) -> None:
        """Record one chunk."""
        self.session.item(self, value)

    def used(self, usage: Usage) -> None:
        """Have the end of the call tell what it took."""
        self.session.used(self, usage)

    def returned(self, value: object, shape: Shape) -> None:
        """Record what the call returned."""
        self.is_ended = True
        self.session.returned(self, value, shape)
        self.session.left(self, None)

    def raised(self, error: BaseException, shape: Shape) -> None:
        """Record what the call raised."""
        self.is_ended = True
        self.session.raised(self, error, shape)
        self.session.left(self, error)

    def closed_early(self, shape: Shape) -> None:
        """Record that the consumer left the stream."""
        self.is_ended = True
        self.session.closed_early(self, shape)
        self.session.left(self, None)


def _usage_of(frame: RecordedFrame) -> Usage | None:
    if frame.tally is None or (frame.spec is not None and _is_part(frame.spec)):
        return None
    return frame.tally.usage


def _is_part(spec: Spec) -> bool:
    """Whether it is what an attribute or method of a stream gave."""
    return spec.name.startswith(".")


class Recorder:
    """The session of one run that is being recorded."""

    is_replay = False

    def __init__(
        self,
        run_id: str,
        name: str,
        *,
        journal: Journal | RescuedJournal,
        redactor: Redactor,
        entry: Entry | None = None,
        when_over: Ending,
    ) -> None:
        self.id = run_id
        self.name = name
        self.journal = journal
        self.redactor = redactor
        self.is_open = True
        self.broken = False
        self.base = RecordedFrame(self, None, "")
        self._entry = entry
        self._when_over = when_over
        self._lock = threading.RLock()  # a signal handler may call a tool in the middle
        self._clock = time.perf_counter()
        self._failure: Failure | None = None
        self._header = b""
        self._has_begun = False
        self.called: Counter[str] = Counter()
        """How often each tool was called."""
        self._unseen: set[str] = set()
        self._found: set[str] = set()
        self._variables: tuple[str, ...] = ()
        """Those whose names were noted when it began."""
        self._short_line = min(SHORT_LINE, journal.blob_bytes)
        self._shortener = Shortener(journal.outsource)
        self._streams: dict[RecordedFrame, Shape] = {}
        """The calls whose chunks have begun to come, and in which shape."""

    @property
    def failure(self) -> Failure | None:
        """What makes it a failed run, as far as is known."""
        return self._failure

    def start(self) -> None:
        """Set the clock, and keep the header for the first line."""
        self._clock = time.perf_counter()
        self._found = set(_context.tools_on)
        self._variables = names_to_note(os.environ)
        header = RunStarted(
            FORMAT_VERSION,
            self.id,
            self.name,
            __version__,
            round(time.time(), 3),
            os.getpid(),
            self._entry,
            _context.parent_run(),
            tuple(sorted(_context.adapters_on)),
            tuple(sorted(self._found)),
            self._variables,
        )
        self._header = self._redacted_line(header)

    def join_calls_without_context(self, root: RecordedFrame) -> None:
        """From now on calls without a context stand below the root."""
        self.base = root
        _context.make_known(self)

    @_harmless
    def enter(
        self, spec: Spec, parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> RecordedFrame | None:
        """Write the start of a call before it executes."""
        return self.begin(spec, parent, spec.bind(args, kwargs))

    def begin(self, spec: Spec, parent: RecordedFrame, arguments: Mapping[str, Any]) -> RecordedFrame:
        """Write the start of a call with these arguments; faults are the caller's."""
        plain: dict[str, Plain] = {}
        lossy = False
        for name, value in arguments.items():
            plain[name], is_lossy = encode(value)
            lossy = lossy or is_lossy
        watches = watch(spec, arguments, plain)
        repeats = spec.options.repeats
        if spec.kind == "tool":
            self.called[spec.name] += 1
            self._note_found()
        with self._lock:
            number = next(parent.numbers.setdefault(spec.name, count(1)))  # at once, for signal handlers
            frame = RecordedFrame(self, spec, child_address(parent.address, spec.name, number))
            frame.watches = watches
            frame.tally = Tally() if spec.kind == "model" else parent.tally if _is_part(spec) else None
            self._write(
                CallStarted(frame.address, spec.kind, plain, self._now(), lossy, repeats, spec.is_plain)
            )
        return frame

    def _note_found(self) -> None:
        """Write which functions have become tools since the run began."""
        for tool in sorted(_context.tools_on - self._found):
            self._found.add(tool)
            self._write(ToolFound(tool))

    @_harmless
    def streaming(self, frame: RecordedFrame, shape: Shape) -> None:
        """Note whose stream has begun."""
        self._streams[frame] = shape

    @_harmless
    def item(self, frame: RecordedFrame, value: object) -> None:
        """Write one chunk of a stream."""
        encoded = encode(value)
        frame.stream = frame.stream or self.redactor.stream()
        self._write(ItemYielded(frame.address, frame.stream.item(encoded.plain), encoded.lossy))
        if frame.tally is not None:
            frame.tally.look(encoded.plain)

    @_harmless
    def used(self, frame: RecordedFrame, usage: Usage) -> None:
        """Keep what an adapter found for the end of the call."""
        frame.tally = frame.tally or Tally()
        frame.tally.add(usage)

    @_harmless
    def returned(self, frame: RecordedFrame, value: object, shape: Shape) -> None:
        """Write what a call returned, and what it changed in place."""
        encoded = encode(value)
        if frame.tally is not None:
            frame.tally.look(encoded.plain)
        self._end(frame, "returned", encoded, shape)

    @_harmless
    def raised(self, frame: RecordedFrame, error: BaseException, shape: Shape) -> None:
        """Write what a call raised, and where that exception was first seen."""
        status: Status = "suspended" if is_control_flow(error) else "raised"
        self._end(frame, status, encode_exception(error), shape, self._origin(frame, error))

    def _end(
        self, frame: RecordedFrame, status: Status, encoded: Encoded, shape: Shape, origin: str | None = None
    ) -> None:
        changes = changes_of(frame.watches)
        frame.watches = {}  # a thread that the call has started keeps the frame, and is not to keep these
        ended = CallEnded(frame.address, status, encoded.plain, shape, origin, changes, self._now())
        ended.lossy, ended.usage = encoded.lossy, _usage_of(frame)
        self._write(ended)

    @_harmless
    def closed_early(self, frame: RecordedFrame, shape: Shape) -> None:
        """Write that the consumer left."""
        self._leave(frame, shape)

    def _leave(self, frame: RecordedFrame, shape: Shape) -> None:
        self._write(
            CallEnded(frame.address, "closed_early", None, shape, at=self._now(), usage=_usage_of(frame))
        )

    @_harmless
    def fail(self, reason: str, frame: Any) -> None:
        """Mark this run as failed from within."""
        address = frame.address or child_address("", self.name, 1)
        if self._failure is None:
            self._failure = Failure("failed", address=address, message=reason)
        self._write(RunMarked(reason, address))

    @_harmless
    def unseen(self, tool: str) -> None:
        """Note that a tool ran which is not in this run, once."""
        if tool not in self._unseen:
            self._unseen.add(tool)
            self._write(ToolUnseen(tool))
            warn_once(
                f"stepfork did not see the tool {tool!r} at work: decorate the function that does it with "
                "@stepfork.tool, or name that in [tool.stepfork] tools"
            )

    def left(self, frame: RecordedFrame, error: BaseException | None) -> None:
        """The root's end is the run's end."""
        self._streams.pop(frame, None)
        if frame is self.base and self.is_open:
            self.close(frame, error)

    def close(self, frame: RecordedFrame, error: BaseException | None) -> None:
        """Write how the run ended and let go of the file."""
        self._close(frame, error)
        self.is_open = False
        try:
            _context.make_unknown(self)
            self._let_go()
            self._when_over(self._failure, incomplete=self.broken)
        except Exception as fault:
            warn_once(f"stepfork could not end this run: {type(fault).__name__}: {fault}")

    @_harmless
    def _close(self, frame: RecordedFrame, error: BaseException | None) -> None:
        expected = frame.spec.options.expected if frame.spec else ()
        cause = None if error is None else at_heart(error)
        if cause is not None and not is_control_flow(cause) and not isinstance(cause, expected):
            self._failure = Failure(
                "raised", self._origin(frame, cause), type_name(type(cause)), message_of(cause)
            )
        self._leave_streams()
        loaded = tuple(name for name in names_to_note(os.environ) if name not in self._variables)
        ended = redacted(RunEnded(self._now(), self._failure, variables=loaded), self.redactor.redact)
        self._failure = ended.failure  # for what the folder of the runs remembers of it too
        self._write(ended)

    def _leave_streams(self) -> None:
        """End the streams that nobody reads on: an async one is closed only when the loop gets to it."""
        for frame, shape in list(self._streams.items()):
            if not frame.is_ended:
                frame.is_ended = True
                self._leave(frame, shape)

    def abandon(self, fault: Exception) -> None:
        """Let go of a run whose start failed."""
        self.is_open = False
        _context.make_unknown(self)
        self.give_up(fault)

    def give_up(self, fault: Exception) -> None:
        """Stop recording this run; the agent goes on as if nothing had happened."""
        if self.broken:
            return
        self.broken = True
        with contextlib.suppress(Exception):
            if self._has_begun:
                self.journal.append(RunEnded(self._now(), incomplete=True))
            else:
                self.journal.discard()
        self._let_go()
        if not isinstance(fault, InterpreterEnds):  # nobody is left who could do anything about it
            warn_once(f"stepfork could not record this run any further: {type(fault).__name__}: {fault}")

    def forget(self) -> None:
        """Leave the journal to the process that this one was forked from."""
        self.is_open = False
        self.broken = True
        self._let_go()

    def _let_go(self) -> None:
        with contextlib.suppress(Exception):
            self.journal.close()
            self._shortener.forget()
            self._streams.clear()

    def _now(self) -> float:
        return round(time.perf_counter() - self._clock, 6)

    def _origin(self, frame: RecordedFrame, error: BaseException) -> str:
        """Return where this exception object was first seen; the mark travels on the object itself."""
        seen = contents_of(error).setdefault("_stepfork_seen", (self.id, frame.address))
        if seen[0] != self.id:
            seen = contents_of(error)["_stepfork_seen"] = (self.id, frame.address)
        return str(seen[1])

    def _write(self, event: Event) -> None:
        """Write an event, redacted where its bytes may hold a secret, large values beside the journal."""
        line = self._redacted_line(event)
        if len(line) <= self._short_line:
            self._append(line)
            return
        with self._lock:  # what a line refers to is to stand before it
            self._append(self._shortener.shortened(line))
            self._shortener.keep()

    def _redacted_line(self, event: Event) -> bytes:
        line = encode_line(event)
        return encode_line(redacted(event, self.redactor.redact)) if self.redactor.scan(line) else line

    def _append(self, line: bytes) -> None:
        # The header waits for the first call, so that there is no journal without one.
        header, self._header = self._header, b""
        self.journal.write(header + line)
        self._has_begun = True
