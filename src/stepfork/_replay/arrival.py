"""Lets outcomes of calls that overlapped come in the order in which they came in the recording.

In a replay every answer is there at once, and an agent that goes by what comes first would go another
way than it did. So time stands still here: as long as anything in the agent moves, no such outcome
comes; once all of it waits, the one that came first in the recording does. Whatever the agent makes of
an outcome is done before the next one comes, and a call that a fixed agent no longer makes is waited
for only as long as somebody is left who could still make it.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import insort
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stepfork._fork import renew_in_children
from stepfork._replay.maker import loop_runs_here
from stepfork._replay.overlaps import ended_together, overlapping
from stepfork._replay.stillness import PAUSE, Stillness, resting, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepfork._calls import Call
    from stepfork._replay.shelf import Slot

_PATIENCE = 0.25
"""Seconds without a move in which a call that is still missing may be made by somebody who sleeps."""

_PATIENCE_IN_ALL = 2.0
"""The same for one outcome, whatever moves meanwhile; a replay as a whole has twice this."""

_STUCK = 1.0
"""Seconds after which one whose event loop does not turn is not waited for."""

_SELDOM = 0.05
"""Seconds between two looks of one whose turn it is not."""

_TURNS = 1000
"""Turns of an event loop in which it may be busy without any call; some spin until a call comes back."""

_LAST_TURNS = 5
"""The same once the root has ended and only what it left behind still runs."""

_BLIND_TURNS = 20
"""The same for an event loop that does not tell whether it is busy."""


def arrivals_of(root: Call, events: Callable[[], int], happens: Callable[[], object]) -> Arrivals | None:
    """Return the order in which the outcomes of a run come; None where none of its calls overlapped.

    ``events`` counts what happens in the replay, ``happens`` adds to it.
    """
    calls = overlapping(root)
    return Arrivals(calls, ended_together(root, calls), events, happens) if calls else None


class Arrivals:
    """The outcomes of overlapping calls in their order, and who waits for one of them now."""

    def __init__(
        self,
        calls: list[Call],
        together: Iterable[int],
        events: Callable[[], int],
        happens: Callable[[], object],
    ) -> None:
        self.events = events
        self._happens = happens
        self._lock = threading.RLock()  # a signal handler may call a tool in the middle
        renew_in_children(self, "_lock")
        self._calls = {call.address: call for call in calls}
        self._missing = {call.address: call for call in sorted(calls, key=lambda call: _moments(call)[0])}
        """Those that were not made yet, in the order of their first moments."""
        self._owners = {moment: call for call in calls for moment in _moments(call)}
        self._before = dict(zip(sorted(self._owners), [0, *sorted(self._owners)], strict=False))
        self._together = frozenset(together)
        self._waiting: list[Ticket] = []
        self._last = 0
        """The moment that came last."""
        self._patience = 2 * _PATIENCE_IN_ALL
        self.is_over = False
        self.is_hurried = False

    def turn(self, slot: Slot, *, is_whole: bool) -> Turn | None:
        """Note that a recorded call is made; returns what it has to wait for, if it overlapped.

        ``is_whole``: its recorded chunks are served one by one, and not something else in their place.
        """
        call = self._calls.get(slot.address)
        if call is None:
            return None
        with self._lock:
            self._missing.pop(call.address, None)
        return Turn(self, call, _moments(call) if is_whole else [call.span[1]])

    def hurry(self) -> None:
        """The root has ended: what it left behind in its event loop is given a few more turns."""
        self.is_hurried = True

    def close(self) -> None:
        """The replay is over: nobody waits any more."""
        with self._lock:
            self.is_over = True
            for ticket in self._waiting:
                ticket.wake()

    def comes_now(self, moment: int, *, at_once: bool = False) -> bool:
        """Let an outcome come that needs not wait: nothing of another call came since the one before."""
        with self._lock:
            before = self._before.get(moment, 0)
            follows = before == self._last and self._owners.get(before) is self._owners[moment]
            goes_on = moment == self._last or follows
            is_behind = bool(self._waiting) and self._waiting[0].moment < moment
            if at_once or self.is_over or (goes_on and not is_behind):
                self._come(moment)
                return True
            return False

    def join(self, ticket: Ticket) -> None:
        """Begin to wait."""
        with self._lock:
            insort(self._waiting, ticket, key=lambda ticket: ticket.moment)

    def leave(self, ticket: Ticket) -> None:
        """Wait no longer."""
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                first = self._first()
                if first is not None:
                    first.wake()

    def is_first(self, ticket: Ticket) -> bool:
        """Whether nobody waits for something that came earlier."""
        with self._lock:
            return self._first() is ticket

    def may_come(self, ticket: Ticket, stillness: Stillness, *, can_be_made: bool) -> bool:
        """Let it come, since all stands still, or not yet.

        ``can_be_made``: somebody is left who might make the calls that are missing.
        """
        with self._lock:
            if not self.is_over and not ticket.is_passed and not self._is_next(ticket):
                return False
            missing = [] if self.is_over else self._missing_before(ticket)
            if missing and can_be_made and self._is_patient(ticket, stillness):
                return False
            for call in missing:
                del self._missing[call.address]
            self._come(ticket.moment)
            return True

    def next_together(self, ticket: Ticket) -> Ticket | None:
        """Return who waits for what one and the same turn of the loop brought right after this."""
        with self._lock:
            first = self._first()
            if first is None or first.moment not in self._together:
                return None
            return first if self._before[first.moment] == ticket.moment else None

    def own_timers(self) -> set[int]:
        """The timers of those who wait here."""
        with self._lock:
            return {id(ticket.timer) for ticket in self._waiting}

    def _come(self, moment: int) -> None:
        self._last = max(self._last, moment)
        self._happens()

    def _first(self) -> Ticket | None:
        return next((ticket for ticket in self._waiting if not ticket.is_passed), None)

    def _is_next(self, ticket: Ticket) -> bool:
        """Whether it is the first, or those before it are in loops that do not turn."""
        first = self._first()
        while first is not None and first is not ticket:
            if seconds() - first.looked < _STUCK:
                return False
            first.is_passed = True
            first = self._first()
        return True

    def _missing_before(self, ticket: Ticket) -> list[Call]:
        """Return the calls not made yet that were under way with this one and whose outcome came earlier."""
        start, end = ticket.call.span
        found: list[Call] = []
        for call in self._missing.values():
            if _moments(call)[0] >= ticket.moment:
                break
            if call.span[0] < end and call.span[1] > start:
                found.append(call)
        return found

    def _is_patient(self, ticket: Ticket, stillness: Stillness) -> bool:
        ticket.missed = ticket.missed or seconds()
        waited = seconds() - ticket.missed
        # In the recording they had been made before the call that waits had its outcome.
        if stillness.quiet < min(_PATIENCE, ticket.call.seconds + _SELDOM) and waited < min(
            self._patience, _PATIENCE_IN_ALL
        ):
            return True
        self._patience -= waited
        return False


def _moments(call: Call) -> list[int]:
    """Return the positions in the journal of what came of a call: its chunks and its end."""
    return [*call.moments, call.span[1]]


class Ticket:
    """Somebody who waits for one outcome."""

    def __init__(self, arrivals: Arrivals, call: Call, moment: int) -> None:
        self.arrivals = arrivals
        self.call = call
        self.moment = moment
        self.stillness = Stillness(arrivals.events)
        self.looked = seconds()
        self.missed = 0.0
        """When a call was first found missing that should have been made by now."""
        self.is_passed = False
        """It could not take its turn, and nobody waits for it any more."""
        self.timer: asyncio.Handle | None = None

    def wake(self) -> None:
        """It may be its turn now."""
        raise NotImplementedError


class _InThread(Ticket):
    """A thread that waits."""

    def __init__(self, arrivals: Arrivals, call: Call, moment: int) -> None:
        super().__init__(arrivals, call, moment)
        self._event = threading.Event()

    def wake(self) -> None:
        self._event.set()

    def wait(self) -> None:
        """Block until the turn has come."""
        thread = threading.get_ident()
        resting.add(thread)
        self.arrivals.join(self)
        try:
            while not self._has_come():
                is_first = self.is_passed or self.arrivals.is_first(self)
                self._event.wait(PAUSE if is_first else _SELDOM)
                self._event.clear()
        finally:
            resting.discard(thread)
            self.arrivals.leave(self)

    def _has_come(self) -> bool:
        self.looked = seconds()
        is_still = self.stillness.look()
        can_be_made = not self.stillness.is_alone
        is_free = is_still or self.arrivals.is_over
        return is_free and self.arrivals.may_come(self, self.stillness, can_be_made=can_be_made)


class _InLoop(Ticket):
    """A task that waits; its event loop looks for it."""

    def __init__(self, arrivals: Arrivals, call: Call, moment: int) -> None:
        super().__init__(arrivals, call, moment)
        self._loop: Any = asyncio.get_running_loop()
        self._future = self._loop.create_future()
        self._turns = 0
        self._counted = -1
        self._clock = self._loop.time()

    def wake(self) -> None:
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._look)

    async def wait(self) -> None:
        """Come back when the turn has come."""
        self.arrivals.join(self)
        self.timer = self._loop.call_soon(self._look)
        try:
            await self._future
        finally:
            self.arrivals.leave(self)
            self.timer.cancel()

    def _look(self) -> None:
        if self._future.done():
            return
        if self.timer is not None:
            self.timer.cancel()
        self.looked = seconds()
        is_busy = self._is_busy()
        # What the root left behind is given some turns and no time.
        is_left = self.arrivals.is_hurried
        is_still = not is_busy if is_left else self.stillness.look(is_busy=is_busy)
        can_be_made = not is_left and (not self.stillness.is_alone or self._has_timers())
        if is_still and self.arrivals.may_come(self, self.stillness, can_be_made=can_be_made):
            self._come()
        elif not self.is_passed and not self.arrivals.is_first(self):
            self.timer = self._look_after(_SELDOM)
        elif is_busy or is_left or (self.stillness.is_alone and self.stillness.quiet == 0):
            self.timer = self._loop.call_soon(self._look)
        else:
            self.timer = self._look_after(PAUSE)

    def _look_after(self, pause: float) -> asyncio.Handle:
        """Look again after so many seconds; in the next turn where a test has stopped the loop's clock."""
        before, self._clock = self._clock, self._loop.time()
        if self._clock == before:
            return self._loop.call_soon(self._look)  # type: ignore[no-any-return]
        return self._loop.call_later(pause, self._look)  # type: ignore[no-any-return]

    def _come(self) -> None:
        """Come back, and after it all that the same turn of the loop brought; a thousand may have come so."""
        ticket: _InLoop | None = self
        while ticket is not None:
            ticket._future.set_result(None)
            self.arrivals.leave(ticket)
            ticket = self._next_after(ticket)

    def _next_after(self, ticket: _InLoop) -> _InLoop | None:
        other = self.arrivals.next_together(ticket)
        if (
            isinstance(other, _InLoop)
            and other._loop is self._loop
            and not other._future.done()
            and self.arrivals.may_come(other, self.stillness, can_be_made=True)
        ):
            return other
        return None

    def _is_busy(self) -> bool:
        """Whether the loop has something else to do; asked once a turn."""
        events = self.arrivals.events()
        self._turns = self._turns + 1 if events == self._counted else 0
        self._counted = events
        ready = getattr(self._loop, "_ready", None)
        if ready is None:
            return self._turns < (_LAST_TURNS if self.arrivals.is_hurried else _BLIND_TURNS)
        return bool(ready) and self._turns < (_LAST_TURNS if self.arrivals.is_hurried else _TURNS)

    def _has_timers(self) -> bool:
        """Whether something in this loop sleeps."""
        timers = getattr(self._loop, "_scheduled", None)
        if timers is None:
            return True
        own = self.arrivals.own_timers()
        return any(id(timer) not in own and not timer.cancelled() for timer in timers)


class Turn:
    """The places that the outcome of one call, chunk by chunk, has in the order of arrivals."""

    def __init__(self, arrivals: Arrivals, call: Call, moments: list[int]) -> None:
        self._arrivals = arrivals
        self._call = call
        self._moments = moments
        self._taken = 0

    def take(self) -> None:
        """Block until the next chunk, or the end, may come; in an event loop it comes at once."""
        moment = self._next()
        if not self._arrivals.comes_now(moment, at_once=loop_runs_here()):
            _InThread(self._arrivals, self._call, moment).wait()

    async def taken(self) -> None:
        """Wait for it in asyncio; elsewhere it comes at once."""
        moment = self._next()
        is_task = loop_runs_here() and asyncio.current_task() is not None
        if not self._arrivals.comes_now(moment, at_once=not is_task):
            await _InLoop(self._arrivals, self._call, moment).wait()

    def _next(self) -> int:
        moment = self._moments[min(self._taken, len(self._moments) - 1)]
        self._taken += 1
        return moment
