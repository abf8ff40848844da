"""Whose code a frame of the stack is: the user's, a library's, or ours."""

from __future__ import annotations

import os
import sysconfig
from functools import cache, lru_cache
from pathlib import Path

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
