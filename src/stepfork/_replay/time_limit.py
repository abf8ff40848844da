"""Stops code that takes too long, wherever it waits."""

from __future__ import annotations

import asyncio
import ctypes
import random
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stepfork.errors import ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_AGAIN = 0.5
"""Seconds after which it is tried again, since the code may have swallowed the exception."""

_PATIENCE = 3
"""How often it may be swallowed before it is raised so soon again that it meets the handler itself."""

_SOON = 2e-4
"""Seconds; somewhere within them the next one comes then."""


_DELICATE = ("stepfork", "contextlib", "asyncio", "weakref", "_weakrefset")
"""Code in which an exception would be lost, or hit what comes after the agent. Soon other code runs."""


class LoopLimit:
    """What is done when the time is over: code in an event loop is stopped by cancelling its task."""

    def __init__(self) -> None:
        self.is_over = False
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancelled = 0
        self._is_asked = False
        """The loop was asked to cancel the task and has not come to it yet."""

    def watch_this_task(self) -> None:
        """Let this task be the one that is cancelled."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()

    def expired(self, frame: FrameType | None) -> bool:
        """Note that the time is over; true where an exception must stop the code that runs.

        A loop that waits is not to be broken off: it may belong to somebody else, and goes on. One
        whose own code is hit by an exception loses the task that it was about to go on with.
        """
        self.is_over = True
        loop = self._loop
        if loop is None or self._task is None or loop.is_closed():
            return True
        is_blocked, self._is_asked = self._is_asked, True
        loop.call_soon_threadsafe(self._cancel)
        if frame is None:
            return is_blocked
        return asyncio.current_task(loop) is not None and not _is_in(frame, "asyncio")

    def _cancel(self) -> None:
        self._is_asked = False
        if self._task is not None:
            self._cancelled += 1
            self._task.cancel()

    def is_cancelled_from_outside(self) -> bool:
        """Whether somebody else asked the task to stop."""
        return self._task is not None and self._task.cancelling() > self._cancelled

    def lift(self) -> None:
        """The replay is over: take back what was asked of the task."""
        for _ in range(self._cancelled):
            if self._task is not None:
                self._task.uncancel()
        self._task, self._cancelled = None, 0


@contextmanager
def time_limit(seconds: float, expired: Callable[[FrameType | None], bool]) -> Iterator[None]:
    """Raise ReplayStopped in this thread after ``seconds``.

    ``expired`` is asked first, each time, with the frame that runs where that is known; where it
    returns false it has stopped the code itself. In the main thread a signal ends even a blocking
    call; in another thread, or where there are no such signals, the exception arrives when the
    interpreter next runs the thread's code.
    """
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        with _by_signal(seconds, expired):
            yield
    else:
        with _by_thread(seconds, expired):
            yield


def _is_in(frame: FrameType, *packages: str) -> bool:
    """Whether this is code of one of these packages."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages


@contextmanager
def _by_signal(seconds: float, expired: Callable[[FrameType | None], bool]) -> Iterator[None]:
    left, interval = signal.getitimer(signal.ITIMER_REAL)
    if 0 < left <= seconds:  # somebody else's limit ends this code earlier
        yield
        return
    raised = 0
    is_over = False

    def stop(_signal: int, frame: FrameType | None) -> None:
        nonlocal raised
        if is_over or not expired(frame):
            return
        if frame is None or _is_in(frame, *_DELICATE):
            signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
            return
        raised += 1
        if raised >= _PATIENCE:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, _SOON), _AGAIN / 10)
        raise ReplayStopped(f"the time limit of {seconds:g} s is over")

    began = time.monotonic()
    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        while not is_over:
            try:
                is_over = True
                signal.setitimer(signal.ITIMER_REAL, 0)
            except ReplayStopped:  # it came in the very moment of leaving
                is_over = False
        signal.signal(signal.SIGALRM, previous)
        if left:
            rest = max(left - (time.monotonic() - began), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)


@contextmanager
def _by_thread(seconds: float, expired: Callable[[FrameType | None], bool]) -> Iterator[None]:
    target = ctypes.c_ulong(threading.get_ident())
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock = threading.Lock()
    done = threading.Event()

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            with lock:
                if not done.is_set() and expired(None):
                    raise_in(target, ctypes.py_object(ReplayStopped))
            wait = _AGAIN

    watcher = threading.Thread(target=watch, name="stepfork-time-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        while not done.is_set():
            try:
                with lock:
                    done.set()
            except ReplayStopped:  # it came in the very moment of leaving
                continue
        # One that is on its way arrives here and not in what comes after. It is not taken back: with
        # that, the interpreter would go on looking for it for ever.
        try:
            for _ in range(100):
                pass
        except ReplayStopped:
            pass
