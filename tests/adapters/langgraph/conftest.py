"""Has the adapters on, as ``stepfork.instrument()`` has them, and off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.langgraph.again import ADAPTERS, Again, Bodies
from stepfork.adapters._switch import switched_on


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """Record tools, models and graphs in this process."""
    with switched_on(ADAPTERS):
        yield


@pytest.fixture
def bodies() -> Bodies:
    """Notes what runs."""
    return Bodies()


@pytest.fixture
def again(tmp_path: Path, bodies: Bodies) -> Callable[[Callable[[], Any]], Again]:
    """Records an agent and replays it."""
    return lambda agent: Again(tmp_path / "run.jsonl", bodies, agent)
