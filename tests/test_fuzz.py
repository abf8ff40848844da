"""Damaged and forged files are read: a value or an error of ours comes of it, and nothing else happens."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hostile
import kept_agent  # noqa: F401 - so that the classes it names are found
from documents import document_of
from stepfork._archive import archive, write_archive
from stepfork._codec import decode, decode_exception
from stepfork._events import ExtensionStarted, encode_line
from stepfork._recording import read_run
from stepfork._replay.load import load_recording
from stepfork._verdict import snapshot as _snapshot
from stepfork.cli import main
from stepfork.errors import SnapshotDamaged, StepforkError

KEPT = Path(__file__).parent / "recordings" / "refund_crash.jsonl"
LONGEST = 30
"""Seconds after which reading one file has hung."""

_HARMFUL = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "exec"}
_HARMFUL |= {"compile", "import", "pickle.find_class", "ctypes.dlopen", "os.putenv", "os.chmod", "os.symlink"}
_WRITING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree", "os.link"}


class Watch:
    """Notes what this thread does to the world while it watches."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.folder = ""
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.thread != threading.get_ident():
            return
        writes = event in _WRITING or (event == "open" and _writes(arguments))
        if event in _HARMFUL or (writes and not self._is_inside(arguments[0])):
            self.seen.append(f"{event} {arguments!r:.200}")

    def _is_inside(self, path: Any) -> bool:
        return isinstance(path, int) or Path(os.fsdecode(path)).resolve().is_relative_to(self.folder)

    @contextlib.contextmanager
    def over(self, folder: Path) -> Iterator[None]:
        """Watch while the block runs; only below ``folder`` files may be written."""
        self.folder, self.thread = str(folder.resolve()), threading.get_ident()
        try:
            yield
        finally:
            self.thread = None


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) or any(
        letter in (mode or "") for letter in "wax+"
    )


@pytest.fixture(scope="session")
def watch() -> Watch:
    """A watch on this process; a hook once set cannot be taken out, so there is one."""
    watch = Watch()
    sys.addaudithook(watch)
    return watch


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Whole recordings."""
    whole = tmp_path_factory.mktemp("whole") / "every_kind.jsonl"
    whole.write_bytes(archive(KEPT.with_name("every_kind.jsonl")))
    return [KEPT, whole]


def read_in_every_way(path: Path) -> None:
    """Do with a recording all that a user can do with it short of running an agent."""
    with contextlib.suppress(StepforkError):
        run = read_run(path)
        for call in run.walk():
            for value in (
                *call.input.values(),
                call.outcome.value,
                call.outcome.changes,
                *(call.outcome.items or ()),
            ):
                with contextlib.suppress(StepforkError):
                    decode(value)
            if call.outcome.has_exception:
                with contextlib.suppress(StepforkError):
                    decode_exception(call.outcome.value)
        _snapshot.to_text(document_of(run.root))
    with contextlib.suppress(StepforkError):
        load_recording(path)
    with contextlib.suppress(StepforkError):
        write_archive(path.with_suffix(".stepfork"), archive(path), force=True)
    for command in (["show", str(path)], ["show", str(path), "--json"], ["show", str(path), "handle#1"]):
        assert main(command) in (0, 2, 3)


def as_an_extension(path: Path) -> None:
    """Have the damaged calls beside a recording that is whole."""
    whole = path.with_name("whole.jsonl")
    whole.write_bytes(KEPT.read_bytes())
    header = encode_line(ExtensionStarted(1, read_run(whole).id, "0.1.0", 1.0))
    path.with_name("whole.ext-0123456789.jsonl").write_bytes(header + path.read_bytes().partition(b"\n")[2])
    with contextlib.suppress(StepforkError):
        load_recording(whole)


def read_snapshot(path: Path) -> None:
    """Read it as a test would, and write it anew."""
    error = None
    try:
        _snapshot.to_text(_snapshot.read(path))
    except SnapshotDamaged as damaged:
        error = damaged
    assert error is None or (error.facts["line"] >= 1 and str(path) in str(error))
    _snapshot.read_head(path)


def _hung(*_: object) -> None:
    raise TimeoutError(f"not read after {LONGEST} seconds")


def _try(work: Callable[[], None], folder: Path, watch: Watch) -> str | None:
    """Return what went wrong, None if nothing did."""
    watch.seen.clear()
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        with watch.over(folder):
            work()
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if isinstance(error, KeyboardInterrupt):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno} {place.name}"
        return f"{type(error).__name__}: {error!s:.120} in {where}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return watch.seen[0] if watch.seen else None


@pytest.fixture
def _alarm() -> Iterator[None]:
    previous = signal.signal(signal.SIGALRM, _hung)
    yield
    signal.signal(signal.SIGALRM, previous)


def _fuzz(cases: dict[str, Callable[[], None]], folder: Path, watch: Watch, record_property: Any) -> None:
    modules = set(sys.modules)
    wrong: dict[str, str] = {}
    for name, work in cases.items():
        if why := _try(work, folder, watch):
            wrong.setdefault(why, name)
    record_property("figures", f"files {len(cases)}, crashes, code run and files outside {len(wrong)}")
    assert not wrong, "\n".join(f"{name}: {why}" for why, name in wrong.items())
    assert {name for name in set(sys.modules) - modules if not name.startswith("stepfork")} == set()


def _recordings(samples: list[Path], folder: Path, count: int) -> dict[str, Callable[[], None]]:
    def case(seed: int) -> Callable[[], None]:
        def work() -> None:
            path = folder / "damaged.jsonl"
            path.write_bytes(hostile.damaged_recording(samples[seed % 2].read_bytes(), seed))
            read_in_every_way(path)
            if seed % 10 == 0:
                as_an_extension(path)

        return work

    return {f"recording {seed}": case(seed) for seed in range(count)}


def _snapshots(samples: list[Path], folder: Path, count: int) -> dict[str, Callable[[], None]]:
    texts = [_snapshot.to_text(document_of(read_run(path).root)).encode() for path in samples]

    def case(seed: int) -> Callable[[], None]:
        def work() -> None:
            path = folder / "damaged.yaml"
            path.write_bytes(hostile.damaged_snapshot(texts[seed % 2], seed))
            read_snapshot(path)

        return work

    return {f"snapshot {seed}": case(seed) for seed in range(count)}


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.slow)])
def test_no_recording_does_anything_but_be_read(
    tmp_path: Path, samples: list[Path], watch: Watch, count: int, record_property: Any, capsys: Any
) -> None:
    """No crash, no import, no code, no file elsewhere, no end without end (B73, B77)."""
    for path in samples:  # what is loaded once for a whole file is not loaded by a damaged one
        copy = tmp_path / "damaged.jsonl"
        copy.write_bytes(path.read_bytes())
        read_in_every_way(copy)
    _fuzz(_recordings(samples, tmp_path, count), tmp_path, watch, record_property)
    assert not list(Path.cwd().glob("opened*"))


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.slow)])
def test_no_snapshot_does_anything_but_be_read(
    tmp_path: Path, samples: list[Path], watch: Watch, count: int, record_property: Any
) -> None:
    """Tags, anchors, bombs and conflict markers: a document or an error with file and line (B53, B77)."""
    for work in _snapshots(samples, tmp_path, 2).values():
        work()
    _fuzz(_snapshots(samples, tmp_path, count), tmp_path, watch, record_property)
