"""A pytest plug-in for ``make-test``: runs the new test as often as asked, in this one process.

Loaded with ``-p stepfork._pytest.proof``. What the project's own options would add to a run, workers
and repetitions, would only hide what one test does. What each time showed is written as a line of JSON:
the verdict, and whether it differs, beyond tolerance, from the recorded run and from the first time.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from stepfork._environment import names_to_note
from stepfork.pytest_plugin import session_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._verdict.assess import Assessment

TIMES = "STEPFORK_PROOF_TIMES"
"""In the environment: how often each test runs."""

TARGET = "STEPFORK_PROOF_REPORT"
"""In the environment: the file to which a line is added each time."""

_AT_FIRST = names_to_note(os.environ)

_error_key = pytest.StashKey[BaseException]()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Keep the test in this process, whatever xdist was told."""
    if hasattr(config.option, "numprocesses"):
        config.option.numprocesses = None
        config.option.tx = []
        config.option.dist = "no"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run the test as often as asked, each time with fixtures of its own."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    first: Assessment | None = None
    for _ in range(int(os.environ.get(TIMES, "1"))):
        first = _note(item, runtestprotocol(item, nextitem=None), first)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Keep the exception itself: a report has only its text."""
    if call.excinfo is not None:
        item.stash[_error_key] = call.excinfo.value
    return (yield)


def _note(item: pytest.Item, reports: list[pytest.TestReport], first: Assessment | None) -> Assessment | None:
    session = item.stash.get(session_key, None)
    seen = session.assessments[0] if session and session.assessments else None
    report = next((report for report in reports if report.when == "call"), reports[0])
    row: dict[str, Any] = {"outcome": report.outcome}
    row["variables_set"] = [name for name in names_to_note(os.environ) if name not in _AT_FIRST]
    row |= _failed(item, report) if seen is None else _compared(seen, first or seen)
    with Path(os.environ[TARGET]).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(row)}\n")
    # What this time left must not be taken for what the next one does.
    if session_key in item.stash:
        del item.stash[session_key]
    if _error_key in item.stash:
        del item.stash[_error_key]
    return first or seen


def _compared(seen: Assessment, first: Assessment) -> dict[str, Any]:
    from stepfork._making.resemblance import covers, parted, recorded_document
    from stepfork._pytest.session import machine_report
    from stepfork._verdict.lacking import lacking_variable

    replayed = seen.replayed
    recorded = recorded_document(replayed.recording.run, replayed.recording.name)
    return {
        **machine_report(seen),
        "parted": parted(recorded, seen.new, replayed.rules),
        "covers": covers(recorded, seen.new, replayed.rules),
        "lacking": lacking_variable(replayed.error),
        "again": parted(first.new, seen.new, replayed.rules),
    }


def _failed(item: pytest.Item, report: pytest.TestReport) -> dict[str, Any]:
    from stepfork.errors import OptionError

    row: dict[str, Any] = {"verdict": None, "error": report.longreprtext}
    error = item.stash.get(_error_key, None)
    if isinstance(error, OptionError):
        row["refused"] = {"what": error.what, "detail": error.detail, "ways_on": error.ways_on}
    return row
