"""Sequences compared without regard to order: which elements have no partner."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from stepfork._plain import canonical, elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._calls import Plain

DEFAULT_REL: Final = 1e-9
_PAIRS_TRIED: Final = 250_000


def alike(old: Plain, new: Plain) -> bool:
    """Whether two values are the same but for floats that differ by no more than rounding."""
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=DEFAULT_REL)
    if type(old) is not type(new):
        return False
    if isinstance(old, list):
        return len(old) == len(new) and all(map(alike, old, new))
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(alike(old[key], new[key]) for key in old)
    return bool(old == new)


def leftovers(
    old: Plain, new: Plain, same: Callable[[int, int], bool] | None = None
) -> tuple[list[int], list[int]] | None:
    """Return the positions, in two unordered sequences, of the elements without a partner.

    ``same(i, j)`` pairs those that are not equal byte for byte; None if either is no sequence.
    """
    left, right = elements(old), elements(new)
    if left is None or right is None:
        return None
    before, after = ([canonical(value) for value in values] for _, values in (left, right))
    removed, added = _unmatched(before, after), _unmatched(after, before)
    pairs = same or (lambda i, j: alike(left[1][i], right[1][j]))
    if len(removed) * len(added) > _PAIRS_TRIED:
        return removed, added
    for i in list(removed):
        partner = next((j for j in added if pairs(i, j)), None)
        if partner is not None:
            removed.remove(i)
            added.remove(partner)
    return removed, added


def _unmatched(keys: list[bytes], others: list[bytes]) -> list[int]:
    available = Counter(others)
    rest = []
    for index, key in enumerate(keys):
        if available[key]:
            available[key] -= 1
        else:
            rest.append(index)
    return rest
