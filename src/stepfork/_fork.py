"""What a forked child does before anything else: it makes its locks anew, and leaves what is its parent's.

Another thread may have held a lock at the fork, and in the child there is nobody who would release it.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KINDS: Final = {type(make()): make for make in (threading.Lock, threading.RLock)}
_owners: dict[tuple[int, str], weakref.ref[object]] = {}
_others: list[Callable[[], None]] = []


def renew_in_children(owner: object, name: str) -> None:
    """Have a forked child replace this lock of an object by a new one; those of our modules are found.

    Whoever forks while holding it releases the old one: ``with owner.lock`` remembers which it took. So a
    lock is to be reached through what it belongs to, each time.
    """
    key = id(owner), name
    _owners[key] = weakref.ref(owner, lambda _: _owners.pop(key, None))


def in_children(function: Callable[[], None]) -> None:
    """Have a forked child call this, once its locks are new and after what was handed in before."""
    _others.append(function)


def locks() -> Iterator[tuple[object, str]]:
    """Yield what is made anew: who holds the lock, and under which name."""
    for module in [each for name, each in list(sys.modules.items()) if name.partition(".")[0] == "stepfork"]:
        for name, value in list(vars(module).items()):
            if type(value) in _KINDS:
                yield module, name
    for (_, name), held in list(_owners.items()):
        owner = held()
        if owner is not None:
            yield owner, name


def _begin() -> None:
    for owner, name in locks():
        setattr(owner, name, _KINDS[type(getattr(owner, name))]())
    for function in _others:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)
