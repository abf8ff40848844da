"""Replays a recorded run: steps execute again, tools and models are answered from the recording."""

from __future__ import annotations

import os
import secrets
import threading
import time
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._calls import Call, Outcome, child_address, parent_address
from stepfork._codec import encode
from stepfork._context import AmbiguousFrame, current_frame
from stepfork._fork import renew_in_children
from stepfork._mutation.watch import changes_of, watch
from stepfork._replay.answer import recorded_answer
from stepfork._replay.arrival import arrivals_of
from stepfork._replay.astray import late_call, lost_call, why_unrecorded
from stepfork._replay.bindings import Bindings
from stepfork._replay.failures import Failures
from stepfork._replay.frame import Frontier, ReplayFrame
from stepfork._replay.maker import current_maker
from stepfork._replay.matching import Match, Pool, Request
from stepfork._replay.order import put_in_order
from stepfork._replay.serve import Injected, Stop
from stepfork._replay.settle import settle
from stepfork._replay.site import call_site
from stepfork._spec import address_part, hooked
from stepfork.errors import OptionError, ReplayStopped, StepforkError
from stepfork.tolerance import Rule, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepfork._calls import Plain
    from stepfork._context import Turn
    from stepfork._redact import Redactor, Stream
    from stepfork._replay.extension import ExtensionWriter
    from stepfork._replay.load import Recording
    from stepfork._replay.override import Overrides
    from stepfork._spec import Spec


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
        self.rules: dict[str, Rules | None] = {}
        self._overrides = overrides
        self._redactor = redactor
        self._redactor.saw(msgspec.json.encode(recording.run.root.input))
        self.moved_classes = moved
        self._common_rules = Rules(common_tolerance)
        self.given_rules: list[tuple[str, Rules]] = [("", Rules(tolerance))]
        """The tolerance of this replay and of each call's decorator, the latter with the call's name."""
        self._live = live
        self._extension = extension
        self.failures = Failures(secrets.token_hex(5), self.clean)
        self.process = os.getpid()
        self._lock = threading.RLock()
        renew_in_children(self, "_lock")
        self._over = threading.Event()
        self._ticks = count(1)
        self._last_tick = 0
        self._started = time.time()
        self._makers: dict[int, object] = {}
        """Of each call the task or thread that made it; held so that no identity is used twice."""
        self._base_maker: object = None
        self._steps: list[ReplayFrame] = []
        self._has_guessed = False
        """Some step was given the place of a recorded one with another input."""
        run = recording.run
        self.bindings = Bindings(run, self._started)
        self._pool = Pool(run.root, recording.extensions, self.bindings.then.blank)
        self.arrivals = arrivals_of(run.root, lambda: self.calls_made, self.tick)
        top = Call("step", "", "", {}, Outcome("returned"))
        outermost = Call("step", "", "", {}, Outcome("returned"), children=[run.root])
        self._top = ReplayFrame(self, None, top, outermost)
        self._block: ReplayFrame | None = self._stand_in_for_root() if block else None
        self._root: ReplayFrame | None = None

    def begin(self) -> None:
        """The task or thread that runs here is the one that makes the calls of the base."""
        self._base_maker = current_maker()

    @property
    def base(self) -> ReplayFrame:
        """Where calls without a context of their own belong."""
        return self._block or self._top

    @property
    def calls(self) -> list[Call]:
        """The outermost calls that were made: the root alone, but for agents that are no single step."""
        return self._top.call.children

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

    def stream(self) -> Stream:
        """Return what looks for secrets that a stream brings in pieces."""
        return self._redactor.stream()

    def clean(self, plain: Plain) -> Plain:
        """Redact as the recorder did; frozen, since the agent may change the live value later."""
        data = msgspec.json.encode(plain)
        self._redactor.saw(data)
        return self._redactor.redact(plain) if self._redactor.scan(data) else msgspec.json.decode(data)

    def enter(
        self, spec: Spec, parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> ReplayFrame | None:
        """Find the answer to a call, or let a step execute again."""
        if isinstance(parent, AmbiguousFrame):
            return lost_call(self, spec, parent)
        if parent.is_live or (spec.kind == "step" and not self.is_open):
            return None
        arguments = spec.bind(args, kwargs)
        plain = self.clean({name: encode(value).plain for name, value in arguments.items()})
        with self._lock:
            if not self.is_open:
                return late_call(self, spec, parent, plain)
            parent = self._below(parent, spec)
            if spec.kind == "step":
                return self._step(spec, parent, plain)
            return self._boundary(spec, parent, arguments, plain)

    def fail(self, reason: str, frame: Any) -> None:
        """The replayed code calls this run a failed one."""
        call = getattr(frame, "call", None)
        self.failures.failed(reason, (call and call.address) or self.recording.run.root.address)

    def give_up(self, fault: Exception) -> None:
        """A fault of ours in a call that runs live: the replay has none to spare."""
        raise fault

    def forget(self) -> None:
        """In a forked child: no call is answered."""
        self.is_open = False

    def keep(self, frame: ReplayFrame) -> None:
        """Write a call that ran live into the extension."""
        with self._lock:
            if self._extension is not None:
                self._extension.write(frame.call, self.clean(changes_of(frame.watches)))

    def close(self) -> None:
        """No call is answered any more; put the calls into their final order."""
        with self._lock:
            self.is_open = False
            self._over.set()
            if self.arrivals is not None:
                self.arrivals.close()
            self._makers[id(self.base.call)] = self._base_maker
            self.failures.settle(self._settled())
            self._makers.clear()
            position = {id(call): number for number, call in enumerate(self._top.call.walk())}
            self.frontiers.sort(key=lambda frontier: position.get(id(frontier.call), len(position)))

    def _settled(self) -> dict[str, str]:
        """Give each call its final place; returns the address of each that got another one."""
        top, spans, makers = self._top.call, self.recording.spans, self._makers
        before = [(call, call.address) for call in top.walk()]
        is_fixed = self._extension is not None
        if self._has_guessed and not is_fixed:
            settle(top, self._steps, makers, self._pool, spans, self.bindings)
        put_in_order(top, spans, makers, self.bindings.now.blank, fixed=is_fixed)
        self._steps.clear()
        return {address: call.address for call, address in before if call.address != address}

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
                self.failures.stopped_here(parent_address(call.address))
                self.frontiers.append(Frontier(call, why, look))
        return ReplayStopped(f"{call.address}: {why}")

    def unseen(self, tool: str) -> None:
        """Stop where a tool has run that was no call: no more of it is to reach the world."""
        raise self._stop_at_tool(tool, "its function was not found, and ran live: decorate it")

    def asks_for(self, tools: Iterable[str], declared: Iterable[str], answered: Call | None) -> None:
        """Stop before an answer is served that asks for one of these tools, whose functions are not found.

        ``answered`` is the recorded call that it is the answer to. Not for what had no function when it was
        recorded either: what the agent does by itself, a refusal, or the call of another adapter.
        """
        tools_then = [call for call in self.recording.run.walk() if call.kind == "tool"]
        plain = {address_part(call.name) for call in tools_then if call.plain}
        others = {address_part(call.name) for call in tools_then} - plain
        shared = self._plain_after(answered) - {address_part(name) for name in declared}
        for tool in tools:
            name = address_part(tool)
            if name in plain or (shared and name not in others):
                raise self._stop_at_tool(tool, "its function was not found, and would run live: decorate it")

    def _plain_after(self, answered: Call | None) -> set[str]:
        """Return the names of the plain tools that ran between this recorded answer and the next one."""
        calls = list(self.recording.run.walk())
        if answered is not None:
            places = [place for place, call in enumerate(calls) if call.address == answered.address]
            calls = calls[places[0] + 1 :] if places else calls
            calls = list(takewhile(lambda call: call.kind != "model", calls)) if places else calls
        return {address_part(call.name) for call in calls if call.kind == "tool" and call.plain}

    def _stop_at_tool(self, tool: str, why: str) -> ReplayStopped:
        spec, frame = hooked("tool", tool), current_frame()
        parent = self._below(frame if isinstance(frame, ReplayFrame) else self.base, spec)
        call = self._add(spec, parent, self._new_address(tool, parent), {})
        recorded = [each for each in self.recording.run.walk() if each.name == spec.name]
        return self.stop(call, why, lambda: recorded)

    # -- places

    def _stand_in_for_root(self) -> ReplayFrame:
        root = self.recording.run.root
        call = Call(root.kind, root.name, root.address, root.input, Outcome("unfinished"))
        self._top.call.children.append(call)
        frame = ReplayFrame(self, None, call, root)
        self._steps.append(frame)
        return frame

    def _below(self, parent: ReplayFrame, spec: Spec) -> ReplayFrame:
        """Return the frame that a call stands in: one outside of any step stands where it was recorded."""
        if parent is not self._top:
            return parent
        if self._block is None and spec.kind == "step" and self._is_root(spec):
            return parent
        if self._block is None and self._root is None:
            self._block = self._stand_in_for_root()
        return self._block or self._root or parent

    def _is_root(self, spec: Spec) -> bool:
        run = self.recording.run
        return not self.calls and (spec.name == run.root.name or run.entry is not None)

    # -- steps

    def _step(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> ReplayFrame:
        recorded = self._counterpart(spec, parent, plain)
        self._learn_rules(spec)
        address = recorded.address if recorded else self._new_address(spec.name, parent)
        frame = ReplayFrame(self, spec, self._add(spec, parent, address, plain), recorded)
        self._steps.append(frame)
        if parent is self._top:
            self._root = frame
        return frame

    def _counterpart(self, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> Call | None:
        """Return the recorded sibling with equal input, else the first that is left."""
        siblings = parent.siblings(spec, self.bindings.then.blank)
        entry = siblings.same(Request(spec, parent.call.address, plain, self.bindings.now.blank))
        self._has_guessed |= entry is None
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
        call.plain = spec.is_plain
        parent.call.children.append(call)
        self._makers[id(call)] = current_maker()
        return call

    def _learn_rules(self, spec: Spec) -> Rules | None:
        if spec.name not in self.rules:
            try:
                own = Rules(spec.options.tolerance)
            except OptionError as error:
                self.errors.append(error)
                raise
            self.given_rules.append((spec.name, own))
            # Joined one by one: the nearest wins also where it has another key for the same place.
            self.rules[spec.name] = (self._common_rules | own | self.given_rules[0][1]) or None
        return self.rules[spec.name]

    # -- tools and models

    def _boundary(
        self, spec: Spec, parent: ReplayFrame, arguments: Mapping[str, Any], plain: dict[str, Plain]
    ) -> ReplayFrame:
        request = Request(spec, parent.call.address, plain, self.bindings.now.blank, self._learn_rules(spec))
        match = self._pool.find(request)
        if match is None and spec.options.repeats:
            again = self._pool.last_used(request)
            if again is not None and self._has_outcome(again):
                silent = Call(spec.kind, spec.name, again.address, plain, again.outcome)
                return ReplayFrame(
                    self, spec, silent, answer=recorded_answer(self, spec, again, silent, arguments)
                )
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
        turn = self._turn(match)
        found, injected = self._overrides.take(call.address, spec.name, answered=known and not is_stale)
        if found:
            call.overridden = True
            call.outcome = Outcome("returned")
            shape = match.call.outcome.shape if match else "value"
            frame.answer = Injected(
                injected, shape, lambda error: self.failures.seen_at(error, call.address), turn
            )
        elif spec.name in self._live:
            self._run_live(frame, arguments)
        elif self._extension is not None and self._extension.wants(call.address, known and not is_stale):
            frame.is_kept = call.extended = True
            self._run_live(frame, arguments)
        elif match is not None and known:
            call.stale = is_stale
            call.extended = match.call.extended
            call.outcome = match.call.outcome
            self.bindings.learn(match.call.input, request.input, request.identity)
            frame.answer = recorded_answer(self, spec, match.call, call, arguments)
            frame.answer.turn = turn
        else:
            why = (
                _UNDER_WAY
                if match
                else why_unrecorded(spec, call, self.recording.run.found, self._top.call.walk())
            )
            frame.answer = Stop(self.stop(call, why, lambda: self._pool.nearest(request)))

    def _turn(self, match: Match | None) -> Turn | None:
        if match is None or self.arrivals is None:
            return None
        return self.arrivals.turn(match.slot, is_whole=match.call is match.slot.recorded)

    def _has_outcome(self, recorded: Call) -> bool:
        """Whether there is something to serve; a call that the end of the run cut off never comes back."""
        status = recorded.outcome.status
        return status != "killed" and (status != "unfinished" or self.recording.run.ended)

    def _run_live(self, frame: ReplayFrame, arguments: Mapping[str, Any]) -> None:
        frame.is_live = True
        if frame.spec is not None:
            frame.watches = watch(frame.spec, arguments, frame.call.input)

    def wait(self, seconds: float) -> None:
        """Block this thread until the replay is over, for so many seconds at most."""
        self._over.wait(seconds)


_UNDER_WAY = "it was under way when the recorded process ended"
