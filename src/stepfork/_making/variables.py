"""Which secrets of the environment a replay needs: found by leaving them out, as where the test will run."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from stepfork._redact.environ import secrets_in
from stepfork.errors import StepforkError

if TYPE_CHECKING:
    from stepfork._making.proof import Prover, Seen

_STAND_IN = "stand-in-of-a-secret"


def secret_variables() -> frozenset[str]:
    """Return the names of the variables of this process that hold a secret."""
    held = secrets_in(os.environ).values()
    return frozenset(name for names in held for name in names.split(", "))


def needed_variables(prover: Prover, seen: Seen) -> tuple[Prover, Seen, list[str]]:
    """Return a prover that leaves out what is not needed, what it shows, and the names of what is.

    ``seen`` is what ``prover`` showed without any secret.
    """
    if not prover.without or _is_shown(prover, seen):
        return prover, seen, []
    whole = replace(prover, without=frozenset())
    with_all = whole.once()
    if not _is_shown(whole, with_all):
        return whole, with_all, []
    names = sorted(prover.without)
    needed = _needed(prover, names) or names
    prover = replace(prover, without=prover.without - set(needed))
    return prover, with_all, needed


def takes_any_value(prover: Prover, needed: list[str]) -> bool:
    """Whether the replay is the same when each of these variables holds something else."""
    other = replace(prover, instead=dict.fromkeys(needed, _STAND_IN))
    return _is_shown(other, other.once())


def _needed(prover: Prover, names: list[str]) -> list[str]:
    """Return which of these variables, without which the replay is another, it needs.

    By halves: most often it is one of many.
    """
    if len(names) == 1:
        return names
    middle = len(names) // 2
    needed: list[str] = []
    for half in (names[:middle], names[middle:]):
        lacking = replace(prover, without=frozenset(half))
        if not _is_shown(lacking, lacking.once()):
            needed += _needed(prover, half)
    return needed


def _is_shown(prover: Prover, seen: Seen) -> bool:
    try:
        verdicts = prover.checked(seen)
    except StepforkError:
        return False
    return not verdicts[0]["parted"] or prover.run.failure is None
