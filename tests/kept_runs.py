"""An agent that is recorded in this process, and what is kept of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import stepfork
from stepfork import _retention, _warn

LONG_AGO = 1_000_000_000
A_DAY = 24 * 60 * 60

PASSES = {"amount": 1}
"""An order that the agent can handle."""


@stepfork.tool
def charge(order: Any) -> Any:
    """Fail where there is nothing to charge."""
    return order["amount"]


@stepfork.step
def handle(order: Any) -> Any:
    """Charge an order."""
    return charge(order)


@stepfork.step
def refund(order: Any) -> Any:
    """Do the same under another name."""
    return charge(order)


def fail(step: Callable[[Any], Any] = handle) -> None:
    """Run an agent on an order that it cannot handle."""
    with pytest.raises(KeyError):
        step({})


@contextmanager
def recorded_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Record in spite of pytest, and give the folder of the runs."""
    monkeypatch.setenv("STEPFORK_DIR", str(folder))
    monkeypatch.setenv("STEPFORK_RECORD_UNDER_PYTEST", "on")
    monkeypatch.setattr(_warn, "_said", set())
    yield folder / "runs"
    restart()


def ids(folder: Path) -> set[str]:
    """Return the ids of the runs that are there."""
    return {path.stem for path in folder.glob("*.jsonl")}


def ran(folder: Path, act: Callable[[], Any]) -> str:
    """Return the id of the one run that came about; it may have made others go."""
    before = ids(folder)
    act()
    (new,) = ids(folder) - before
    return new


def restart() -> None:
    """Let this process know no more of the folder than a new one."""
    for keeper in _retention._keepers.values():
        keeper.index.forget()
    _retention._keepers.clear()
