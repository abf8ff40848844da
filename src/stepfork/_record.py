"""Records a run as it happens, and never lets the agent feel it.

Whatever goes wrong in here costs one warning and marks the run incomplete: every method that the
agent's calls reach is guarded.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from stepfork import _context
from stepfork._calls import Entry, Failure, Plain, child_address
from stepfork._codec import encode, encode_exception, type_name
from stepfork._control_flow import is_control_flow
from stepfork._events import (
    FORMAT_VERSION,
    CallEnded,
    CallStarted,
    Event,
    ItemYielded,
    RunEnded,
    RunMarked,
    RunStarted,
    encode_line,
)
from stepfork._journal import Journal
from stepfork._mutation import diff
from stepfork._redact import Redactor
from stepfork._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._calls import Shape
    from stepfork._settings import Settings
    from stepfork._spec import Spec

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Recorder")

_IMMUTABLE = (str, int, float, bool, bytes, type(None), complex)


def _harmless(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R | None]:
    """Turn any fault of ours into one warning and an incomplete run."""

    @functools.wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if self.broken:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as fault:
            self.give_up(fault)
            return None

    return guarded


class RecordedFrame:
    """One call that executes and is recorded."""

    __slots__ = ("address", "answer", "before", "live", "numbers", "session", "spec")

    def __init__(self, session: Recorder, spec: Spec | None, address: str) -> None:
        self.session = session
        self.spec = spec
        self.address = address
        self.answer: None = None
        self.numbers: dict[str, int] = {}
        self.live: dict[str, Any] = {}
        self.before: dict[str, Plain] = {}

    def item(self, value: object) -> None:
        """Record one chunk."""
        self.session.item(self, value)

    def returned(self, value: object, shape: Shape) -> None:
        """Record what the call returned."""
        self.session.returned(self, value, shape)
        self.session.left(self, None)

    def raised(self, error: BaseException, shape: Shape) -> None:
        """Record what the call raised."""
        self.session.raised(self, error, shape)
        self.session.left(self, error)

    def closed_early(self, shape: Shape) -> None:
        """Record that the consumer left the stream."""
        self.session.closed_early(self, shape)
        self.session.left(self, None)


class Recorder:
    """The session of one run that is being recorded."""

    is_replay = False

    def __init__(
        self, run_id: str, name: str, *, journal: Journal, redactor: Redactor, entry: Entry | None = None
    ) -> None:
        self.id = run_id
        self.name = name
        self.journal = journal
        self.redactor = redactor
        self.is_open = True
        self.broken = False
        self.failed = False
        self.base = RecordedFrame(self, None, "")
        self._entry = entry
        self._lock = threading.Lock()
        self._clock = time.perf_counter()
        self._opened = contextlib.ExitStack()
        self._failure: Failure | None = None

    def start(self) -> None:
        """Write the header and let calls without a context find this run."""
        self._clock = time.perf_counter()
        header = RunStarted(
            FORMAT_VERSION, self.id, self.name, __version__, round(time.time(), 3), os.getpid(), self._entry
        )
        self.journal.append(header)
        self._opened.enter_context(_context.opened(self))

    @_harmless
    def enter(
        self, spec: Spec, parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> RecordedFrame | None:
        """Write the start of a call before it executes."""
        if not self.is_open:
            return None
        return self.begin(spec, parent, spec.bind(args, kwargs))

    def begin(self, spec: Spec, parent: RecordedFrame, arguments: Mapping[str, Any]) -> RecordedFrame:
        """Write the start of a call with these arguments; faults are the caller's."""
        plain: dict[str, Plain] = {}
        lossy = False
        for name, value in arguments.items():
            encoded = encode(value)
            plain[name] = encoded.plain
            lossy |= encoded.lossy
        with self._lock:
            number = parent.numbers.get(spec.name, 0) + 1
            parent.numbers[spec.name] = number
            frame = RecordedFrame(self, spec, child_address(parent.address, spec.name, number))
            frame.live, frame.before = _may_change(spec, arguments, plain)
            self._write(
                lambda clean: CallStarted(
                    frame.address,
                    spec.kind,
                    {k: clean(v) for k, v in plain.items()},
                    self._now(),
                    lossy,
                    spec.options.repeats,
                )
            )
        return frame

    @_harmless
    def item(self, frame: RecordedFrame, value: object) -> None:
        """Write one chunk of a stream."""
        encoded = encode(value)
        self._write(lambda clean: ItemYielded(frame.address, clean(encoded.plain), encoded.lossy))

    @_harmless
    def returned(self, frame: RecordedFrame, value: object, shape: Shape) -> None:
        """Write what a call returned, and what it changed in place."""
        encoded = encode(value)
        changes = _changes(frame)
        self._write(
            lambda clean: CallEnded(
                frame.address,
                "returned",
                clean(encoded.plain),
                shape,
                None,
                clean(changes),
                self._now(),
                encoded.lossy,
            )
        )

    @_harmless
    def raised(self, frame: RecordedFrame, error: BaseException, shape: Shape) -> None:
        """Write what a call raised, and where that exception was first seen."""
        origin = self._origin(frame, error)
        encoded = encode_exception(error)
        changes = _changes(frame)
        status: Any = "suspended" if is_control_flow(error) else "raised"
        self._write(
            lambda clean: CallEnded(
                frame.address,
                status,
                clean(encoded.plain),
                shape,
                origin,
                clean(changes),
                self._now(),
                encoded.lossy,
            )
        )

    @_harmless
    def closed_early(self, frame: RecordedFrame, shape: Shape) -> None:
        """Write that the consumer left."""
        self._write(lambda clean: CallEnded(frame.address, "closed_early", None, shape, at=self._now()))

    @_harmless
    def fail(self, reason: str, frame: Any) -> None:
        """Mark this run as failed from within."""
        self.failed = True
        address = frame.address or child_address("", self.name, 1)
        if self._failure is None:
            self._failure = Failure("failed", address=address, message=reason)
        self._write(lambda clean: RunMarked(clean(reason), address))

    def left(self, frame: RecordedFrame, error: BaseException | None) -> None:
        """The root's end is the run's end."""
        if "/" not in frame.address and self.is_open:
            self.close(frame, error)

    def close(self, frame: RecordedFrame, error: BaseException | None) -> None:
        """Write how the run ended and let go of the file."""
        self.is_open = False
        self._opened.close()
        self._close(frame, error)

    @_harmless
    def _close(self, frame: RecordedFrame, error: BaseException | None) -> None:
        expected = frame.spec.options.expected if frame.spec else ()
        if error is not None and not is_control_flow(error) and not isinstance(error, expected):
            self.failed = True
            self._failure = Failure(
                "raised", self._origin(frame, error), type_name(type(error)), _text_of(error)
            )
        failure = self._failure
        self._write(
            lambda clean: RunEnded(
                self._now(),
                failure and Failure(failure.kind, failure.address, failure.type, clean(failure.message)),
            )
        )
        self.journal.close()

    def abandon(self, fault: Exception) -> None:
        """Let go of a run whose start failed."""
        self.is_open = False
        self._opened.close()
        self.give_up(fault)

    def give_up(self, fault: Exception) -> None:
        """Stop recording this run; the agent goes on as if nothing had happened."""
        if self.broken:
            return
        self.broken = True
        with contextlib.suppress(Exception):
            self.journal.append(RunEnded(self._now(), incomplete=True))
        with contextlib.suppress(Exception):
            self.journal.close()
        warn_once(f"stepfork could not record this run any further: {type(fault).__name__}: {fault}")

    def _now(self) -> float:
        return round(time.perf_counter() - self._clock, 6)

    def _origin(self, frame: RecordedFrame, error: BaseException) -> str:
        """Return where this exception object was first seen; the mark travels on the object itself."""
        seen = error.__dict__.setdefault("_stepfork_seen", (self.id, frame.address))
        if seen[0] != self.id:
            seen = error.__dict__["_stepfork_seen"] = (self.id, frame.address)
        return str(seen[1])

    def _write(self, make: Callable[[Callable[[Any], Any]], Event]) -> None:
        """Write an event; it is made a second time, redacted, where its bytes may hold a secret."""
        line = encode_line(make(_as_it_is))
        if self.redactor.scan(line):
            line = encode_line(make(self.redactor.redact))
        if len(line) > self.journal.blob_bytes:
            line = encode_line(make(lambda plain: self.journal.outsource(self.redactor.redact(plain))))
        self.journal.write(line)


def _as_it_is(plain: Any) -> Any:
    return plain


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__}, whose text cannot be made>"


def _may_change(
    spec: Spec, arguments: Mapping[str, Any], plain: dict[str, Plain]
) -> tuple[dict[str, Any], dict[str, Plain]]:
    """Return the live arguments that a tool may change in place, and how they look before."""
    if spec.kind == "step":
        return {}, {}
    names = arguments if spec.options.mutates is None else spec.options.mutates
    live = {
        name: arguments[name]
        for name in names
        if name in arguments and type(arguments[name]) not in _IMMUTABLE
    }
    return live, {name: snapshot_of(plain[name]) for name in live}


def snapshot_of(plain: Plain) -> bytes:
    """Freeze a plain value, which may share lists and dicts with the live one."""
    import msgspec

    return msgspec.json.encode(plain)


def _changes(frame: RecordedFrame) -> dict[str, list[Any]] | None:
    import msgspec

    changes = {}
    for name, value in frame.live.items():
        after = encode(value).plain
        if msgspec.json.encode(after) != frame.before[name]:
            change = diff(msgspec.json.decode(frame.before[name]), after)
            if change:
                changes[name] = change
    return changes or None


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Say it once per process and text."""
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def recording_is_on(settings: Settings) -> bool:
    """Off by setting; under pytest off unless the plug-in switched it on."""
    if "PYTEST_VERSION" in os.environ and not settings.record_under_pytest:
        return False
    return settings.record


def open_root(spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedFrame | None:
    """Open the run of an outermost step; None where recording is off or cannot be set up."""
    return open_run(
        spec,
        lambda: spec.bind(args, kwargs),
        source=_source_of(spec.function),
        entry=_entry_of(spec),
    )


def open_run(
    spec: Spec,
    arguments: Callable[[], Mapping[str, Any]],
    *,
    source: Path | None,
    entry: Entry | None = None,
    path: Path | None = None,
) -> RecordedFrame | None:
    """Return the frame of a new run's root; None where recording is off or cannot be set up."""
    recorder = None
    try:
        recorder = _open_recorder(spec.name, source, entry, path)
        if recorder is None:
            return None
        recorder.start()
        recorder.base = recorder.begin(spec, recorder.base, arguments())
        return recorder.base
    except Exception as fault:
        if recorder is not None:
            recorder.abandon(fault)
        else:
            warn_once(f"stepfork cannot record here: {type(fault).__name__}: {fault}")
        return None


def _open_recorder(name: str, source: Path | None, entry: Entry | None, path: Path | None) -> Recorder | None:
    from stepfork._paths import ensure_private_dir, project_root, runs_dir
    from stepfork._settings import settings as settings_of

    root = project_root(source.parent if source else Path.cwd())
    settings = settings_of(root)
    if path is None and not recording_is_on(settings):
        return None
    run_id = secrets.token_hex(5)
    if path is None:
        folder = runs_dir(root, settings)
        ensure_private_dir(folder)
        path = folder / f"{run_id}.jsonl"
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    return Recorder(
        run_id,
        name,
        journal=Journal(path, settings.blob_bytes),
        redactor=make_redactor(settings),
        entry=entry,
    )


def make_redactor(settings: Settings) -> Redactor:
    """Return a redactor with the rules of these settings."""
    return Redactor(
        environ=os.environ,
        keys=settings.redact_keys,
        patterns=settings.redact_patterns,
        custom=settings.redactor,
    )


def _source_of(function: Any) -> Path | None:
    code = getattr(_innermost(function), "__code__", None)
    if code is None:
        return None
    path = Path(code.co_filename)
    return path if path.exists() else None


def _innermost(function: Any) -> Any:
    while hasattr(function, "__wrapped__") or hasattr(function, "func") or hasattr(function, "__func__"):
        function = (
            getattr(function, "__wrapped__", None) or getattr(function, "func", None) or function.__func__
        )
    return function


def _entry_of(spec: Spec) -> Entry | None:
    function = _innermost(spec.function)
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not qualname:
        return None
    source = _source_of(function)
    return Entry(module, qualname, _relative_to_root(source) if source else "")


def _relative_to_root(source: Path) -> str:
    from stepfork._paths import project_root

    resolved = source.resolve()
    with contextlib.suppress(ValueError):
        return resolved.relative_to(project_root(resolved.parent)).as_posix()
    return resolved.name
