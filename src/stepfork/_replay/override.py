"""Values and exceptions that a test puts in the place of recorded outcomes, or of missing ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepfork._replay.near import ends_with, near_addresses
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
                if ends_with(address, key) or (key == name and not answered):
                    self._used.add(key)
                    return True, value
        return False, None

    @property
    def unused(self) -> list[str]:
        """Those given by the test that did nothing so far."""
        return [key for key in self._given if key not in self._used]

    def unknown(self, addresses: Iterable[str]) -> dict[str, list[str]]:
        """Return the unused ones that fit none of these addresses, with those that look like it."""
        known = list(addresses)
        names = {address.rpartition("/")[2].partition("#")[0] for address in known}
        return {
            key: near_addresses(key, known)
            for key in self.unused
            if key not in names and not any(ends_with(address, key) for address in known)
        }

    def check_used(self, addresses: Iterable[str]) -> None:
        """Raise UnusedOverride, naming near addresses, where one given by the test did nothing."""
        unused = self.unused
        if not unused:
            return
        known = list(addresses)
        near = ", ".join(near_addresses(unused[0], known))
        raise UnusedOverride(
            f"override={{{unused[0]!r}: ...}} was not used: no call of this replay has that address",
            detail=[("near", near or ("none" if known else "none; the replay made no tool or model call"))],
            ways_on=[
                "correct the key: an address, its end (search#2), or a tool's name for its unanswered calls"
            ],
            unused=unused,
        )
