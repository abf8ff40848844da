"""What stands between the model and the tools: actions that must not be taken, and what to do instead."""

from __future__ import annotations

from typing import Any, NamedTuple


class Action(NamedTuple):
    """A tool and its arguments."""

    name: str
    arguments: dict[str, Any]


INSTEAD: dict[str, tuple[Action, Action | None]] = {}
"""By run: an action that is wrong, and the right one; None: there is nothing to be done."""


def corrected(run: str, action: Action) -> Action | None:
    """Return the action to take."""
    wrong, right = INSTEAD.get(run, (None, None))
    return right if action == wrong else action
