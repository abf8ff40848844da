"""Whose code a frame of the stack is: the user's, a library's, or ours."""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
import threading
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType, FrameType

PACKAGE = str(Path(__file__).resolve().parent) + os.sep
"""Where stepfork's own code is."""


@cache
def _libraries() -> tuple[str, ...]:
    folders = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(str(Path(folders[name]).resolve()) + os.sep for name in names if name in folders)


@lru_cache(maxsize=1024)
def is_users(filename: str) -> bool:
    """Whether code of this file belongs to the project that is running, and to no library."""
    return not filename.startswith(("<", PACKAGE, *_libraries()))


_looking = threading.RLock()


def current_frames() -> dict[int, FrameType]:
    """Return what each thread executes now.

    Without the collector: code that it runs lets other threads go on, and in CPython 3.11 those that start
    or look as well would then wait for this one, which waits for them.
    """
    with _looking:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if was_on:
                gc.enable()


class StandIn:
    """What code holds, as the last of its constants, that stands in the place of a function's own."""

    __slots__ = ()


def is_stand_in(code: CodeType) -> bool:
    """Whether it stands in the place of the user's code, whose file and line it names."""
    constants = code.co_consts
    return bool(constants) and isinstance(constants[-1], StandIn)
