"""Finds the runs that were kept: all of a project, or the one that somebody names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepfork._paths import project_root, runs_dir
from stepfork._recording import read_run
from stepfork._settings import settings
from stepfork.errors import RecordingMissing, RunNotFound, StepforkError

if TYPE_CHECKING:
    from stepfork._calls import Run

JOURNAL_ENDING = ".jsonl"
ARCHIVE_ENDING = ".stepfork"

_LONGEST_HEADER = 2**20
_CANDIDATES_SHOWN = 10


@dataclass(frozen=True)
class StoredRun:
    """A run in a file: what its first line says, and the whole when it is asked for."""

    path: Path
    id: str
    """The file's name without its ending where the first line cannot be read."""
    name: str
    started: float
    """Seconds since the epoch; when the file last changed where the first line cannot be read."""

    @cached_property
    def run(self) -> Run:
        """The whole run; raises RecordingMissing, RecordingDamaged or RecordingTooNew."""
        return read_run(self.path)


def runs_folder(start: Path | None = None) -> Path:
    """Return the folder of the runs of the project around ``start``, by default the working directory.

    Raises:
        OptionError: a setting of that project does not exist or does not fit.
    """
    root = project_root(start or Path.cwd())
    return runs_dir(root, settings(root))


def list_runs(folder: Path) -> list[StoredRun]:
    """Return the runs in ``folder``, newest first; of each file only the first line is read.

    Raises:
        RunNotFound: the folder cannot be read. One that is not there is empty.
    """
    try:
        with os.scandir(folder) as entries:
            paths = [
                Path(entry.path)
                for entry in entries
                if entry.name.endswith(JOURNAL_ENDING) and entry.is_file()
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunNotFound(
            f"the folder of the runs cannot be read: {folder}",
            detail=[("why", error.strerror or str(error))],
            folder=str(folder),
        ) from None
    found = [stored for path in paths if (stored := _look_at(path)) is not None]
    return sorted(found, key=lambda stored: (-stored.started, stored.id))


def find_run(text: str | None, folder: Path) -> StoredRun:
    """Return the run that ``text`` names, read: an id, the beginning of one, or the path of a file.

    What holds a slash, or ends like a journal or an export, is a path; None means the last failed run.

    Raises:
        RunNotFound: no run is meant, or several are.
        RecordingMissing, RecordingDamaged, RecordingTooNew: the file cannot be used.
    """
    if text is None:
        return _last_failed(folder)
    stored = _at_path(Path(text)) if _is_path(text) else _with_id(text, folder)
    stored.run  # noqa: B018 - read now: a file that cannot be used is an error of finding it
    return stored


def _is_path(text: str) -> bool:
    separators = {os.sep, os.altsep or "/", "/"}
    return any(each in text for each in separators) or text.endswith((JOURNAL_ENDING, ARCHIVE_ENDING))


def _at_path(path: Path) -> StoredRun:
    stored = _look_at(path)
    if stored is None:
        raise RecordingMissing(
            f"there is no file {path}",
            detail=[("looked in", str(Path(os.path.abspath(path)).parent))],  # noqa: PTH100
            ways_on=["the runs that are kept: stepfork runs", "one of them as a file: stepfork export RUN"],
            path=str(path),
        )
    return stored


def _with_id(text: str, folder: Path) -> StoredRun:
    runs = list_runs(folder)
    matching = [stored for stored in runs if text and stored.id.startswith(text)]
    exact = [stored for stored in matching if stored.id == text]
    candidates = exact or matching
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise _ambiguous(text, candidates)
    if text and Path(text).is_file():
        return _at_path(Path(text))
    of_call = [f"a call is named after its run: stepfork show RUN {text!r}"] if "#" in text else []
    raise RunNotFound(
        f"no run has an id that begins with {text!r}",
        detail=[("looked in", f"{folder} ({len(runs)} run{'' if len(runs) == 1 else 's'})")],
        ways_on=[*of_call, "the runs that are kept: stepfork runs", "a file is named by its path: ./name"],
        folder=str(folder),
        candidates=[],
    )


def _ambiguous(text: str, candidates: list[StoredRun]) -> RunNotFound:
    rows = [f"{stored.id}  {stored.name}  {stored.path}" for stored in candidates[:_CANDIDATES_SHOWN]]
    if len(candidates) > _CANDIDATES_SHOWN:
        rows.append(f"and {len(candidates) - _CANDIDATES_SHOWN} more")
    return RunNotFound(
        f"{len(candidates)} runs have an id that begins with {text!r}",
        detail=[("newest" if index == 0 else "", row) for index, row in enumerate(rows)],
        ways_on=["give more of the id, or the path of the file"],
        candidates=[stored.id for stored in candidates],
    )


def _last_failed(folder: Path) -> StoredRun:
    runs = list_runs(folder)
    unreadable = 0
    cut_off = ""
    for stored in runs:
        try:
            run = read_run(stored.path)
        except StepforkError:
            unreadable += 1
            continue
        if run.failure is not None:
            return stored
        if run.root.outcome.status in ("killed", "suspended"):
            cut_off = cut_off or stored.id
    detail = [("looked in", str(folder))]
    if unreadable:
        detail.append(("cannot be read", f"{unreadable} of {len(runs)}"))
    ways_on = [
        *([f"one was cut off: stepfork show {cut_off}"] if cut_off else []),
        "the runs that are kept: stepfork runs",
        "a run that went wrong without an exception: stepfork fail RUN --reason TEXT",
        "an exception that came after the recorded step: @stepfork.step on the function that raised it",
    ]
    raise RunNotFound(
        "no run failed" if runs else "no run was kept yet",
        detail=detail,
        ways_on=ways_on if runs else how_to_record(),
        folder=str(folder),
        candidates=[],
    )


def how_to_record() -> list[str]:
    """Return the lines that say how a first run comes to be kept."""
    if not settings(project_root(Path.cwd())).record:
        return ["Recording is switched off here: the setting record, or STEPFORK_RECORD."]
    return [
        "Record a program as it is: stepfork run -- python my_agent.py. Else a run is recorded there when",
        "code of this project calls a function with @stepfork.step, or a graph after stepfork.instrument(),",
        'or opens one by hand: with stepfork.run("name"). Under pytest nothing is recorded, nor is a program',
        "that ended before its first call: without a key of its provider, for example.",
    ]


class _Header(msgspec.Struct):
    id: str
    name: str
    at: float


def _look_at(path: Path) -> StoredRun | None:
    """Return what the first line says; None where the file is gone."""
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
            changed = os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None
    except OSError:
        return StoredRun(path, path.stem, "", 0.0)
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return StoredRun(path, path.stem, "", changed)
    return StoredRun(path, header.id, header.name, header.at)
