"""One call of a replay, and what is noted when the recording cannot answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from stepfork._calls import Call, Outcome, Shape, Status
from stepfork._codec import encode, encode_exception
from stepfork._control_flow import is_control_flow
from stepfork._replay.shelf import Entry, Shelf, Slot
from stepfork._replay.stop import comes_of_stop
from stepfork._usage import Tally
from stepfork.errors import ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._calls import Plain, Usage
    from stepfork._mutation.watch import Watch
    from stepfork._redact import Stream
    from stepfork._replay.serve import Injected, Recorded, Stop
    from stepfork._replay.session import Replay
    from stepfork._spec import Spec


@dataclass(eq=False)
class Frontier:
    """A call that the recording could not answer."""

    call: Call
    why: str
    look: Callable[[], list[Call]] = list

    @property
    def is_in_part(self) -> bool:
        """Whether it is recorded up to a point: to run live, such a call has to be named."""
        return self.why.startswith(("it was left", "in the recording it was cancelled"))

    @cached_property
    def nearest(self) -> list[Call]:
        """The recorded calls that look most like it."""
        return self.look()


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
    watches: dict[str, Watch] = field(default_factory=dict)
    """Of a call that runs live: the arguments that it may change in place."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The highest number given to a call of each name that stands at no recorded address."""
    _shelves: dict[str, Shelf] = field(default_factory=dict)
    _stream: Stream | None = None
    _tally: Tally | None = None

    def siblings(self, spec: Spec, blank: Callable[[Plain], Plain]) -> Shelf:
        """Return the recorded steps of this name below this call."""
        shelf = self._shelves.get(spec.name)
        if shelf is None:
            shelf = self._shelves[spec.name] = self.recorded_steps(spec, blank)
        return shelf

    def recorded_steps(self, spec: Spec, blank: Callable[[Plain], Plain]) -> Shelf:
        """Return them all, none of them used."""
        recorded = self.recorded.children if self.recorded else []
        slots = (Slot(call.address, [call]) for call in recorded if call.name == spec.name)
        return Shelf([Entry(slot, slot.recorded, spec, blank) for slot in slots])

    @property
    def is_ended(self) -> bool:
        """Whether its outcome is known."""
        return self.call.outcome.status != "unfinished"

    def streaming(self, shape: Shape) -> None:
        """It is told with the outcome."""

    def item(self, value: object) -> None:
        """Note one chunk."""
        if self.call.outcome.items is None:
            self.call.outcome.items = []
        self._stream = self._stream or self.session.stream()
        plain = encode(value).plain
        self.call.outcome.items.append(self.session.clean(self._stream.item(plain)))
        self._look_for_usage(plain)

    def used(self, usage: Usage) -> None:
        """Note what a call that runs live took."""
        if self.is_live:
            self._tally = self._tally or Tally()
            self._tally.add(usage)

    def _look_for_usage(self, plain: Plain) -> None:
        if self.is_live and self.call.kind == "model":
            self._tally = self._tally or Tally()
            self._tally.look(plain)

    def returned(self, value: object, shape: Shape) -> None:
        """Note what the call returned."""
        plain = encode(value).plain
        self._look_for_usage(plain)
        self._ended(Outcome("returned", self.session.clean(plain), self._items(shape), shape))

    def raised(self, error: BaseException, shape: Shape) -> None:
        """Note what the call raised."""
        if comes_of_stop(error):
            self.session.failures.stopped(error, self.call.address)
        if isinstance(error, ReplayStopped):
            self._ended(Outcome("stopped", None, self._items(shape), shape))
        elif is_control_flow(error) and self.session.has_stopped:
            self._ended(Outcome("cut_off", None, self._items(shape), shape))
        else:
            status: Status = "suspended" if is_control_flow(error) else "raised"
            plain = self.session.clean(encode_exception(error).plain)
            origin = self.session.failures.origin(error, self.call.address)
            self._ended(Outcome(status, plain, self._items(shape), shape, origin))

    def closed_early(self, shape: Shape) -> None:
        """Note that the consumer left the stream."""
        self._ended(Outcome("closed_early", None, self._items(shape), shape))

    def _items(self, shape: Shape) -> list[Plain] | None:
        items = self.call.outcome.items
        return [] if items is None and shape in ("stream", "astream") else items

    def _ended(self, outcome: Outcome) -> None:
        if self._tally is not None:
            outcome.usage = self._tally.usage
        self.call.outcome = outcome
        self.call.span = (self.call.span[0], self.session.tick())
        if self.is_kept and outcome.status in ("returned", "raised", "closed_early"):
            self.session.keep(self)
