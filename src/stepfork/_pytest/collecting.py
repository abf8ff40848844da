"""Imports test modules that replay: no key is needed for the clients of models that their agents build."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from stepfork.adapters._keys import not_needed
from stepfork.adapters._switch import switched_on
from stepfork.errors import AdapterFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Header(msgspec.Struct):
    adapters: tuple[str, ...] = ()


@contextmanager
def ready_for_replays(recordings: Path) -> Iterator[None]:
    """Import what replays these recordings with the adapters that they were made with."""
    with ExitStack() as stack:
        with suppress(AdapterFailed):  # the replay itself will say so, in the test that it concerns
            stack.enter_context(switched_on(_adapters_of(recordings)))
        stack.enter_context(not_needed())
        yield


@lru_cache(maxsize=1000)
def _adapters_of(recordings: Path) -> tuple[str, ...]:
    found: set[str] = set()
    for path in recordings.glob("*.jsonl"):
        try:
            with path.open("rb") as file:
                found.update(msgspec.json.decode(file.readline(), type=_Header).adapters)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue  # told by whoever reads the whole of it
    return tuple(sorted(found))
