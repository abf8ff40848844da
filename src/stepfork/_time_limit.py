"""Stops code that takes too long, wherever it waits."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stepfork.errors import ReplayStopped


@contextmanager
def time_limit(seconds: float, expired: Callable[[], None]) -> Iterator[None]:
    """Raise ReplayStopped in this thread after ``seconds``; ``expired`` is told first.

    In the main thread a signal ends even a blocking call; in another thread, or where there are no
    such signals, the exception arrives when the interpreter next runs the thread's code.
    """
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        with _by_signal(seconds, expired):
            yield
    else:
        with _by_thread(seconds, expired):
            yield


@contextmanager
def _by_signal(seconds: float, expired: Callable[[], None]) -> Iterator[None]:
    def stop(_signal: int, _frame: Any) -> None:
        expired()
        raise ReplayStopped(f"the time limit of {seconds:g} s is over")

    previous = signal.signal(signal.SIGALRM, stop)
    # Repeated, since the first exception may be swallowed by the code that it was to stop.
    outer = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def _by_thread(seconds: float, expired: Callable[[], None]) -> Iterator[None]:
    target = threading.get_ident()
    done = threading.Event()

    def watch() -> None:
        if not done.wait(seconds):
            expired()
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(ReplayStopped))

    watcher = threading.Thread(target=watch, name="stepfork-time-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
