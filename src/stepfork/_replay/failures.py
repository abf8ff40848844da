"""What went wrong in a replay: where each exception was first seen, and what makes the run a failed one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._calls import Failure
from stepfork._codec import type_name
from stepfork._codec.messages import message_of
from stepfork._replay.stop import chain, is_after_stop
from stepfork.errors import ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepfork._calls import Plain


class Failures:
    """The failures of one replay; what they say is redacted as everything else is."""

    def __init__(self, replay: str, clean: Callable[[Plain], Plain]) -> None:
        self.first: Failure | None = None
        """That the code itself called the run a failed one."""
        self._replay = replay
        self._clean = clean
        self._under_way: dict[Failure, None] = {}
        self._places: Mapping[str, str] = {}

    @property
    def under_way(self) -> list[Failure]:
        """What was under way where the replay stopped: nobody can tell whether it would have come out.

        A handler that asks for something new, ``finally`` and ``__exit__`` stop the replay, and the
        exception that they were run for is not seen to leave the agent.
        """
        return list(self._under_way)

    def failed(self, reason: str, address: str) -> None:
        """The code called the run a failed one; because it was stopped, perhaps."""
        failure = Failure("failed", address=address, message=self._clean(reason))
        if is_after_stop():
            self._under_way[failure] = None
        elif self.first is None:
            self.first = failure

    def raised(self, error: BaseException, address: str) -> Failure:
        """Return the failure of a run that ended with this exception."""
        return self._failure(error, self.origin(error, address))

    def stopped(self, error: BaseException | None, address: str) -> None:
        """Note what is under way: ``error`` with all that it came of; ``address`` is the call that runs."""
        for link in chain(error):
            if not isinstance(link, ReplayStopped):
                for place in self._places_of(link, address):
                    self._under_way[self._failure(link, place)] = None

    def stopped_here(self, address: str) -> None:
        """Note what the code that runs here is handling."""
        self.stopped(sys.exception(), address)

    def origin(self, error: BaseException, address: str) -> str:
        """Return where this exception object was first seen in this replay."""
        seen = self._seen(error)
        if seen is None:
            self.seen_at(error, address)
            seen = address
        return self._places.get(seen, seen)

    def seen_at(self, error: BaseException, address: str) -> None:
        """Note where an exception comes from, though the same object may have been somewhere before."""
        error.__dict__["_stepfork_seen"] = (self._replay, address)

    def mark_served(self, error: BaseException) -> None:
        """Note that this exception comes out of the recording."""
        error.__dict__["_stepfork_served"] = self._replay

    def was_served(self, error: BaseException) -> bool:
        """Whether this exception came out of the recording, even if it is one such as Ctrl-C."""
        return error.__dict__.get("_stepfork_served") == self._replay

    def settle(self, places: Mapping[str, str]) -> None:
        """The calls have their final addresses: ``places`` has those that got another one."""
        self._places = places
        self.first = self.first and self._moved(self.first)
        self._under_way = {self._moved(failure): None for failure in self._under_way}

    def _moved(self, failure: Failure) -> Failure:
        address = failure.address or ""
        return msgspec.structs.replace(failure, address=self._places.get(address, address))

    def _failure(self, error: BaseException, address: str) -> Failure:
        return Failure("raised", address, type_name(type(error)), self._clean(message_of(error)))

    def _seen(self, error: BaseException) -> str | None:
        seen: Any = error.__dict__.get("_stepfork_seen")
        return str(seen[1]) if seen and seen[0] == self._replay else None

    def _places_of(self, error: BaseException, address: str) -> Iterator[str]:
        """Yield where it may have been raised: one that left no call yet, here or in a call above."""
        seen = self._seen(error)
        if seen is not None:
            yield self._places.get(seen, seen)
            return
        while address:
            yield address
            address = address.rpartition("/")[0]
