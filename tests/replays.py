"""Records an agent inside a test and runs it again: the two halves of most tests of the replay engine."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepfork
from stepfork._calls import Call
from stepfork._replay.result import Replayed


class Bodies:
    """Counts how often the bodies of tools ran; in a replay that must be never."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def ran_in(self, act: Callable[[], Any]) -> tuple[Any, int]:
        """Return what ``act`` returned, and how many bodies ran meanwhile."""
        before = len(self.ran)
        result = act()
        return result, len(self.ran) - before


def record(path: Path, agent: Callable[..., Any], **inputs: Any) -> Any:
    """Run an agent, sync or async, in a run that is recorded at ``path``."""
    with stepfork.run("test", path=path, **inputs):
        result = agent(**inputs)
        return asyncio.run(result) if inspect.iscoroutine(result) else result


def rerun(
    path: Path, now: Callable[..., Any], before: Callable[..., Any] | None = None, **options: Any
) -> Replayed:
    """Record ``before`` (else ``now`` itself) and replay ``now`` against it."""
    record(path, before or now)
    return stepfork.replay(path, now, **options)


def made(replayed: Replayed, name: str | None = None) -> list[Call]:
    """Return the tool and model calls of a replay."""
    return [call for call in replayed.run.walk() if call.kind != "step" and name in (None, call.name)]


def stops(replayed: Replayed) -> list[str]:
    """Return the calls that could not be answered: ``search#2``."""
    return [frontier.call.label for frontier in replayed.frontiers]
