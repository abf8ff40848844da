"""Replays a recorded run: steps execute again, tools and models are answered from the recording."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from stepfork._alias import Aliases, Facts, pair, rebind
from stepfork._calls import Call, Failure, Outcome, Plain, Run, child_address
from stepfork._codec import canonical, decode, decode_exception, encode, encode_exception, type_name
from stepfork._context import AmbiguousFrame
from stepfork._extension import ExtensionWriter
from stepfork._control_flow import is_control_flow
from stepfork._load import Recording
from stepfork._matching import Match, Pool, Request
from stepfork._mutation import apply
from stepfork._order import in_recorded_order
from stepfork._override import Overrides
from stepfork._redact import Redactor
from stepfork._serve import Injected, Recorded, Stop
from stepfork._spec import Spec
from stepfork.errors import AmbiguousReplay, ReplayStopped, StepforkError
from stepfork.tolerance import Rule, Rules

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True)
class Frontier:
    """A call that the recording could not answer."""

    call: Call
    why: str
    nearest: list[Call]


@dataclass(slots=True, eq=False)
class ReplayFrame:
    """One call of a replay."""

    session: Replay
    spec: Spec | None
    call: Call
    recorded: Call | None = None
    """The recorded call that stands at this address."""
    answer: Recorded | Injected | Stop | None = None
    is_live: bool = False
    is_kept: bool = False
    """Run live for an extension."""
    taken: set[str] = field(default_factory=set)

    def item(self, value: object) -> None:
        """Note one chunk."""
        plain = self.session.plain(value)
        if self.call.outcome.items is None:
            self.call.outcome.items = []
        self.call.outcome.items.append(plain)

    def returned(self, value: object, shape: Any) -> None:
        """Note what the call returned."""
        self._ended("returned", self.session.plain(value), shape)

    def raised(self, error: BaseException, shape: Any) -> None:
        """Note what the call raised."""
        if isinstance(error, ReplayStopped):
            self._ended("stopped", None, shape)
        elif is_control_flow(error) and self.session.frontiers:
            self._ended("cut_off", None, shape)
        else:
            plain = self.session.clean(encode_exception(error).plain)
            self._ended("suspended" if is_control_flow(error) else "raised", plain, shape)
            self.call.outcome.origin = self.session.origin(error, self.call.address)

    def closed_early(self, shape: Any) -> None:
        """Note that the consumer left the stream."""
        self._ended("closed_early", None, shape)

    def _ended(self, status: Any, value: Plain, shape: Any) -> None:
        items = self.call.outcome.items
        if shape in ("stream", "astream") and items is None:
            items = []
        self.call.outcome = Outcome(status, value, items, shape)
        self.call.span = (self.call.span[0], self.session.tick())
        if self.is_kept:
            self.session.keep(self.call)


class Replay:
    """The session of one replay."""

    is_replay = True

    def __init__(
        self,
        recording: Recording,
        *,
        overrides: Overrides,
        redactor: Redactor,
        moved: Mapping[str, str],
        tolerance: Mapping[str, Rule],
        live: frozenset[str] = frozenset(),
        extension: ExtensionWriter | None = None,
    ) -> None:
        self.recording = recording
        self.is_open = True
        self.frontiers: list[Frontier] = []
        self.errors: list[StepforkError] = []
        self.failure: Failure | None = None
        self.rules: dict[str, Rules] = {}
        self._overrides = overrides
        self._redactor = redactor
        self._moved_classes = moved
        self._tolerance = tolerance
        self._live = live
        self._extension = extension
        self._id = secrets.token_hex(5)
        self._lock = threading.RLock()
        self._ticks = count(1)
        self._last_tick = 0
        self._started = time.time()
        self._facts, self._made = facts_of(recording.run)
        self._bindings: dict[str, str] = {}
        run = recording.run
        self._aliases_then = Aliases(self._facts, clock=(run.started, run.started + max(run.seconds, 1.0)))
        self._aliases_now = Aliases(self._facts, clock=(self._started, float("inf")))
        self._pool = Pool(run.root, recording.extensions, self._aliases_then.blank)
        top = Call("step", "", "", {}, Outcome("returned"))
        outermost = Call("step", "", "", {}, Outcome("returned"), children=[run.root])
        self.base: Any = ReplayFrame(self, None, top, outermost)

    @property
    def facts(self) -> Facts:
        """The id-like texts that are compared exactly."""
        return self._facts

    @property
    def clock(self) -> tuple[float, float]:
        """The time in which this replay ran, in seconds since the epoch."""
        return self._started, time.time()

    @property
    def calls_made(self) -> int:
        """Grows while anything still happens."""
        return self._last_tick

    def tick(self) -> int:
        """Return the next position in the order of events."""
        self._last_tick = next(self._ticks)
        return self._last_tick

    def plain(self, value: object) -> Plain:
        """Encode and redact a value as the recorder did."""
        return self.clean(encode(value).plain)

    def clean(self, plain: Plain) -> Plain:
        """Redact as the recorder did; frozen, since the agent may change the live value later."""
        data = canonical_bytes(plain)
        return self._redactor.redact(plain) if self._redactor.scan(data) else thaw(data)

    def enter(self, spec: Spec, parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ReplayFrame | None:
        """Find the answer to a call, or let a step execute again."""
        if isinstance(parent, AmbiguousFrame):
            return self._lost(spec, parent)
        if parent.is_live or (spec.kind == "step" and not self.is_open):
            return None
        arguments = spec.bind(args, kwargs)
        plain = {name: self.plain(value) for name, value in arguments.items()}
        with self._lock:
            if not self.is_open:
                return self._too_late(spec, parent, plain)
            if spec.kind == "step":
                return self._step(spec, parent, plain)
            return self._boundary(spec, parent, arguments, plain)

    def fail(self, reason: str, frame: Any) -> None:
        """The replayed code calls this run a failed one."""
        if self.failure is None:
            self.failure = Failure("failed", address=frame.call.address or self.recording.run.root.address, message=reason)

    def origin(self, error: BaseException, address: str) -> str:
        """Return where this exception object was first seen in this replay."""
        seen = error.__dict__.setdefault("_stepfork_seen", (self._id, address))
        if seen[0] != self._id:
            seen = error.__dict__["_stepfork_seen"] = (self._id, address)
        return str(seen[1])

    def keep(self, call: Call) -> None:
        """Write a call that ran live into the extension."""
        if self._extension is not None:
            self._extension.write(call)

    def close(self) -> None:
        """No call is answered any more; put the calls into their final order."""
        with self._lock:
            self.is_open = False
            in_recorded_order(self.base.call, self._recorded_span)

    def root_frame(self) -> ReplayFrame:
        """Return a frame that stands where the recorded root stood, for a block that replays."""
        root = self.recording.run.root
        call = Call("step", root.name, root.address, root.input, Outcome("unfinished"))
        self.base.call.children.append(call)
        return ReplayFrame(self, None, call, root)

    @property
    def unused(self) -> list[Call]:
        """The recorded calls that the replay did not make."""
        return self._pool.unused()

    def stop(self, call: Call, why: str, nearest: Iterable[Call] = ()) -> ReplayStopped:
        """Note a frontier; the exception ends the agent, and the note stays when the agent swallows it."""
        call.outcome = Outcome("stopped")
        self.frontiers.append(Frontier(call, why, list(nearest)))
        return ReplayStopped(f"{call.address}: {why}")

    def _recorded_span(self, call: Call) -> tuple[int, int] | None:
        return self._spans.get(call.moved_from or call.address)

    @property
    def _spans(self) -> dict[str, tuple[int, int]]:
        spans = {call.address: call.span for call in self.recording.run.walk()}
        end = max((span[1] for span in spans.values()), default=0)
        for calls in self.recording.extensions:
            for call in calls:
                spans.setdefault(call.address, (end + call.span[0], end + call.span[1]))
            end = max((span[1] for span in spans.values()), default=end)
        return spans

    def _lost(self, spec: Spec, parent: AmbiguousFrame) -> ReplayFrame:
        error = AmbiguousReplay(
            f"{spec.name} was called in a thread without context while {len(parent.sessions)} replays are open",
            ways_on=["pass the context on: contextvars.copy_context().run(...)", "or run the replays one by one"],
        )
        for session in parent.sessions:
            session.errors.append(error)  # type: ignore[attr-defined]
        call = Call(spec.kind, spec.name, spec.name, {}, Outcome("stopped"))
        return ReplayFrame(self, spec, call, answer=Stop(ReplayStopped(str(error))))

    def _too_late(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> ReplayFrame:
        call = Call(spec.kind, spec.name, child_address(parent.call.address, spec.name, 1), plain, Outcome("stopped"))
        return ReplayFrame(self, spec, call, answer=Stop(ReplayStopped(f"{spec.name}: the replay is over")))

    def _step(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> ReplayFrame:
        recorded = self._counterpart(spec, parent, plain)
        address = recorded.address if recorded else self._free_address(spec.name, parent)
        self._learn_rules(spec)
        call = self._add(spec, parent, address, plain)
        return ReplayFrame(self, spec, call, recorded)

    def _counterpart(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> Call | None:
        """Return the recorded sibling with equal input, else the first that is left."""
        siblings = parent.recorded.children if parent.recorded else []
        free = [call for call in siblings if call.name == spec.name and call.address not in parent.taken]
        now = canonical(self._aliases_now.blank(plain))
        for call in free:
            if canonical(self._aliases_then.blank({**spec.defaults, **call.input})) == now:
                return call
        return free[0] if free else None

    def _free_address(self, name: str, parent: ReplayFrame, after: int = 0) -> str:
        for number in count(after + 1):
            address = child_address(parent.call.address, name, number)
            if address not in parent.taken:
                return address
        raise AssertionError("unreachable")  # pragma: no cover

    def _add(self, spec: Spec, parent: ReplayFrame, address: str, plain: dict[str, Plain]) -> Call:
        parent.taken.add(address)
        now = self.tick()
        call = Call(spec.kind, spec.name, address, plain, Outcome("unfinished"), span=(now, now), site=call_site())
        call.repeats = spec.options.repeats
        parent.call.children.append(call)
        return call

    def _learn_rules(self, spec: Spec) -> Rules | None:
        if spec.name not in self.rules:
            merged = {**self._tolerance, **spec.options.tolerance}
            if not merged:
                return None
            self.rules[spec.name] = Rules(merged)
        return self.rules[spec.name]

    def _boundary(
        self, spec: Spec, parent: ReplayFrame, arguments: Mapping[str, Any], plain: dict[str, Plain]
    ) -> ReplayFrame:
        request = Request(spec, parent.call.address, plain, self._aliases_now.blank, self._learn_rules(spec))
        match = self._pool.find(request)
        if match is None and spec.options.repeats:
            again = self._pool.last_used(request)
            if again is not None:
                silent = Call(spec.kind, spec.name, again.address, plain, again.outcome)
                return ReplayFrame(self, spec, silent, answer=self._recorded(spec, again, silent, arguments))
        call = self._add(spec, parent, self._address_for(match, spec, parent), plain)
        if match is not None:
            self._pool.use(match)
            call.moved_from = match.slot.address if match.how == "moved" else None
            call.drifted = match.how == "drift"
        frame = ReplayFrame(self, spec, call, match and match.call)
        self._decide(frame, match, request, arguments)
        return frame

    def _address_for(self, match: Match | None, spec: Spec, parent: ReplayFrame) -> str:
        if match is not None and match.how != "moved":
            return match.slot.address
        return self._free_address(spec.name, parent, after=self._pool.count(parent.call.address, spec.name))

    def _decide(self, frame: ReplayFrame, match: Match | None, request: Request, arguments: Mapping[str, Any]) -> None:
        """Choose among override, live, extension, recorded outcome and frontier."""
        spec, call = request.spec, frame.call
        known = match is not None and match.call.outcome.status not in ("killed", "unfinished")
        found, injected = self._overrides.take(call.address, spec.name, answered=known and not is_stale(match))
        if found:
            call.overridden = True
            call.outcome = Outcome("returned")
            frame.answer = Injected(injected, shape=match.call.outcome.shape if match else "value")
        elif spec.name in self._live:
            frame.is_live = True
        elif self._extension is not None and self._extension.wants(call.address, known and not is_stale(match)):
            frame.is_live = frame.is_kept = call.extended = True
        elif match is not None and known:
            call.stale = match.how == "stale"
            call.extended = match.call.extended
            call.outcome = match.call.outcome
            self._bind_ids(spec, match.call, call)
            frame.answer = self._recorded(spec, match.call, call, arguments)
        else:
            call.unrecorded = match is None
            why = "it was under way when the recorded process ended" if match else "the recording holds no such call"
            frame.answer = Stop(self.stop(call, why, self._pool.nearest(request)))

    def _bind_ids(self, spec: Spec, recorded: Call, now: Call) -> None:
        """Pair the ids that the code made then with those it made now: an outcome may echo them."""
        then, new = {**spec.defaults, **recorded.input}, now.input
        if spec.options.match is not None:
            then, new = ({k: v for k, v in side.items() if k in spec.options.match} for side in (then, new))
        if canonical(then) != canonical(new) and canonical(self._aliases_then.blank(then)) == canonical(
            self._aliases_now.blank(new)
        ):
            for old, fresh in pair(then, new).items():
                if old in self._made:
                    self._bindings.setdefault(old, fresh)

    def _recorded(self, spec: Spec, recorded: Call, call: Call, arguments: Mapping[str, Any]) -> Recorded:
        options: dict[str, Any] = {"hints": spec.hints, "aliases": self._moved_classes}

        def decoded(plain: Plain) -> Any:
            return self._guarded(call, lambda: decode(rebind(plain, self._bindings), **options))

        def decoded_exception(plain: Plain) -> BaseException:
            error = self._guarded(call, lambda: decode_exception(rebind(plain, self._bindings), **options))
            self.origin(error, recorded.address)
            return error

        def change() -> None:
            for name, changes in (recorded.outcome.changes or {}).items():
                if name in arguments:
                    self._guarded(call, lambda name=name, changes=changes: apply(arguments[name], changes, decoded))

        return Recorded(recorded, decoded, decoded_exception, change, lambda why: self.stop(call, why))

    def _guarded(self, call: Call, make: Callable[[], Any]) -> Any:
        """A recorded value that no longer fits its class must not look like a fault of the agent."""
        try:
            return make()
        except (StepforkError, LookupError) as error:
            self.errors.append(
                error
                if isinstance(error, StepforkError)
                else StepforkError(f"{call.address} cannot be served: {error}")
            )
            raise ReplayStopped(str(error)) from error


def is_stale(match: Match | None) -> bool:
    """Whether a reply was recorded for another prompt."""
    return match is not None and match.how == "stale"


def facts_of(run: Run) -> tuple[Facts, set[str]]:
    """Return the id-like texts that are facts of this run, and those that its code made.

    Facts stand in the root input, or in an outcome before any call had them as its argument.
    """
    from stepfork._alias import tokens

    facts, made = Facts(), set[str]()
    facts.add(run.root.input)
    facts.add(run.facts)
    events: list[tuple[int, bool, Call]] = []
    for call in run.walk():
        if call.kind != "step":
            events += [(call.span[0], True, call), (call.span[1], False, call)]
    for _, is_start, call in sorted(events, key=lambda event: event[0]):
        if is_start:
            made.update(token.text for token in tokens(call.input) if token.text not in facts)
        else:
            for part in (call.outcome.value, call.outcome.items, call.outcome.changes):
                facts.add(part, unless=made)
    return facts, made


def call_site() -> str | None:
    """Return ``file:line`` of the nearest code on the stack that is neither ours nor a library's plumbing."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_OURS) and "asyncio" not in filename and not filename.startswith("<"):
            return f"{os.path.relpath(filename) if filename.startswith(os.getcwd()) else filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def canonical_bytes(plain: Plain) -> bytes:
    """Encode without sorting: the order of a dict is part of what an agent may see."""
    import msgspec

    return msgspec.json.encode(plain)


def thaw(data: bytes) -> Plain:
    """Decode what :func:`canonical_bytes` froze."""
    import msgspec

    return msgspec.json.decode(data)


__all__ = ["Frontier", "Replay", "ReplayFrame", "facts_of", "type_name"]
