"""The one place that knows syrupy: ``assert run == snapshot`` with syrupy's own fixture.

What is relied on was observed with syrupy 7.0; ``tests/test_syrupy.py`` checks it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from syrupy.assertion import AssertionResult, SnapshotAssertion
from syrupy.data import SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from stepfork._paths import snapshot_path
from stepfork._pytest.session import Held, TestSession
from stepfork._replay.result import Replayed
from stepfork._verdict.assess import Assessment, assess
from stepfork._verdict.report import coloured, report, said_aloud
from stepfork.errors import OptionError, StepforkError, StillFailing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator


NO_SNAPSHOT = SnapshotAssertion
"""The class that stands for the snapshot of a test that asked for none."""


class _RefusedError(Exception):
    """Keeps syrupy from writing; never seen by a person."""


class _Text(str):
    """The serialised document; the verdict travels on it, since syrupy writes through a class method."""

    verdict: Verdict
    __slots__ = ("verdict",)


class Verdict:
    """What one comparison came to, and whether syrupy wants it written."""

    def __init__(self, assessment: Assessment, session: TestSession) -> None:
        self.assessment = assessment
        self.is_refused = session.refuses(assessment)
        self.is_accepted = assessment.row.check == "pass" and not session.rewrites(assessment)
        self.is_to_be_written = False


class StepforkExtension(SingleFileSnapshotExtension):
    """Keeps one YAML document per comparison in ``snapshots/``; a write is held until the test has passed."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT
    path = Path()

    def serialize(self, data: Any, **_options: Any) -> Any:
        """Veto the write by raising: ``matches`` is not asked where the file is missing."""
        if data.verdict.is_refused:
            raise _RefusedError
        return data

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        """Say what the verdict says."""
        return bool(serialized_data.verdict.is_accepted)

    def discover_snapshots(self, **_options: Any) -> SnapshotCollections:
        """Return nothing: syrupy would delete the file of every test that did not run."""
        return SnapshotCollections()

    def get_location(self, **_options: Any) -> str:  # type: ignore[override]
        """Return the file of this comparison; syrupy asks the instance."""
        return str(self.path)

    @classmethod
    def matches_test_location(cls, **_options: Any) -> bool:
        """Our folder is no ``__snapshots__``; it belongs to this test all the same."""
        return True

    def read_snapshot_data_from_location(self, **_options: Any) -> str | None:
        """Return whether there is a file: its text was judged already."""
        return "" if self.path.exists() else None

    @classmethod
    def write_snapshot(cls, *, snapshots: Any, **_options: Any) -> None:
        """Only note the wish: syrupy would write even where the test fails a line later."""
        for text, _location, _index in snapshots:
            text.verdict.is_to_be_written = True


class ComparableReplay(Replayed):
    """What ``replay`` returns in a test."""

    session: TestSession

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        if isinstance(other, SnapshotAssertion) and not isinstance(other, Replayed):
            return _agrees(self, other)
        return self is other

    def __ne__(self, other: object) -> bool:
        __tracebackhide__ = True
        return not self == other

    __hash__ = object.__hash__


def comparable(replayed: Replayed, session: TestSession, snapshot_class: type[object]) -> ComparableReplay:
    """Return the replay as one that can be compared with a snapshot, whatever the order of the operands."""
    made: ComparableReplay = _made_beside(snapshot_class, ComparableReplay)
    made.__dict__.update(vars(replayed), session=session)
    return made


def _made_beside(snapshot_class: type[object], kind: type[Any]) -> Any:
    """For ``snapshot == run``: Python asks the right operand first if its class derives from the left's."""
    return object.__new__(type(kind.__name__, (kind, snapshot_class), {"__repr__": kind.__repr__}))


class AwaitedReplay:
    """What ``areplay(...)`` gives until it is awaited: nothing that could be compared or looked into.

    A coroutine would be compared like any value, and an update would accept its text.
    """

    start: Callable[[], Coroutine[Any, Any, ComparableReplay]]

    def __await__(self) -> Generator[Any, Any, ComparableReplay]:
        return self.start().__await__()

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        if self is other:
            return True
        raise _not_awaited()

    def __ne__(self, other: object) -> bool:
        __tracebackhide__ = True
        return not self == other

    __hash__ = object.__hash__

    def __getattribute__(self, name: str) -> Any:
        __tracebackhide__ = True
        if name.startswith("_") or name == "start":
            return super().__getattribute__(name)
        raise _not_awaited()

    def __repr__(self) -> str:
        return "<areplay(...), not awaited>"


def awaited_replay(
    start: Callable[[], Coroutine[Any, Any, ComparableReplay]], snapshot_class: type[object]
) -> AwaitedReplay:
    """Return what is to be awaited; nothing runs before."""
    made: AwaitedReplay = _made_beside(snapshot_class, AwaitedReplay)
    made.__dict__["start"] = start
    return made


def _not_awaited() -> OptionError:
    return OptionError(
        "areplay(...) was not awaited: nothing was replayed",
        ways_on=["in an async test: run = await areplay(...)", "in a sync test: run = replay(...)"],
    )


def _agrees(replayed: ComparableReplay, snapshot: SnapshotAssertion) -> bool:
    """Compare; true, or an AssertionError that carries the whole report.

    Returning False would make syrupy's own report fail with a KeyError.
    """
    __tracebackhide__ = True
    session = replayed.session
    location = snapshot.test_location
    test = location.nodeid.partition("::")[2] or location.testname
    named = snapshot.index if isinstance(snapshot.index, str) else None
    # syrupy counts its own comparisons: one of ours between them must not shift their numbers, nor they ours.
    assertion = (
        snapshot(extension_class=StepforkExtension) if named else snapshot.use_extension(StepforkExtension)
    )
    extension: Any = assertion.extension
    extension.path = _path_of(Path(location.filepath), test, named, session)
    try:
        assessment = assess(replayed, extension.path, test)
    except StepforkError as error:
        raise error.with_traceback(None) from None
    text = _Text(assessment.text)
    text.verdict = Verdict(assessment, session)
    passed = assertion == text
    session.note(assessment)
    if not passed:
        kind = StillFailing if assessment.row.name == "still failing" else AssertionError
        told = report(assessment, note=session.note_for(assessment))
        raise kind(coloured(told) if session.colour else told)
    if text.verdict.is_to_be_written:
        session.held.append(Held(assessment, _withdrawal(assertion.executions[assertion.num_executions - 1])))
    if said := said_aloud(assessment, accepted=assessment.row.check != "pass"):
        session.said.append(said)
    return True


def _path_of(test_file: Path, test: str, named: str | None, session: TestSession) -> Path:
    if named is not None:
        return snapshot_path(test_file, f"{test}\0{named}")
    session.comparisons += 1
    return snapshot_path(test_file, test, session.comparisons - 1)


def _withdrawal(result: AssertionResult) -> Any:
    """Return what makes syrupy's summary count this comparison as failed, not as written."""

    def withdraw() -> None:
        result.created = result.updated = result.success = False

    return withdraw


__all__ = [
    "NO_SNAPSHOT",
    "AwaitedReplay",
    "ComparableReplay",
    "StepforkExtension",
    "awaited_replay",
    "comparable",
]
