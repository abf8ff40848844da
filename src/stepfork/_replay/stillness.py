"""Whether anything in this process still moves, beside what waits for its turn."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from stepfork._frames import current_frames

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE = 0.0005
"""Seconds between two looks at the other threads."""

_EQUAL = 2
"""How often in a row nothing may have moved since the look before."""

_LATE = 0.004
"""Seconds; who looks again only after so many did not get the processor, and nor may others have."""

_RESTLESS = 0.2
"""Seconds after which a thread that only goes round in circles is not waited for."""

_THREADS = "/proc/self/task"

resting: set[int] = set()
"""The threads that wait for their turn, in whatever replay."""

_CLOCK = getattr(time, "CLOCK_MONOTONIC", None)


def seconds() -> float:
    """Return the time of a clock that goes on where a test has stopped the others."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Stillness:
    """What one that waits sees of the rest; each look says whether all of it stands still.

    ``events`` counts the calls that were made and the outcomes that came.
    """

    def __init__(self, events: Callable[[], int]) -> None:
        self._events = events
        self._count = -1
        self._seen: dict[int, tuple[int, int]] | None = None
        self._equal = 0
        self._looked = self._moved = self._happened = seconds()
        self.is_alone = False
        """There is no other thread."""

    @property
    def quiet(self) -> float:
        """Seconds since something moved."""
        return self._looked - self._moved

    @property
    def idle(self) -> float:
        """Seconds since a call was made or an outcome came."""
        return self._looked - self._happened

    def look(self, *, is_busy: bool = False) -> bool:
        """Look; ``is_busy``: it is known already that something runs."""
        now = seconds()
        is_late, self._looked = now - self._looked > _LATE, now
        count = self._events()
        if count != self._count:
            self._count, self._happened = count, now
        seen = None if is_busy else _positions()
        moved = seen is None or seen != self._seen or _any_begins()
        self._seen = seen
        self.is_alone = seen is not None and not seen
        moved = moved or (not self.is_alone and _any_runs())
        self._equal = 0 if moved or is_late else self._equal + 1
        if moved or self._happened == now:
            self._moved = now
        return self._equal >= (1 if self.is_alone else _EQUAL) or self.idle > _RESTLESS


def _positions() -> dict[int, tuple[int, int]]:
    """Return where each other thread stands in its code; one that polls comes back to the same place."""
    here = threading.get_ident()
    return {
        thread: (id(frame), frame.f_lasti)
        for thread, frame in current_frames().items()
        if thread != here and thread not in resting
    }


def _any_begins() -> bool:
    """Whether some thread was started and has not come to its code yet."""
    return any(thread.ident is None for thread in threading.enumerate())


def _any_runs() -> bool:
    """Whether another thread would run if only it were given a processor; known on Linux alone."""
    if sys.platform != "linux":
        return False
    here = str(threading.get_native_id())
    try:
        return any(_is_running(thread) for thread in os.listdir(_THREADS) if thread != here)  # noqa: PTH208
    except OSError:
        return False


def _is_running(thread: str) -> bool:
    try:
        file = os.open(f"{_THREADS}/{thread}/stat", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.read(file, 512).rpartition(b")")[2][1:2] in (b"R", b"D")
    finally:
        os.close(file)
