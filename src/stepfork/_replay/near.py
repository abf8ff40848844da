"""Addresses that somebody may have meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepfork._near import near_names

if TYPE_CHECKING:
    from collections.abc import Iterable


def near_addresses(key: str, addresses: Iterable[str]) -> list[str]:
    """Return the addresses, or ends of them as long as ``key`` is, that look like it."""
    parts = key.count("/") + 1
    ends = {"/".join(address.split("/")[-parts:]) for address in addresses}
    of_that_name = sorted(end for end in ends if end.partition("#")[0] == key)
    if of_that_name:
        return of_that_name[:3]
    if "#" in key:
        return near_names(key, ends)
    return near_names(key, {end.partition("#")[0] for end in ends})


def ends_with(address: str, end: str) -> bool:
    """Whether ``end`` is this address, or its last parts."""
    return address == end or address.endswith("/" + end)
