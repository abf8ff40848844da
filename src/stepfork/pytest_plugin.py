"""The pytest plug-in: fixtures ``replay`` and ``areplay``, and the options of an update.

Only pytest and the standard library are imported here; the rest when a test asks for a replay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stepfork._pytest_session import TestSession
    from stepfork._syrupy import ComparableReplay

_session_key = pytest.StashKey["TestSession"]()
_summary_key = pytest.StashKey["_Summary"]()

REPORT_FILE = "STEPFORK_REPORT"
"""Names a file to which every verdict is added as one line of JSON."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say what may run live and what may be written."""
    group = parser.getgroup("stepfork")
    group.addoption(
        "--stepfork-extend",
        nargs="?",
        const="",
        default=None,
        metavar="ADDRESS",
        help="run the calls that have no fitting recorded outcome (or the one named) live, once, and keep them",
    )
    group.addoption("--stepfork-allow-ci", action="store_true", help="allow --snapshot-update where CI is set")
    group.addoption(
        "--stepfork-save-failed", action="store_true", help="record decorated agents, and keep the runs that fail"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse live calls in CI; let agents be recorded where that was asked for."""
    from stepfork._pytest_session import in_ci

    config.stash[_summary_key] = _Summary()
    if config.getoption("--stepfork-extend") is not None and in_ci():
        raise pytest.UsageError("--stepfork-extend makes live calls: not where CI is set")
    if config.getoption("--stepfork-save-failed"):
        os.environ["STEPFORK_RECORD_UNDER_PYTEST"] = "on"


class _Summary:
    """What is said at the end; the controller of xdist fills it from the reports."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.guards_part = 0
        self.on_stale = 0


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Callable[..., ComparableReplay]:
    """Run an agent again, its tools and models answered from a recording.

    ``replay("refund_denied", handle)`` finds ``recordings/refund_denied.jsonl`` beside the test file;
    a path works too.
    """
    session = _open_session(request)

    def run(recording: str | os.PathLike[str], function: Callable[..., Any], /, **options: Any) -> ComparableReplay:
        from stepfork._syrupy import ComparableReplay

        return ComparableReplay(_conductor(request, session, recording, function, options).play(), session)

    return run


@pytest.fixture
def areplay(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Do what ``replay`` does, in an async test: ``run = await areplay(...)``."""
    session = _open_session(request)

    async def run(
        recording: str | os.PathLike[str], function: Callable[..., Any], /, **options: Any
    ) -> ComparableReplay:
        from stepfork._syrupy import ComparableReplay

        replayed = await _conductor(request, session, recording, function, options).aplay()
        return ComparableReplay(replayed, session)

    return run


def _open_session(request: pytest.FixtureRequest) -> TestSession:
    from stepfork._pytest_session import TestSession

    option = request.config.getoption
    extend = option("--stepfork-extend")
    session = TestSession(
        update=bool(option("update_snapshots", False)),
        new_only=bool(option("update_new_snapshots_only", False)),
        allow_ci=bool(option("--stepfork-allow-ci")),
        extend=None if extend is None else tuple(filter(None, extend.split(","))),
    )
    request.node.stash[_session_key] = session
    return session


def _conductor(
    request: pytest.FixtureRequest,
    session: TestSession,
    recording: str | os.PathLike[str],
    function: Callable[..., Any],
    options: Mapping[str, Any],
) -> Any:
    from stepfork._conduct import Conductor
    from stepfork._load import load_recording
    from stepfork._paths import recording_path

    provided = dict(options)
    return Conductor(
        load_recording(recording_path(Path(request.node.path), recording)),
        function,
        override=provided.pop("override", None) or {},
        live=frozenset(provided.pop("live", ())),
        tolerance=provided.pop("tolerance", None) or {},
        timeout=provided.pop("timeout", None),
        extend=session.extend,
        provided=provided,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Write what was accepted, once the test as a whole has passed."""
    report: pytest.TestReport = yield
    session = item.stash.get(_session_key, None)
    if session is None or report.when != "call":
        return report  # type: ignore[return-value]
    if session.held:
        _commit_or_refuse(item, call, report, session)
    report.stepfork = {  # type: ignore[attr-defined]
        "said": session.said if report.outcome == "passed" else [],
        "guards_part": session.guards_part and report.passed,
        "on_stale": session.on_stale and report.passed,
    }
    _write_machine_reports(item, report, session)
    return report  # type: ignore[return-value]


def _commit_or_refuse(
    item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport, session: TestSession
) -> None:
    xfail = item.get_closest_marker("xfail") is not None
    if call.excinfo is None and not xfail:
        list(session.commit())
        return
    session.held.clear()
    if call.excinfo is None:
        report.outcome = "failed"
        report.longrepr = "fixed, but marked xfail: remove the mark, then update"
        if hasattr(report, "wasxfail"):
            del report.wasxfail
    else:
        report.sections.append(("stepfork", "--snapshot-update refused: the test failed after the comparison"))


def _write_machine_reports(item: pytest.Item, report: pytest.TestReport, session: TestSession) -> None:
    target = os.environ.get(REPORT_FILE)
    if not target:
        return
    rows = session.reports or [{"verdict": None, "error": report.longreprtext}]
    line = "".join(json.dumps({"test": item.nodeid, "outcome": report.outcome, **row}) + "\n" for row in rows)
    with open(target, "a", encoding="utf-8") as file:
        file.write(line)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what is to be said; under xdist this runs in the controller."""
    found = getattr(report, "stepfork", None)
    if found is None or _config is None:
        return
    summary = _config.stash[_summary_key]
    summary.said.extend((report.nodeid, text) for text in found["said"])
    summary.guards_part += bool(found["guards_part"])
    summary.on_stale += bool(found["on_stale"])


_config: pytest.Config | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the configuration for the hook that gets none."""
    global _config
    _config = session.config


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what was accepted, and what green does not cover."""
    summary = config.stash[_summary_key]
    if summary.said:
        terminalreporter.write_sep("-", "stepfork")
        for nodeid, text in summary.said:
            terminalreporter.write_line(f"{nodeid}: {text}")
    notes = []
    if summary.guards_part:
        notes.append(f"{summary.guards_part} guard{'s' * (summary.guards_part == 1)} only part of their run")
    if summary.on_stale:
        notes.append(f"{summary.on_stale} on stale replies")
    if notes:
        passed = len(terminalreporter.stats.get("passed", []))
        terminalreporter.write_line(f"stepfork: {passed} passed ({', '.join(notes)})")
