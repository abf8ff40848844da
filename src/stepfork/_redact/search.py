"""Finds many texts at once in some bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import ahocorasick_rs

from stepfork._redact.ending import not_at_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["OVERLAPPING", "Search", "search_for"]

Search: TypeAlias = "Callable[[bytes, bool], list[tuple[int, int, int]]]"
"""(data, overlapping) -> number of the text, start and end, of each place."""
OVERLAPPING: Final = True


def search_for(texts: Iterable[bytes], *, is_for_long: bool = True) -> Search:
    """Return what finds these texts; ``is_for_long``: it takes its time to be built, and is faster then."""
    kinds = ahocorasick_rs.Implementation
    automaton = _automaton(texts, kinds.DFA if is_for_long else kinds.ContiguousNFA)
    return not_at_the_end(automaton.find_matches_as_indexes)


@not_at_the_end
def _automaton(
    texts: Iterable[bytes], implementation: ahocorasick_rs.Implementation
) -> ahocorasick_rs.BytesAhoCorasick:
    return ahocorasick_rs.BytesAhoCorasick(texts, implementation=implementation)
