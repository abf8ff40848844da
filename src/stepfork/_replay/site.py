"""Which line of the user's code made a call."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from stepfork._frames import is_stand_in, is_users

if TYPE_CHECKING:
    from types import FrameType


def call_site() -> str | None:
    """Return ``file:line`` of the nearest code on the stack that belongs to no library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        shown = _shown(frame.f_code.co_filename)
        if shown is not None and not is_stand_in(frame.f_code):
            return f"{shown}:{frame.f_lineno}"
        frame = frame.f_back
    return None


@lru_cache(maxsize=1024)
def _shown(filename: str) -> str | None:
    """Return a source file's path, relative to the working directory if inside; None for a library's."""
    if filename.startswith("<"):
        return None
    try:
        path, here = str(Path(filename).resolve()), str(Path.cwd()) + os.sep
    except OSError:  # the agent removed its working directory
        path, here = filename, ""
    return path.removeprefix(here) if is_users(path) else None
