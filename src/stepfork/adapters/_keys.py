"""What a replay does without: nothing is asked, so nobody's key is needed.

A client may be built without one, and what the agent reads from the environment itself is there.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepfork._context import replay_is_open
from stepfork._environment import PLACEHOLDER, stand_in
from stepfork._redact.in_use import in_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OFFLINE = {"litellm": ("LITELLM_LOCAL_MODEL_COST_MAP", "True")}
"""By adapter, the variable without which its library looks for something in the network when imported."""

_imports = 0
"""How many blocks are under way in which an agent is imported for its replay."""

_lock = threading.RLock()
_needed: Counter[str] = Counter()
"""How many blocks need a variable that was not there."""
_empty: set[str] = set()
"""Those of them that were there, and held nothing: so a CI writes the secrets that it keeps from a fork."""


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


@contextmanager
def stand_ins(variables: Iterable[str], adapters: Iterable[str]) -> Iterator[None]:
    """Have the variables that a run had set while the block runs: what holds anything is left as it is.

    What the libraries of the ``adapters`` would otherwise fetch when they are imported is not fetched.
    """
    wanted = dict(_OFFLINE[name] for name in adapters if name in _OFFLINE)
    wanted |= {name: stand_in(name) for name in variables}
    taken = [name for name, text in wanted.items() if _taken(name, text)]
    try:
        yield
    finally:
        for name in taken:
            _given_back(name, wanted[name])


def _taken(name: str, text: str) -> bool:
    with _lock:
        if not _needed[name] and os.environ.get(name):
            return False
        if not os.environ.get(name):
            _empty.update({name} & os.environ.keys())
            os.environ[name] = text
            if text == PLACEHOLDER:  # a snapshot is to be the same where a key is set, and hidden
                in_use.learn(text, "no key", in_run=True)
        _needed[name] += 1
        return True


def _given_back(name: str, text: str) -> None:
    with _lock:
        _needed[name] -= 1
        if _needed[name]:
            return
        was_empty = name in _empty
        _empty.discard(name)
        if os.environ.get(name) != text:
            return
        if was_empty:
            os.environ[name] = ""
        else:
            del os.environ[name]
