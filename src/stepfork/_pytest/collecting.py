"""Imports test modules that replay: no key is needed for the clients of models that their agents build."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from stepfork._verdict.lacking import lacking_variable, way_to_set
from stepfork.adapters._keys import not_needed, stand_ins
from stepfork.adapters._switch import switched_on
from stepfork.errors import AdapterFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


class _Header(msgspec.Struct):
    adapters: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


@contextmanager
def ready_for_replays(recordings: Path, *, live: bool) -> Iterator[None]:
    """Import what replays these recordings with the adapters and in the environment that they were made with.

    ``live``: somebody is asked all the same, so what a key is made of has to be the key.
    """
    adapters, variables = _needs_of(recordings)
    with ExitStack() as stack:
        stack.enter_context(stand_ins(() if live else variables, adapters))
        with suppress(AdapterFailed):  # the replay itself will say so, in the test that it concerns
            stack.enter_context(switched_on(adapters))
        stack.enter_context(not_needed())
        yield


def told_of_lacking(report: pytest.CollectReport) -> None:
    """Say which variable an agent lacks that could not be imported."""
    call: pytest.CallInfo[object] | None = getattr(report, "call", None)
    lacking = lacking_variable(call.excinfo.value if call and call.excinfo else None)
    if lacking:
        report.sections.append(("stepfork", way_to_set(lacking)))


@lru_cache(maxsize=1000)
def _needs_of(recordings: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the adapters, and of the variables that have to be set."""
    adapters: set[str] = set()
    variables: set[str] = set()
    for path in recordings.glob("*.jsonl"):
        try:
            with path.open("rb") as file:
                header = msgspec.json.decode(file.readline(), type=_Header)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue  # told by whoever reads the whole of it
        adapters.update(header.adapters)
        variables.update(header.variables)
    return tuple(sorted(adapters)), tuple(sorted(variables))
