"""Names that somebody may have meant who wrote one that does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ALIKE = 0.7
_MOST_NAMED = 3


def near_names(name: str, known: Iterable[str], *, alike: float = _ALIKE) -> list[str]:
    """Return those that look like ``name``, the most similar first; ``alike``: how much, from 0 to 1."""
    import difflib

    return difflib.get_close_matches(name, sorted(set(known) - {name}), n=_MOST_NAMED, cutoff=alike)


def did_you_mean(near: Sequence[str]) -> list[str]:
    """Return the way on that names them; none where there are none."""
    return [f"did you mean {' or '.join(near)}?"] if near else []
