"""The one place that knows syrupy: ``assert run == snapshot`` with syrupy's own fixture.

What is relied on was observed with syrupy 7.0; ``tests/test_syrupy.py`` checks it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.data import SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from stepfork._assess import Assessment, assess
from stepfork._paths import snapshot_path
from stepfork._pytest_session import TestSession
from stepfork._replayed import Replayed
from stepfork._report import report, said_aloud
from stepfork.errors import StillFailing


class _Refused(Exception):
    """Keeps syrupy from writing; never seen by a person."""


class SnapshotText(str):
    """The serialised document; settings and the verdict travel on it, since extensions take no arguments."""

    assessment: Assessment
    session: TestSession
    __slots__ = ("assessment", "session")


class StepforkExtension(SingleFileSnapshotExtension):
    """Keeps one YAML document per test in ``snapshots/``; writes are held until the test has passed."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_options: Any) -> Any:
        """Veto the write by raising: ``matches`` is not asked where the file is missing."""
        verdict: SnapshotText = data
        if verdict.session.refuses(verdict.assessment):
            raise _Refused
        return verdict

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        """Say what the verdict says, unless moved addresses are to be rewritten."""
        assessment: Assessment = serialized_data.assessment
        if assessment.row.check != "pass":
            return False
        return not (serialized_data.session.may_write and assessment.text != snapshot_data)

    def discover_snapshots(self, **_options: Any) -> SnapshotCollections:
        """Return nothing: syrupy would delete the file of every test that did not run."""
        return SnapshotCollections()

    @classmethod
    def get_location(cls, *, test_location: Any, index: Any) -> str:
        """Return the file of this comparison."""
        return str(location_of(test_location, index))

    @classmethod
    def matches_test_location(cls, *, test_location: Any, snapshot_location: str) -> bool:
        """Our folder is no ``__snapshots__``; it belongs to this test all the same."""
        return True

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> str | None:
        """Return the file's text."""
        path = Path(snapshot_location)
        return path.read_text(encoding="utf-8") if path.exists() else None

    @classmethod
    def write_snapshot_collection(cls, *, snapshot_collection: Any, name_order: Any = None) -> None:
        """Hold the write: syrupy would make it even where the test fails a line later."""
        for snapshot in snapshot_collection:
            text: SnapshotText = snapshot.data
            text.session.hold(text.assessment)


def location_of(test_location: Any, index: Any) -> Path:
    """Return the snapshot file of a test's comparison."""
    nodename = test_location.nodeid.partition("::")[2] or test_location.testname
    number = index if isinstance(index, int) else 0
    path = snapshot_path(Path(test_location.filepath), nodename, number)
    if isinstance(index, str):
        return snapshot_path(Path(test_location.filepath), f"{nodename}[{index}]")
    return path


class ComparableReplay(Replayed, SnapshotAssertion):
    """What ``replay`` returns in a test.

    As a subclass of syrupy's assertion it is asked first in ``snapshot == run`` too, so either order
    of the operands gives the same verdict.
    """

    session: Any = None

    def __init__(self, replayed: Replayed, session: TestSession) -> None:
        self.__dict__.update(vars(replayed))
        self.session = session

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SnapshotAssertion) and not isinstance(other, Replayed):
            return _agrees(self, other)
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return Replayed.__repr__(self)


def _agrees(replayed: ComparableReplay, snapshot: SnapshotAssertion) -> bool:
    """Compare; true, or an AssertionError that carries the whole report.

    Returning False would make syrupy's own report fail with a KeyError.
    """
    __tracebackhide__ = True
    session: TestSession = replayed.session
    location = snapshot.test_location
    path = location_of(location, snapshot.index)
    assessment = assess(replayed, path, Path(location.filepath))
    text = SnapshotText(assessment.text)
    text.assessment, text.session = assessment, session
    passed = snapshot(extension_class=StepforkExtension)._assert(text)
    session.note(assessment)
    if passed:
        accepted = assessment.row.check != "pass"
        session.say(said_aloud(assessment, accepted=accepted), assessment)
        return True
    kind = StillFailing if assessment.row.name == "still failing" else AssertionError
    raise kind(report(assessment, updating=session.may_write))
