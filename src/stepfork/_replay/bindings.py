"""The ids that the code made then, and those that it makes now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepfork._alias import Aliases, pair, rebind
from stepfork._codec import canonical
from stepfork._replay.facts import facts_of

if TYPE_CHECKING:
    from stepfork._calls import Plain, Run


class Bindings:
    """Pairs them, so that a recorded outcome which echoes an id echoes the one of now."""

    def __init__(self, run: Run, started: float) -> None:
        self.facts, self._made = facts_of(run)
        clock = (run.started, run.started + max(run.seconds, 1.0))
        self.then = Aliases(self.facts, clock=clock)
        self.now = Aliases(self.facts, clock=(started, float("inf")))
        self._bound: dict[str, str] = {}

    def learn(self, then: dict[str, Plain], now: dict[str, Plain], names: dict[str, Plain]) -> None:
        """Pair what stands in the arguments ``names`` of a recorded call and of the one that it answers."""
        if not self._made or then == now:
            return
        then = {name: then[name] for name in names if name in then}
        now = {name: names[name] for name in then}
        if canonical(self.then.blank(then)) == canonical(self.now.blank(now)):
            for old, fresh in pair(then, now).items():
                if old in self._made:
                    self._bound.setdefault(old, fresh)

    def rebound(self, plain: Plain) -> Plain:
        """Return a recorded value with the ids of now."""
        return rebind(plain, self._bound)
