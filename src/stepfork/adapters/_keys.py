"""Where a model's client may be built without a key: nothing is asked of it in a replay."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepfork._context import replay_is_open

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACEHOLDER = "no-key-in-a-replay"

_imports = 0
"""How many blocks are under way in which an agent is imported for its replay."""


@contextmanager
def not_needed() -> Iterator[None]:
    """Let clients be built without a key while the block runs: it imports an agent that is replayed later."""
    global _imports
    _imports += 1
    try:
        yield
    finally:
        _imports -= 1


def may_be_missing() -> bool:
    """Whether a client that is built now may do without a key."""
    return _imports > 0 or replay_is_open()
