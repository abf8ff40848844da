"""Answers that are served instead of executing a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stepfork._calls import Call, Plain
from stepfork.errors import ReplayStopped


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

    @property
    def shape(self) -> str:
        """How the outcome reaches the caller."""
        return self.call.outcome.shape

    @property
    def patience(self) -> float | None:
        """Seconds to wait for the cancellation that ended the recorded call; None: nothing to wait for."""
        outcome = self.call.outcome
        if outcome.status == "suspended" and _is_cancellation(outcome.value):
            return self.call.seconds + 5.0
        return None

    def value(self) -> Any:
        """Return or raise what the call returned or raised."""
        self.change()
        outcome = self.call.outcome
        if self.patience is not None:
            raise self.stop("in the recording it was cancelled before it had an outcome")
        if outcome.has_exception:
            raise self.decode_exception(outcome.value)
        return self.decode(outcome.value)

    def items(self) -> Iterator[Any]:
        """Yield the recorded chunks, then end as the stream did."""
        outcome = self.call.outcome
        for item in outcome.items or ():
            yield self.decode(item)
        if outcome.status == "closed_early":
            raise self.stop(f"it was left after {len(outcome.items or ())} chunks, and this is the next one")
        return self.value()


def _is_cancellation(plain: Plain) -> bool:
    return isinstance(plain, dict) and str(plain.get("$exception", "")).endswith(":CancelledError")


@dataclass
class Injected:
    """A value or an exception that the test put in the place of an outcome."""

    injected: Any
    shape: str = "value"
    patience: float | None = field(default=None, init=False)

    def value(self) -> Any:
        """Return or raise it."""
        if isinstance(self.injected, BaseException) or (
            isinstance(self.injected, type) and issubclass(self.injected, BaseException)
        ):
            raise self.injected
        return self.injected

    def items(self) -> Iterator[Any]:
        """Yield it chunk by chunk."""
        yield from self.value()


@dataclass
class Stop:
    """There is no answer: the replay ends here, whatever the agent makes of it."""

    stopped: ReplayStopped
    shape: str = "value"
    patience: float | None = field(default=None, init=False)

    def value(self) -> Any:
        """Raise."""
        raise self.stopped

    def items(self) -> Iterator[Any]:
        """Raise at the first chunk."""
        raise self.stopped
        yield  # pragma: no cover - makes this a generator
