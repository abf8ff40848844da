"""The recorder fails at each of its own steps in turn, and the agent does not notice.

``STEPFORK_FAULTS_EVERY=1`` takes every step; by default it is some of them, spread over all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import faults
from project import clean_environment

EVERY = int(os.environ.get("STEPFORK_FAULTS_EVERY", "0"))
FLAVOURS = ("sync", "coroutine", "generator", "async_generator", "by_hand")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")


class Injected(NamedTuple):
    """What was seen of an agent while stepfork was whole, and with a fault at each step."""

    plain: dict[str, Any]
    whole: dict[str, Any]
    faulty: list[dict[str, Any]]


def inject(folder: Path, flavour: str, start: str, every: int, *kinds: str) -> Injected:
    """Run the agent once for each fault, each time in a process of its own."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, faults.__file__, flavour, str(folder / "files"), start, str(every), *kinds],
        env=clean_environment(Path(faults.__file__).parent),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *rest = map(json.loads, done.stdout.splitlines())
    assert rest
    return Injected(first["plain"], first["whole"], rest)


def _calls(runs: list[Any]) -> list[Any]:
    return sorted([call[:2] for call in run["calls"]] for run in runs)


def _objections(injected: Injected, seen: dict[str, Any] | None) -> list[str]:
    """Say what the agent, or who reads its journals, would notice of one fault."""
    if seen is None:
        return ["the process hung or died"]
    plain, whole = injected.plain, injected.whole
    noticed = [name for name in ("outcomes", "world") if seen[name] != plain[name]]
    if len(seen["warnings"]) > 1:
        noticed.append(f"warned more than once: {seen['warnings']}")
    if unreadable := [run for run in seen["runs"] if isinstance(run, str)]:
        return [*noticed, *unreadable]
    if not seen["warnings"] and _calls(seen["runs"]) != _calls(whole["runs"]):
        noticed.append("lost calls without a word")
    return noticed


def _check(injected: Injected, record_property: Any) -> None:
    assert injected.whole["outcomes"] == injected.plain["outcomes"]
    assert injected.whole["world"] == injected.plain["world"]
    assert injected.whole["warnings"] == []
    noticed = {
        f"{each['fault']} in {each['at']} no {each['number']}": objections
        for each in injected.faulty
        if (objections := _objections(injected, each["seen"]))
    }
    warned = sum(len(each["seen"]["warnings"]) for each in injected.faulty if each["seen"])
    record_property("figures", f"faults {len(injected.faulty)}, noticed {len(noticed)}, warnings {warned}")
    assert noticed == {}
    assert warned


@pytest.mark.parametrize("flavour", ["sync", pytest.param("async_generator", marks=pytest.mark.slow)])
def test_the_agent_does_not_notice_a_fault_at_some_step(
    tmp_path: Path, flavour: str, record_property: Any
) -> None:
    """Results, exceptions and side effects in their order are those of the undecorated agent (B12)."""
    _check(inject(tmp_path / flavour, flavour, "warm", 60, "RuntimeError", "OSError"), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["cold", "warm"])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_agent_does_not_notice_a_fault_at_any_step(
    tmp_path: Path, flavour: str, start: str, record_property: Any
) -> None:
    """Whatever kind it is of, also in the first run of a process; one warning at most (B12)."""
    _check(inject(tmp_path / flavour, flavour, start, EVERY or 7, *faults.FAULTS), record_property)
