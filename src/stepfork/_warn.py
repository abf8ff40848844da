"""Says something to the developer without ever harming the agent."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress

_said: set[str] = set()


def warn_once(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn once per process and text; where warnings are errors or cannot be shown, print it if possible."""
    if message in _said:
        return
    _said.add(message)
    try:
        warnings.warn(message, category, stacklevel=3)
    except Exception:
        with suppress(Exception):
            print(message, file=sys.stderr)
