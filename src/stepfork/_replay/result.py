"""What a replay gives back: the calls that were made, and how the agent ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepfork._alias import Facts, tokens
from stepfork._codec import decode
from stepfork._near import near_names
from stepfork._replay.facts import facts_of
from stepfork._spec import decorated_names
from stepfork.errors import OptionError, StepforkError, UnrecordedCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Call, Failure, Outcome, Run
    from stepfork._replay.frame import Frontier
    from stepfork._replay.load import Recording


@dataclass(frozen=True, eq=False)
class CallView:
    """One call, with its values decoded."""

    call: Call
    hints: tuple[type, ...] = ()

    @property
    def address(self) -> str:
        """Where it stands in the tree: ``handle#1/search#2``."""
        return self.call.address

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.call.name

    @property
    def kind(self) -> str:
        """``step``, ``tool`` or ``model``."""
        return self.call.kind

    @property
    def input(self) -> dict[str, Any]:
        """The arguments by parameter name."""
        return {name: decode(value, hints=self.hints) for name, value in self.call.input.items()}

    @property
    def status(self) -> str:
        """How it ended: ``returned``, ``raised``, ``suspended``, ``closed_early``, ``stopped`` ..."""
        return self.call.outcome.status

    @property
    def output(self) -> Any:
        """What it returned; the chunks of a stream; the exception that it raised."""
        outcome = self.call.outcome
        return decode(outcome.items if outcome.items is not None else outcome.value, hints=self.hints)

    @property
    def children(self) -> tuple[CallView, ...]:
        """The calls that it made."""
        return tuple(CallView(child, self.hints) for child in self.call.children)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.address} {self.status}>"


@dataclass(eq=False)
class Replayed:
    """The result of one replay. ``assert run == snapshot`` compares it with the accepted behaviour."""

    recording: Recording
    run: Run
    value: Any = None
    error: BaseException | None = None
    expected: tuple[type[BaseException], ...] = ()
    frontiers: list[Frontier] = field(default_factory=list)
    under_way: list[Failure] = field(default_factory=list)
    """What the agent was failing with where the replay stopped."""
    unused_calls: list[Call] = field(default_factory=list)
    unknown_overrides: dict[str, list[str]] = field(default_factory=dict)
    """The keys that no call used and that fit no recorded one, each with the addresses that look like it."""
    facts: Facts = field(default_factory=Facts)
    clock: tuple[float, float] = (0.0, 0.0)
    rules: Mapping[str, Any] = field(default_factory=dict)
    given_rules: list[tuple[str, Any]] = field(default_factory=list)
    """The tolerance of this replay, then of each call's decorator with the call's name."""
    timed_out: bool = False
    extended: list[str] = field(default_factory=list)
    """The addresses of the calls that ran live in this replay."""
    hints: tuple[type, ...] = ()

    @property
    def result(self) -> Any:
        """What the root returned. Raises what it raised, and UnrecordedCall where the replay stopped."""
        if self.frontiers:
            raise self.stop_error()
        if self.error is not None:
            raise self.error
        return self.value

    @property
    def outcome(self) -> Outcome:
        """How the root ended, its value as the codec writes it."""
        return self.run.root.outcome

    @property
    def steps(self) -> CallView:
        """The tree of calls, from the root down."""
        return CallView(self.run.root, self.hints)

    @property
    def unused(self) -> list[CallView]:
        """The recorded calls that were not made."""
        return [CallView(call, self.hints) for call in self.unused_calls]

    @property
    def stale(self) -> list[CallView]:
        """The model calls that were answered by a reply to another prompt."""
        return [CallView(call, self.hints) for call in self.run.walk() if call.stale]

    @property
    def constants(self) -> list[str]:
        """The id-like texts that the code made in the recorded run and made again, the same, in this one.

        A bare date does not count on the day of the recording: the clock would give it too.
        """
        _, made = facts_of(self.recording.run)
        same_day = _day(self.recording.run.started) == _day(self.clock[0])
        found = {
            token.text
            for call in self.run.walk()
            for token in tokens([call.input, call.outcome.value if call.kind == "step" else None])
            if token.text in made and token.text not in self.facts
            if not (same_day and token.kind == "time" and ":" not in token.text)
        }
        return sorted(found)

    def calls(self, name: str) -> list[CallView]:
        """Return the calls of this step, tool or model, in order.

        Raises OptionError for a name that nothing has but that looks like one that something has.
        """
        found = [CallView(call, self.hints) for call in self.run.walk() if call.name == name]
        if not found:
            self._refuse_misspelt(name)
        return found

    def _refuse_misspelt(self, name: str) -> None:
        known = {*self.recording.names, *(call.name for call in self.run.walk()), *decorated_names}
        near = near_names(name, known)
        if near and name not in known:
            raise OptionError(
                f"{name!r} is no step, tool or model of {self.recording.name}",
                detail=[("near", ", ".join(near))],
                ways_on=["correct the name"],
            )

    def called(self, name: str, *, times: int | None = None) -> bool:
        """Whether it was called, and exactly ``times`` times where that is given."""
        number = len(self.calls(name))
        return number > 0 if times is None else number == times

    def never(self, name: str) -> bool:
        """Whether it was not called, not even at the frontier."""
        return not self.calls(name)

    def stop_error(self) -> StepforkError:
        """Return the error that explains the first call without an answer."""
        from stepfork._replay.explain import explain_frontier

        return (
            explain_frontier(self, self.frontiers[0]) if self.frontiers else UnrecordedCall("nothing stopped")
        )

    def __repr__(self) -> str:
        calls = sum(1 for _ in self.run.walk())
        return f"<replay of {self.recording.name}: {self.outcome.status}, {calls} calls>"


def _day(seconds: float) -> tuple[int, int]:
    moment = time.localtime(seconds)
    return moment.tm_year, moment.tm_yday
