"""Says something to the developer without ever harming the agent."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_said: set[str] = set()


def warn_once(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn once per process and text; where warnings are errors or cannot be shown, print it if possible."""
    if message in _said:
        return
    _said.add(message)
    try:
        warnings.warn(message, category, stacklevel=_level_of_the_caller())
    except Exception:
        with suppress(Exception):
            print(message, file=sys.stderr)


def _level_of_the_caller() -> int:
    """Return how far up the stack of ``warn_once`` the first line stands that the user has written."""
    try:
        from stepfork._frames import is_stand_in, is_users
    except Exception:  # without a free descriptor nothing can be loaded
        return 3

    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and (not is_users(frame.f_code.co_filename) or is_stand_in(frame.f_code)):
        frame, level = frame.f_back, level + 1
    return level
