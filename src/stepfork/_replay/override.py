"""Values and exceptions that a test puts in the place of recorded outcomes, or of missing ones."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from stepfork.errors import UnusedOverride

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Overrides:
    """Finds the override of a call: by its address, by the end of it, or, unanswered, by its name."""

    def __init__(self, given: Mapping[str, Any], optional: Mapping[str, Any]) -> None:
        self._given = dict(given)
        self._optional = dict(optional)
        self._used: set[str] = set()

    def take(self, address: str, name: str, *, answered: bool) -> tuple[bool, Any]:
        """Return whether there is an override for this call, and what it injects."""
        for table in (self._given, self._optional):
            for key, value in table.items():
                if address == key or address.endswith("/" + key) or (key == name and not answered):
                    self._used.add(key)
                    return True, value
        return False, None

    def check_used(self, addresses: Iterable[str]) -> None:
        """Raise UnusedOverride, naming near addresses, where one given by the test did nothing."""
        unused = [key for key in self._given if key not in self._used]
        if not unused:
            return
        known = list(addresses)
        ends = {address.rpartition("/")[2] for address in known}
        near = difflib.get_close_matches(unused[0], sorted({*known, *ends}), n=4, cutoff=0.3)
        raise UnusedOverride(
            f"override={{{unused[0]!r}: ...}} was not used: no call of this replay has that address",
            detail=[("near", ", ".join(near) or "none; the replay made no tool or model call")],
            ways_on=[
                "correct the key: an address, its end (search#2), or a tool's name for its unanswered calls"
            ],
            unused=unused,
        )
