"""Keeps threads out of native code while the interpreter ends.

A thread that comes back from there once the interpreter is ending is unwound through frames of Rust, and
these abort the whole process: an agent that leaves a daemon thread behind would not exit as it does.
"""

from __future__ import annotations

import atexit
import time
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, Final, TypeVar

from stepfork._fork import in_children

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InterpreterEnds", "not_at_the_end"]

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")

_PATIENCE: Final = 5.0
_inside: list[int] = []
"""The threads in native code, as often as they are; a list, whose changes are atomic, since a thread may be
interrupted between any two lines by its own finalizers."""
_main = main_thread().ident
"""The thread that will end the interpreter: nobody needs to wait for it."""
_has_begun = False


class InterpreterEnds(Exception):
    """A thread that was left behind asks for what only the main thread may still do."""


def not_at_the_end(native: Callable[[A, B], R]) -> Callable[[A, B], R]:
    """Return ``native`` as it may be called from any thread; raises InterpreterEnds where it is too late.

    It takes two arguments: ``*args`` would cost as much again as all else in here.
    """

    def guarded(one: A, other: B) -> R:
        thread = get_ident()
        if thread == _main:
            return native(one, other)
        _inside.append(thread)  # before the look, so that the end waits for whoever did not see it
        try:
            if _has_begun:
                raise InterpreterEnds("the interpreter ends")
            return native(one, other)
        finally:
            _inside.remove(thread)

    return guarded


def _wait_for_threads() -> None:
    global _has_begun
    _has_begun = True
    deadline = time.monotonic() + _PATIENCE
    while _inside and time.monotonic() < deadline:
        time.sleep(0.001)


def _begin_anew() -> None:
    """In a forked child there is one thread, and it is the main one."""
    global _main
    _main = get_ident()
    _inside.clear()


atexit.register(_wait_for_threads)
in_children(_begin_anew)
