"""Keeps the runs of a folder within their limits, each time that one has ended.

Of each failure the first run and the newest are kept, of those that passed the newest; see ``_kept_runs``.
The index is a hint, never the truth: a run that it does not know, since its process was killed or the
index was lost, is found in the folder and added.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stepfork._fork import in_children
from stepfork._index import Index, Line
from stepfork._journal import UNBEGUN_ENDING, is_going_on
from stepfork._kept_runs import KeptRun, KeptRuns
from stepfork._run_files import KEPT_ENDING, fingerprint_in, is_run_id, remove_blobs, remove_run, weight
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from pathlib import Path

_SETTLED = 60.0
"""Seconds for which a run that the index does not know is left alone: its process may be about to end it."""
_FOUND_AT_ONCE = 500
_SPARE_LINES = 500
_BETWEEN_LOOKS = 5.0


class Limits(NamedTuple):
    """What the settings say."""

    max_age: float
    """Seconds."""
    max_bytes: int


class Keeper:
    """Looks after the runs of one folder, for this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = Index(folder)
        self._runs = KeptRuns()
        self._waiting: deque[Line] = deque()
        self._busy = threading.Lock()
        self._wanting = 0
        """Bytes of a run for which there was no room."""
        self._looked = 0.0

    def note(self, run_id: str, fingerprint: str, limits: Limits) -> None:
        """Add a run that ended, and remove what is now too much."""
        size = weight(self.folder, run_id)
        if size is None:
            return
        if size > limits.max_bytes:  # no room that others make would do
            warn_once(
                f"stepfork: a run weighs more than {limits.max_bytes} bytes (max_bytes), and is not kept"
            )
            remove_run(self.folder, run_id)
            return
        self._waiting.append(Line(run_id, time.time(), size, fingerprint))
        # Whoever is at it takes this line too: another thread, or this one below a signal handler.
        while self._waiting and self._in_step(limits):
            pass

    def has_room(self, limits: Limits) -> bool:
        """Whether another run may be recorded; only where one did not fit this is looked into."""
        if not self._wanting:
            return True
        now = time.monotonic()
        if now - self._looked >= _BETWEEN_LOOKS:
            self._looked = now
            self._in_step(limits, looks_for_missing=True)
            if self._runs.bytes + self._wanting <= limits.max_bytes:
                self._wanting = 0
        return not self._wanting

    def _in_step(self, limits: Limits, *, looks_for_missing: bool = False) -> bool:
        """Bring the index and the folder in step; False where somebody else is at it."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            with self.index.locked() as is_locked:
                if is_locked:
                    self._settle(limits, looks_for_missing=looks_for_missing)
            return is_locked
        finally:
            self._busy.release()

    def _settle(self, limits: Limits, *, looks_for_missing: bool) -> None:
        lines = self._catch_up()
        newest = ""
        while self._waiting:
            lines.append(self._waiting.popleft())
            newest = lines[-1].id
        if looks_for_missing:
            lines.append(Line(gone=[run.id for run in self._runs if weight(self.folder, run.id) is None]))
        self._runs.apply(lines)
        lines += self._remove(self._runs.surplus(time.time() - limits.max_age))
        lines += self._remove(self._runs.overweight(limits.max_bytes))
        if newest and self._runs.bytes > limits.max_bytes:
            lines += self._refuse(newest, limits)
        self.index.add(lines)
        if self.index.lines > 2 * len(self._runs) + _SPARE_LINES:
            self.index.replace(self._runs.as_lines())

    def _catch_up(self) -> list[Line]:
        """Take in what other processes wrote; return what none of them knows."""
        added = self.index.read()
        if added is not None:
            self._runs.apply(added)
            return []
        self._runs = KeptRuns()
        self._runs.apply(self.index.read() or [])
        return self._unknown()

    def _remove(self, runs: list[KeptRun]) -> list[Line]:
        lines = []
        for run in runs:
            if remove_run(self.folder, run.id):
                lines.append(Line(gone=[run.id]))
            elif (self.folder / f"{run.id}{KEPT_ENDING}").exists():
                lines.append(Line(kept=run.id))
        self._runs.apply(lines)
        return lines

    def _refuse(self, newest: str, limits: Limits) -> list[Line]:
        """Remove the run that no longer fits, and let no other begin until there is room."""
        run = self._runs.get(newest)
        if run is None:
            return []
        self._wanting = max(run.bytes, 1)
        self._looked = time.monotonic()
        warn_once(
            f"stepfork: the runs in {self.folder} weigh the {limits.max_bytes} bytes they may (max_bytes): "
            "no other is recorded until there is room"
        )
        return self._remove([run])

    def _unknown(self) -> list[Line]:
        """Return a line for each run of which the index says nothing; clear away blobs without a run."""
        found: list[Line] = []
        names = {path.name for path in self.folder.iterdir()}
        for name in names:
            run_id, _, ending = name.partition(".")
            if not is_run_id(run_id):
                continue
            if ending == "blobs" and f"{run_id}.jsonl" not in names:
                if self._is_settled(name):
                    remove_blobs(str(self.folder / name))
            elif f".{ending}" == UNBEGUN_ENDING:
                self._clear_away(name)
            elif ending == "kept" and run_id not in self._runs.kept:
                found.append(Line(kept=run_id))
            elif ending == "jsonl" and run_id not in self._runs and len(found) < _FOUND_AT_ONCE:
                found += self._look_at(run_id)
        return sorted(found, key=lambda line: line.at)

    def _clear_away(self, unbegun: str) -> None:
        """Remove the file of a run that never had a call, unless it is about to have one."""
        path = self.folder / unbegun
        if self._is_settled(unbegun) and is_going_on(path) is False:
            with suppress(OSError):
                path.unlink()

    def _look_at(self, run_id: str) -> list[Line]:
        path = self.folder / f"{run_id}.jsonl"
        if path.is_symlink() or not path.is_file():  # a pipe, say
            return []
        if not self._is_settled(path.name) or is_going_on(path) is not False:
            return []
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            fingerprint = fingerprint_in(path)
            return [Line(run_id, path.stat().st_mtime, weight(self.folder, run_id) or 0, fingerprint)]
        return []

    def _is_settled(self, name: str) -> bool:
        with suppress(OSError):
            changed = (self.folder / name).stat(follow_symlinks=False).st_mtime
            return time.time() - changed >= _SETTLED
        return False


_keepers: dict[str, Keeper] = {}


def keeper_of(folder: Path) -> Keeper:
    """Return this process's keeper of the folder."""
    text = str(folder)
    found = _keepers.get(text)
    if found is None:
        found = _keepers[text] = Keeper(folder)
    return found


def _leave_parent() -> None:
    """What the parent's other threads were doing to a folder is theirs."""
    for keeper in _keepers.values():
        keeper.index.forget()
    _keepers.clear()


in_children(_leave_parent)


def times_seen(folder: Path) -> dict[str, int]:
    """Return how often the failure of each failed run in the index was seen, removed runs included."""
    runs = KeptRuns()
    runs.apply(Index(folder).look())
    return {run.id: runs.seen(run.fingerprint) for run in runs if run.fingerprint}
