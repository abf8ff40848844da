"""Opens a run: whether one is recorded at all, where, and what a test needs to find its root again."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from stepfork import _context
from stepfork._ending import Ending, limits_of
from stepfork._home import home_of
from stepfork._journal import Journal
from stepfork._memory_journal import RescuedJournal, warn_in_memory
from stepfork._paths import ensure_private_dir, runs_dir
from stepfork._record import Recorder
from stepfork._redact import Redactor
from stepfork._retention import keeper_of
from stepfork._settings import settings as settings_of
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stepfork._calls import Entry
    from stepfork._record import RecordedFrame
    from stepfork._settings import Settings
    from stepfork._spec import Spec


def recording_is_on(settings: Settings) -> bool:
    """Off by setting; under pytest off unless the plug-in switched it on."""
    if not settings.record:
        return False
    return settings.record_under_pytest or "PYTEST_VERSION" not in os.environ


def open_root(spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedFrame | None:
    """Open the run of an outermost step; None where recording is off or cannot be set up."""
    return open_run(
        spec,
        lambda: spec.bind(args, kwargs),
        file=lambda: spec.file,
        entry=lambda: spec.entry,
    )


def open_run(
    spec: Spec,
    arguments: Callable[[], Mapping[str, Any]],
    *,
    file: Callable[[], str | None],
    entry: Callable[[], Entry | None] = lambda: None,
    path: Path | None = None,
    run_id: str | None = None,
) -> RecordedFrame | None:
    """Return the frame of a new run's root; None where recording is off or cannot be set up.

    ``file`` tells where its code stands; with ``path`` the run is recorded there in any case. ``run_id`` is
    one that others were told before.
    """
    if _context.child_of_replay:  # what it calls is refused: there is nothing to record
        return None
    recorder = None
    try:
        root = home_of(file()).root
        settings = settings_of(root, is_fresh=False)
        if path is None and not recording_is_on(settings):
            return None
        recorder = _open_recorder(run_id or new_id(), spec.name, root, settings, entry, path)
        if recorder is None:
            return None
        recorder.start()
        frame = recorder.begin(spec, recorder.base, arguments())
        recorder.join_calls_without_context(frame)
    except Exception as fault:
        if recorder is not None:
            recorder.abandon(fault)
        else:
            warn_once(f"stepfork cannot record here: {type(fault).__name__}: {fault}")
        return None
    return frame


def new_id() -> str:
    """Return an id that no other run has."""
    return os.urandom(5).hex()  # what secrets.token_hex() gives, without the modules that it needs


def _open_recorder(
    run_id: str,
    name: str,
    root: Path,
    settings: Settings,
    entry: Callable[[], Entry | None],
    path: Path | None,
) -> Recorder | None:
    keeper = None
    if path is None:
        keeper = keeper_of(runs_dir(root, settings))
        if not keeper.has_room(limits_of(settings)):
            return None
        path = keeper.folder / f"{run_id}.jsonl"
    # The journal comes last: what goes wrong before leaves no empty file.
    redactor, where = make_redactor(settings), entry()
    name = redactor.text(name)
    journal = _open_journal(path, settings, is_ours=keeper is not None)
    if journal is None:
        return None
    try:
        ending = Ending(run_id, name, journal, settings, keeper)
        return Recorder(run_id, name, journal=journal, redactor=redactor, entry=where, when_over=ending)
    except Exception:
        journal.close()
        journal.discard()
        raise


def _open_journal(path: Path, settings: Settings, *, is_ours: bool) -> Journal | RescuedJournal | None:
    """Return a new journal; None where none can be written and nobody takes it from memory."""
    try:
        journal = _on_disk(path, settings, is_ours=is_ours)
    except OSError as fault:
        if settings.on_failed is None:
            # Not its whole text: the file has another name in each run, and once is enough.
            warn_once(f"stepfork cannot record in {path.parent}: {fault.strerror or fault}")
            return None
        warn_in_memory(path.parent, fault)
        return RescuedJournal(path, None)
    return journal if settings.on_failed is None else RescuedJournal(path, journal)


def _on_disk(path: Path, settings: Settings, *, is_ours: bool) -> Journal:
    most = settings.max_bytes if is_ours else sys.maxsize
    try:
        return Journal(path, settings.blob_bytes, most)
    except FileNotFoundError:
        # The first run, or somebody removed the folder.
        if is_ours:
            ensure_private_dir(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        return Journal(path, settings.blob_bytes, most)


def make_redactor(settings: Settings) -> Redactor:
    """Return a redactor with the rules of these settings."""
    return Redactor(
        environ=os.environ,
        keys=settings.redact_keys,
        patterns=settings.redact_patterns,
        custom=settings.redactor,
    )
