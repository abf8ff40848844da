"""Replays a recorded run: steps execute again, tools and models are answered from the recording."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from stepfork._alias import Aliases, pair, rebind
from stepfork._calls import Call, Failure, Outcome, child_address
from stepfork._codec import canonical, decode, decode_exception, encode
from stepfork._context import AmbiguousFrame
from stepfork._mutation.apply import ChangeMisfit, apply
from stepfork._mutation.watch import changes_of, may_change
from stepfork._refusal import refused
from stepfork._replay.facts import facts_of
from stepfork._replay.frame import Frontier, ReplayFrame
from stepfork._replay.matching import Match, Pool, Request
from stepfork._replay.order import put_in_order
from stepfork._replay.serve import Injected, Recorded, Stop
from stepfork._replay.site import call_site
from stepfork._replay.stop import is_after_stop
from stepfork.errors import AmbiguousReplay, ReplayStopped, StepforkError
from stepfork.tolerance import Rule, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._alias import Facts
    from stepfork._calls import Plain
    from stepfork._redact import Redactor
    from stepfork._replay.extension import ExtensionWriter
    from stepfork._replay.load import Recording
    from stepfork._replay.override import Overrides
    from stepfork._spec import Spec

__all__ = ["Frontier", "Replay", "ReplayFrame", "facts_of"]


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
        common_tolerance: Mapping[str, Rule],
        live: frozenset[str] = frozenset(),
        extension: ExtensionWriter | None = None,
        block: bool = False,
    ) -> None:
        self.recording = recording
        self.is_open = True
        self.is_ending = False
        """The root has ended: what still runs beside it is answered, and is no frontier."""
        self.frontiers: list[Frontier] = []
        self.errors: list[StepforkError] = []
        self.failure: Failure | None = None
        self.rules: dict[str, Rules | None] = {}
        self._overrides = overrides
        self._redactor = redactor
        self._moved_classes = moved
        self._tolerance = tolerance
        self._common_tolerance = common_tolerance
        self._live = live
        self._extension = extension
        self._is_block = block
        self._id = secrets.token_hex(5)
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._ticks = count(1)
        self._last_tick = 0
        self._started = time.time()
        self._makers: dict[int, object] = {}
        """Of each call the task or thread that made it; held so that no identity is used twice."""
        run = recording.run
        self._facts, self._made = facts_of(run)
        self._bindings: dict[str, str] = {}
        self._aliases_then = Aliases(self._facts, clock=(run.started, run.started + max(run.seconds, 1.0)))
        self._aliases_now = Aliases(self._facts, clock=(self._started, float("inf")))
        self._pool = Pool(run.root, recording.extensions, self._aliases_then.blank)
        top = Call("step", "", "", {}, Outcome("returned"))
        outermost = Call("step", "", "", {}, Outcome("returned"), children=[run.root])
        self._top = ReplayFrame(self, None, top, outermost)
        self._block: ReplayFrame | None = self._stand_in_for_root() if block else None
        self._places: dict[str, str] = {}

    @property
    def base(self) -> ReplayFrame:
        """Where calls without a context of their own belong."""
        return self._block or self._top

    @property
    def calls(self) -> list[Call]:
        """The outermost calls that were made: the root alone, but for agents that are no single step."""
        return self._top.call.children

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

    @property
    def has_stopped(self) -> bool:
        """Whether some call could not be answered so far."""
        return bool(self.frontiers)

    @property
    def unused(self) -> list[Call]:
        """The recorded calls that the replay did not make."""
        return self._pool.unused()

    def tick(self) -> int:
        """Return the next position in the order of events."""
        self._last_tick = next(self._ticks)
        return self._last_tick

    def plain(self, value: object) -> Plain:
        """Encode and redact a value as the recorder did."""
        return self.clean(encode(value).plain)

    def clean(self, plain: Plain) -> Plain:
        """Redact as the recorder did; frozen, since the agent may change the live value later."""
        data = msgspec.json.encode(plain)
        return self._redactor.redact(plain) if self._redactor.scan(data) else msgspec.json.decode(data)

    def enter(
        self, spec: Spec, parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> ReplayFrame | None:
        """Find the answer to a call, or let a step execute again."""
        if isinstance(parent, AmbiguousFrame):
            return self._lost(spec, parent)
        if parent.is_live or (spec.kind == "step" and not self.is_open):
            return None
        arguments = spec.bind(args, kwargs)
        plain = self.clean({name: encode(value).plain for name, value in arguments.items()})
        if not self.is_open:  # first without the lock, which a fork may have left locked
            return self._too_late(spec, parent, plain)
        with self._lock:
            if not self.is_open:
                return self._too_late(spec, parent, plain)
            parent = self._below(parent, spec)
            if spec.kind == "step":
                return self._step(spec, parent, plain)
            return self._boundary(spec, parent, arguments, plain)

    def fail(self, reason: str, frame: Any) -> None:
        """The replayed code calls this run a failed one."""
        if self.failure is None and not is_after_stop():
            call = getattr(frame, "call", None)
            address = (call and call.address) or self.recording.run.root.address
            self.failure = Failure("failed", address=address, message=reason)

    def forget(self) -> None:
        """In a forked child: no call is answered."""
        self.is_open = False

    def origin(self, error: BaseException, address: str) -> str:
        """Return where this exception object was first seen in this replay."""
        seen = error.__dict__.get("_stepfork_seen")
        if not seen or seen[0] != self._id:
            seen = error.__dict__["_stepfork_seen"] = (self._id, address)
        return self._places.get(seen[1], str(seen[1]))

    def _seen_at(self, error: BaseException, address: str) -> None:
        """Note where an exception comes from, though the same object may have been somewhere before."""
        error.__dict__["_stepfork_seen"] = (self._id, address)

    def keep(self, frame: ReplayFrame) -> None:
        """Write a call that ran live into the extension."""
        with self._lock:
            if self._extension is not None:
                self._extension.write(frame.call, self.clean(changes_of(frame)))

    def close(self) -> None:
        """No call is answered any more; put the calls into their final order."""
        with self._lock:
            self.is_open = False
            self._over.set()
            self._places = put_in_order(
                self._top.call,
                self._spans(),
                self._makers,
                self._aliases_now.blank,
                fixed=self._extension is not None,
            )
            self._makers.clear()
            position = {id(call): number for number, call in enumerate(self._top.call.walk())}
            self.frontiers.sort(key=lambda frontier: position.get(id(frontier.call), len(position)))
            if self.failure is not None and self.failure.address in self._places:
                self.failure = msgspec.structs.replace(
                    self.failure, address=self._places[self.failure.address]
                )

    def end(self, value: object, error: BaseException | None) -> None:
        """Note how a function ended that is no step itself but stands for the recorded root."""
        if self._block is None:
            return
        if error is None:
            self._block.returned(value, "value")
        else:
            self._block.raised(error, "value")

    def stop(self, call: Call, why: str, look: Callable[[], list[Call]] = list) -> ReplayStopped:
        """Note a frontier; the exception ends the agent, and the note stays when the agent swallows it."""
        with self._lock:
            call.outcome = Outcome("stopped")
            if self.is_open and not self.is_ending:
                call.unrecorded = True
                self.frontiers.append(Frontier(call, why, look))
        return ReplayStopped(f"{call.address}: {why}")

    def _spans(self) -> dict[str, tuple[int, int]]:
        spans = {call.address: call.span for call in self.recording.run.walk()}
        end = max((span[1] for span in spans.values()), default=0)
        for calls in self.recording.extensions:
            for call in calls:
                spans.setdefault(call.address, (end + call.span[0], end + call.span[1]))
            end = max((span[1] for span in spans.values()), default=end)
        return spans

    # -- places

    def _stand_in_for_root(self) -> ReplayFrame:
        root = self.recording.run.root
        call = Call(root.kind, root.name, root.address, root.input, Outcome("unfinished"))
        self._top.call.children.append(call)
        return ReplayFrame(self, None, call, root)

    def _below(self, parent: ReplayFrame, spec: Spec) -> ReplayFrame:
        """Return the frame that a call stands in: one outside of any step stands where it was recorded."""
        if parent is not self._top:
            return parent
        if self._block is None and spec.kind == "step" and self._is_root(spec):
            return parent
        if self._block is None:
            self._block = self._stand_in_for_root()
        return self._block

    def _is_root(self, spec: Spec) -> bool:
        run = self.recording.run
        return not self.calls and (spec.name == run.root.name or run.entry is not None)

    def _lost(self, spec: Spec, parent: AmbiguousFrame) -> ReplayFrame:
        error = AmbiguousReplay(
            f"{spec.name} was called without context, and {len(parent.sessions)} replays are open",
            detail=[("now", f"{spec.name}(...)   {call_site() or ''}".rstrip())],
            ways_on=[
                "pass the context on: contextvars.copy_context().run(...)",
                "or run the replays one by one",
            ],
        )
        for session in parent.sessions:
            session.errors.append(error)  # type: ignore[attr-defined]
        call = Call(spec.kind, spec.name, spec.name, {}, Outcome("stopped"))
        return ReplayFrame(self, spec, call, answer=Stop(ReplayStopped(str(error))))

    def _too_late(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> ReplayFrame:
        if self._process != os.getpid():
            stopped = refused(spec.name)
        else:
            stopped = ReplayStopped(
                f"{spec.name} was called after its replay had ended, and was not executed"
            )
        call = Call(
            spec.kind, spec.name, child_address(parent.call.address, spec.name, 1), plain, Outcome("stopped")
        )
        return ReplayFrame(self, spec, call, answer=Stop(stopped))

    # -- steps

    def _step(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> ReplayFrame:
        recorded = self._counterpart(spec, parent, plain)
        self._learn_rules(spec)
        address = recorded.address if recorded else self._new_address(spec.name, parent)
        return ReplayFrame(self, spec, self._add(spec, parent, address, plain), recorded)

    def _counterpart(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> Call | None:
        """Return the recorded sibling with equal input, else the first that is left."""
        siblings = parent.siblings(spec, self._aliases_then.blank)
        entry = siblings.same(Request(spec, parent.call.address, plain, self._aliases_now.blank))
        slot = entry.slot if entry else siblings.first_unused()
        if slot is None:
            return None
        slot.is_used = True
        return slot.recorded

    def _new_address(self, name: str, parent: ReplayFrame) -> str:
        highest = parent.numbers.get(name) or self._pool.highest(parent.call.address, name)
        parent.numbers[name] = highest + 1
        return child_address(parent.call.address, name, highest + 1)

    def _add(self, spec: Spec, parent: ReplayFrame, address: str, plain: dict[str, Plain]) -> Call:
        now = self.tick()
        call = Call(
            spec.kind, spec.name, address, plain, Outcome("unfinished"), span=(now, now), site=call_site()
        )
        call.repeats = spec.options.repeats
        parent.call.children.append(call)
        self._makers[id(call)] = _maker()
        return call

    def _learn_rules(self, spec: Spec) -> Rules | None:
        if spec.name not in self.rules:
            merged = {**self._common_tolerance, **spec.options.tolerance, **self._tolerance}
            self.rules[spec.name] = Rules(merged) if merged else None
        return self.rules[spec.name]

    # -- tools and models

    def _boundary(
        self, spec: Spec, parent: ReplayFrame, arguments: Mapping[str, Any], plain: dict[str, Plain]
    ) -> ReplayFrame:
        request = Request(spec, parent.call.address, plain, self._aliases_now.blank, self._learn_rules(spec))
        match = self._pool.find(request)
        if match is None and spec.options.repeats:
            again = self._pool.last_used(request)
            if again is not None and self._has_outcome(again):
                silent = Call(spec.kind, spec.name, again.address, plain, again.outcome)
                return ReplayFrame(self, spec, silent, answer=self._recorded(spec, again, silent, arguments))
        here = match is not None and match.how != "moved"
        address = match.slot.address if match and here else self._new_address(spec.name, parent)
        call = self._add(spec, parent, address, plain)
        if match is not None:
            self._pool.use(match)
            call.moved_from = None if here else match.slot.address
            call.drifted = match.how == "drift"
        frame = ReplayFrame(self, spec, call, match and match.call)
        self._decide(frame, match, request, arguments)
        return frame

    def _decide(
        self, frame: ReplayFrame, match: Match | None, request: Request, arguments: Mapping[str, Any]
    ) -> None:
        """Choose among override, live, extension, recorded outcome and frontier."""
        spec, call = request.spec, frame.call
        is_stale = match is not None and match.how == "stale"
        known = match is not None and self._has_outcome(match.call)
        found, injected = self._overrides.take(call.address, spec.name, answered=known and not is_stale)
        if found:
            call.overridden = True
            call.outcome = Outcome("returned")
            shape = match.call.outcome.shape if match else "value"
            frame.answer = Injected(injected, shape, lambda error: self._seen_at(error, call.address))
        elif spec.name in self._live:
            self._run_live(frame, arguments)
        elif self._extension is not None and self._extension.wants(call.address, known and not is_stale):
            frame.is_kept = call.extended = True
            self._run_live(frame, arguments)
        elif match is not None and known:
            call.stale = is_stale
            call.extended = match.call.extended
            call.outcome = match.call.outcome
            self._bind_ids(match.call, request)
            frame.answer = self._recorded(spec, match.call, call, arguments)
        else:
            why = _UNDER_WAY if match else "the recording holds no such call"
            frame.answer = Stop(self.stop(call, why, lambda: self._pool.nearest(request)))

    def _has_outcome(self, recorded: Call) -> bool:
        """Whether there is something to serve; a call that the end of the run cut off never comes back."""
        status = recorded.outcome.status
        return status != "killed" and (status != "unfinished" or self.recording.run.ended)

    def _run_live(self, frame: ReplayFrame, arguments: Mapping[str, Any]) -> None:
        frame.is_live = True
        if frame.spec is not None:
            frame.live, frame.before = may_change(frame.spec, arguments, frame.call.input)

    def _bind_ids(self, recorded: Call, request: Request) -> None:
        """Pair the ids that the code made then with those it made now: an outcome may echo them."""
        if not self._made or recorded.input == request.input:
            return
        then = {name: recorded.input[name] for name in request.identity if name in recorded.input}
        now = {name: request.identity[name] for name in then}
        if canonical(self._aliases_then.blank(then)) == canonical(self._aliases_now.blank(now)):
            for old, fresh in pair(then, now).items():
                if old in self._made:
                    self._bindings.setdefault(old, fresh)

    def _recorded(self, spec: Spec, recorded: Call, call: Call, arguments: Mapping[str, Any]) -> Recorded:
        options: dict[str, Any] = {"hints": spec.hints, "aliases": self._moved_classes}

        def decoded(plain: Plain) -> Any:
            try:
                return decode(rebind(plain, self._bindings), **options)
            except StepforkError as error:
                self._refuse(error)

        def decoded_exception(plain: Plain) -> BaseException:
            try:
                error = decode_exception(rebind(plain, self._bindings), **options)
            except StepforkError as misfit:
                self._refuse(misfit)
            self.origin(error, _origin_now(recorded, call))
            error.__dict__["_stepfork_served"] = self._id
            return error

        def change() -> None:
            for name, changes in (recorded.outcome.changes or {}).items():
                if name in arguments:
                    try:
                        apply(arguments[name], changes, decoded)
                    except ChangeMisfit as misfit:
                        raise self.stop(
                            call, f"what it changed in {name} has no place there: {misfit}"
                        ) from None

        return Recorded(
            recorded, decoded, decoded_exception, change, lambda why: self.stop(call, why), self._wait
        )

    def was_served(self, error: BaseException) -> bool:
        """Whether this exception came out of the recording, even if it is one such as Ctrl-C."""
        return error.__dict__.get("_stepfork_served") == self._id

    def _refuse(self, error: StepforkError) -> NoReturn:
        """A recorded value that no longer fits its class must not look like a fault of the agent."""
        self.errors.append(error)
        raise ReplayStopped(str(error)) from error

    def _wait(self, seconds: float) -> None:
        if not _loop_runs_here():
            self._over.wait(seconds)


_UNDER_WAY = "it was under way when the recorded process ended"


def _origin_now(recorded: Call, call: Call) -> str:
    """Return where the recorded exception was first seen, as addresses are now."""
    origin = recorded.outcome.origin or recorded.address
    if origin == recorded.address or origin.startswith(f"{recorded.address}/"):
        return call.address + origin[len(recorded.address) :]
    return origin


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _maker() -> object:
    """Return the task or the thread that runs here."""
    if _loop_runs_here():
        task = asyncio.current_task()
        if task is not None:
            return task
    return threading.current_thread()
