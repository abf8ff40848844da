"""The pytest plug-in: fixtures ``replay`` and ``areplay``, and the options of an update.

Only pytest and the standard library are imported here; the rest when a test asks for a replay.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping

    from stepfork._pytest.session import TestSession
    from stepfork._pytest.syrupy import ComparableReplay
    from stepfork._replay.conduct import Conductor
    from stepfork._replay.result import Replayed

session_key = pytest.StashKey["TestSession"]()

REPORT_FILE = "STEPFORK_REPORT"
"""Names a file to which every verdict is added as one line of JSON."""

REMOVE_THE_MARK = "the recorded failure is gone, and the test is marked xfail: remove the mark, then update"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say what may run live and what may be written."""
    group = parser.getgroup("stepfork")
    group.addoption(
        "--stepfork-extend",
        nargs="?",
        const="",
        default=None,
        metavar="ADDRESS",
        help="run the calls without a fitting recorded outcome (or the one named) live, once, and keep them",
    )
    group.addoption(
        "--stepfork-allow-ci", action="store_true", help="allow --snapshot-update where CI is set"
    )
    group.addoption(
        "--stepfork-save-failed",
        action="store_true",
        help="record decorated agents, and keep the runs of the tests that fail",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse live calls in CI; let agents be recorded where that was asked for."""
    from stepfork._pytest.session import in_ci

    if config.getoption("--stepfork-extend") is not None and in_ci():
        raise pytest.UsageError("--stepfork-extend makes live calls: not where CI is set")
    if config.getoption("--stepfork-save-failed"):
        from stepfork._pytest.save_failed import SavesFailed

        os.environ["STEPFORK_RECORD_UNDER_PYTEST"] = "on"
        config.pluginmanager.register(SavesFailed(), "stepfork-save-failed")
    config.pluginmanager.register(_Summary(config), "stepfork-summary")


@pytest.fixture
def _stepfork_session(request: pytest.FixtureRequest) -> TestSession:
    """What ``replay`` and ``areplay`` of one test share."""
    from stepfork._pytest.session import TestSession

    option = request.config.getoption
    extend = option("--stepfork-extend")
    session = TestSession(
        update=bool(option("update_snapshots", False)),
        new_only=bool(option("update_new_snapshots_only", False)),
        allow_ci=bool(option("--stepfork-allow-ci")),
        extend=None if extend is None else tuple(filter(None, extend.split(","))),
        colour=request.config.get_terminal_writer().hasmarkup,
    )
    request.node.stash[session_key] = session
    return session


@pytest.fixture
def replay(request: pytest.FixtureRequest, _stepfork_session: TestSession) -> Callable[..., ComparableReplay]:
    """Run an agent again, its tools and models answered from a recording.

    ``replay("refund_denied", handle)`` finds ``recordings/refund_denied.jsonl`` beside the test file;
    a path works too.
    """

    def run(
        recording: str | os.PathLike[str], function: Callable[..., Any], /, **options: Any
    ) -> ComparableReplay:
        __tracebackhide__ = True
        with _without_our_frames():
            replayed = _conductor(request, _stepfork_session, recording, function, options).play()
            return _comparable(request, _stepfork_session, replayed)

    return run


@pytest.fixture
def areplay(request: pytest.FixtureRequest, _stepfork_session: TestSession) -> Callable[..., Any]:
    """Do what ``replay`` does, in an async test, where it is awaited."""

    async def run(
        recording: str | os.PathLike[str], function: Callable[..., Any], options: Mapping[str, Any]
    ) -> ComparableReplay:
        __tracebackhide__ = True
        with _without_our_frames():
            replayed = await _conductor(request, _stepfork_session, recording, function, options).aplay()
            return _comparable(request, _stepfork_session, replayed)

    def start(
        recording: str | os.PathLike[str], function: Callable[..., Any], /, **options: Any
    ) -> Awaitable[ComparableReplay]:
        from stepfork._pytest.syrupy import awaited_replay

        return awaited_replay(lambda: run(recording, function, options), _snapshot_class(request))

    return start


class _without_our_frames:  # noqa: N801 - used as a statement
    """Lets an error of ours show the user's line, not how we came to raise it."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        __tracebackhide__ = True
        from stepfork.errors import StepforkError

        if isinstance(error, StepforkError):
            raise error.with_traceback(None) from None


def _comparable(request: pytest.FixtureRequest, session: TestSession, replayed: Replayed) -> ComparableReplay:
    from stepfork._pytest.syrupy import comparable

    return comparable(replayed, session, _snapshot_class(request))


def _snapshot_class(request: pytest.FixtureRequest) -> type[object]:
    """Return the class of the test's fixture ``snapshot``: a project may have its own."""
    from stepfork._pytest.syrupy import NO_SNAPSHOT

    if "snapshot" not in request.fixturenames:
        return NO_SNAPSHOT
    return type(request.getfixturevalue("snapshot"))


def _conductor(
    request: pytest.FixtureRequest,
    session: TestSession,
    recording: str | os.PathLike[str],
    function: Callable[..., Any],
    options: Mapping[str, Any],
) -> Conductor:
    from stepfork._paths import recording_path
    from stepfork._replay.conduct import Conductor
    from stepfork._replay.load import load_recording

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
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Import a test module beside recordings so that its agent needs no key of a model's client."""
    recordings = collector.path.parent / "recordings"
    if not isinstance(collector, pytest.Module) or not recordings.is_dir():
        return (yield)
    from stepfork._pytest.collecting import ready_for_replays, told_of_lacking

    live = collector.config.getoption("--stepfork-extend") is not None
    with ready_for_replays(recordings, live=live):
        report = yield
    told_of_lacking(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note the end of the test: reports that are made before are of its subtests."""
    try:
        return (yield)
    finally:
        if session := item.stash.get(session_key, None):
            session.is_over = True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Write what was accepted, once the test as a whole has passed."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    session = item.stash.get(session_key, None)
    if session is None or report.when != "call":
        return report  # type: ignore[return-value]
    _leave_out_fixtures(report)
    if not session.is_over:
        session.failed_inside |= report.failed
        return report  # type: ignore[return-value]
    _settle(item, report, session)
    report.stepfork = {  # type: ignore[attr-defined]
        "said": [*session.said_anyway, *(session.said if report.passed else [])],
        "guards_part": session.guards_part and report.passed,
        "on_stale": session.on_stale and report.passed,
    }
    _write_machine_reports(item, report, session)
    return report  # type: ignore[return-value]


def _settle(item: pytest.Item, report: pytest.TestReport, session: TestSession) -> None:
    is_marked = item.get_closest_marker("xfail") is not None
    passed = report.passed and not is_marked and not session.failed_inside
    would_write = bool(session.held)
    try:
        withdrawn = session.settle(passed=passed)
    except OSError as error:
        report.outcome = "failed"
        report.longrepr = f"the snapshot cannot be written: {error}"
        return
    if is_marked and (would_write or session.is_fixed):
        _fail_marked(report)
    elif withdrawn:
        report.sections.append(
            (
                "stepfork",
                "--snapshot-update refused: another assertion of this test failed; no snapshot is changed",
            )
        )


def _fail_marked(report: pytest.TestReport) -> None:
    """Fail a test that is fixed, also where its mark says that any failure, or none, will do."""
    if hasattr(report, "wasxfail"):
        del report.wasxfail
    if report.passed or isinstance(report.longrepr, str):
        report.longrepr = REMOVE_THE_MARK
    else:
        report.sections.append(("stepfork", REMOVE_THE_MARK))
    report.outcome = "failed"


def _leave_out_fixtures(report: pytest.TestReport) -> None:
    """Take what our fixtures are out of the traceback: it says nothing, and much of it."""
    for traceback, _crash, _description in getattr(report.longrepr, "chain", ()):
        for entry in traceback.reprentries:
            arguments = getattr(entry, "reprfuncargs", None)
            if arguments is not None:
                arguments.args = [
                    (name, text)
                    for name, text in arguments.args
                    if name not in ("replay", "areplay", "snapshot")
                ]
                if not arguments.args:
                    entry.reprfuncargs = None


def _write_machine_reports(item: pytest.Item, report: pytest.TestReport, session: TestSession) -> None:
    target = os.environ.get(REPORT_FILE)
    if not target:
        return
    rows = list(session.machine_reports()) or [{"verdict": None, "error": report.longreprtext}]
    line = "".join(json.dumps({"test": item.nodeid, "outcome": report.outcome, **row}) + "\n" for row in rows)
    with Path(target).open("a", encoding="utf-8") as file:
        file.write(line)


class _Summary:
    """Says at the end what was accepted and what green does not cover; under xdist, in the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.said: list[tuple[str, str]] = []
        self.guards_part = 0
        self.on_stale = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect; what a worker has to say travels in the report."""
        found = getattr(report, "stepfork", None)
        if found is None:
            return
        self.said.extend((report.nodeid, text) for text in found["said"])
        self.guards_part += bool(found["guards_part"])
        self.on_stale += bool(found["on_stale"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say aloud what each test had to tell."""
        if self.said:
            terminalreporter.write_sep("-", "stepfork")
            for nodeid, text in self.said:
                terminalreporter.write_line(f"{nodeid}: {text}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Iterator[None]:
        """Write the last line, after pytest's own."""
        result = yield
        terminal: Any = self.config.pluginmanager.get_plugin("terminalreporter")
        notes = []
        if self.guards_part == 1:
            notes.append("1 guards only part of its run")
        elif self.guards_part:
            notes.append(f"{self.guards_part} guard only part of their run")
        if self.on_stale:
            notes.append(f"{self.on_stale} on stale replies")
        if notes and terminal is not None:
            passed = len(terminal.stats.get("passed", []))
            terminal.write_line(f"{passed} passed ({', '.join(notes)})")
        return result
