"""Answers that are served instead of executing a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepfork._calls import Call, Plain, Shape
    from stepfork._context import Answer, Turn
    from stepfork.errors import ReplayStopped

_GRACE = 5.0
"""Seconds, beyond those that the recorded call took, in which the agent may cancel it again."""


@dataclass
class Recorded:
    """The recorded outcome of one call, decoded anew each time."""

    call: Call
    decode: Callable[[Plain], Any]
    decode_exception: Callable[[Plain], BaseException]
    change: Callable[[], None]
    """Repeats on the live arguments what the call had changed in place."""
    stop: Callable[[str], ReplayStopped]
    """Gives up at this call, saying why."""
    wait: Callable[[float], None]
    """Blocks a thread until the replay is over, for so many seconds at most."""
    part: Callable[[Call], Recorded]
    """Serves a call that stands below it: what an attribute or method of a stream gave."""
    seen: Callable[[BaseException], None]
    """Notes that an exception that somebody else made of what was served comes from this call."""
    turn: Turn | None = None

    @cached_property
    def parts(self) -> dict[str, list[Recorded]]:
        """What the attributes and methods of a stream gave, by name and in order."""
        found: dict[str, list[Recorded]] = {}
        for call in self.call.children:
            if call.name.startswith("."):
                found.setdefault(call.name, []).append(self.part(call))
        return found

    @property
    def shape(self) -> Shape:
        """How the outcome reaches the caller."""
        return self.call.outcome.shape

    @property
    def patience(self) -> float | None:
        """Seconds to wait for what ended the recorded call from outside; None: nothing to wait for."""
        outcome = self.call.outcome
        if outcome.status == "unfinished" or (
            outcome.status == "suspended" and is_cancellation(outcome.value)
        ):
            return self.call.seconds + _GRACE
        return None

    def value(self) -> Any:
        """Return or raise what the call returned or raised, or what ended its stream."""
        self.change()
        outcome = self.call.outcome
        if outcome.status == "closed_early":
            raise self.stop(f"it was left after {len(outcome.items or ())} chunks, and this is the next one")
        if self.patience is not None:
            self.wait(self.patience)
            raise self.stop("in the recording it was cancelled before it had an outcome")
        if outcome.has_exception:
            raise self.decode_exception(outcome.value)
        return self.decode(outcome.value)

    def items(self) -> Iterator[Any]:
        """Yield the recorded chunks."""
        return map(self.decode, self.call.outcome.items or ())


def is_cancellation(plain: Plain) -> bool:
    """Whether a recorded exception is that of asyncio's cancelled tasks."""
    return isinstance(plain, dict) and str(plain.get("$exception", "")).endswith(":CancelledError")


@dataclass
class Injected:
    """A value or an exception that the test put in the place of an outcome."""

    injected: Any
    shape: Shape
    seen: Callable[[BaseException], None]
    """Notes where an exception comes from."""
    turn: Turn | None = None
    patience: float | None = field(default=None, init=False)
    is_drawn: bool = field(default=False, init=False)
    parts: Mapping[str, Sequence[Answer]] = field(default_factory=dict, init=False)
    stop: Callable[[str], BaseException] = field(default=AttributeError, init=False)

    @property
    def _is_exception(self) -> bool:
        kind = self.injected if isinstance(self.injected, type) else type(self.injected)
        return issubclass(kind, BaseException)

    def value(self) -> Any:
        """Return or raise it; a stream that was drawn just ends."""
        if self._is_exception:
            error = self.injected() if isinstance(self.injected, type) else self.injected
            self.seen(error)
            raise error
        return None if self.is_drawn else self.injected

    def items(self) -> Iterator[Any]:
        """Return it as the chunks of a stream."""
        self.is_drawn = True
        return iter(() if self._is_exception else self.injected)


@dataclass
class Stop:
    """There is no answer: the replay ends here, whatever the agent makes of it."""

    stopped: ReplayStopped
    shape: Shape = "value"
    turn: Turn | None = field(default=None, init=False)
    patience: float | None = field(default=None, init=False)
    parts: Mapping[str, Sequence[Answer]] = field(default_factory=dict, init=False)

    def seen(self, error: BaseException) -> None:
        """What comes of a stop has no other place."""

    def stop(self, _why: str) -> ReplayStopped:
        """It is the first reason that counts."""
        return self.stopped

    def value(self) -> Any:
        """Raise."""
        raise self.stopped

    def items(self) -> Iterator[Any]:
        """Yield nothing."""
        return iter(())
