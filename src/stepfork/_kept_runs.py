"""The runs that are kept, as data: which of them are too many, too old or too much."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepfork._index import Line
from stepfork._run_files import is_run_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NEWEST_PASSED = 20
_NEWEST_FAILED = 5
"""Of each failure, besides the first."""
_APART = 1.0
"""Seconds by which runs of several processes may stand in the wrong order."""


class KeptRun(NamedTuple):
    """A run that ended."""

    id: str
    at: float
    bytes: int
    fingerprint: str


class KeptRuns:
    """Runs by id and by their failure, each in the order in which they ended."""

    def __init__(self) -> None:
        self.bytes = 0
        self.kept: set[str] = set()
        """Runs that are never removed; they do not count in anything else."""
        self._removed: dict[str, int] = {}
        self._runs: dict[str, KeptRun] = {}
        self._alike: dict[str, dict[str, KeptRun]] = {}
        self._grown: set[str] = set()
        self._newest = 0.0

    def __len__(self) -> int:
        return len(self._runs) + len(self.kept)

    def __iter__(self) -> Iterator[KeptRun]:
        return iter(self._runs.values())

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs or run_id in self.kept

    def get(self, run_id: str) -> KeptRun | None:
        """Return a run."""
        return self._runs.get(run_id)

    def seen(self, fingerprint: str) -> int:
        """Return how many runs failed like this, those that were removed included."""
        return len(self._alike.get(fingerprint, ())) + self._removed.get(fingerprint, 0)

    def apply(self, lines: Iterable[Line]) -> None:
        """Take in what lines of the index say; what names no run says nothing."""
        for line in lines:
            if is_run_id(line.id):
                self._put(KeptRun(line.id, line.at, line.bytes, line.fingerprint))
            for run_id in line.gone:
                self._take(run_id)
            if is_run_id(line.kept):
                self._take(line.kept)
                self.kept.add(line.kept)
            for fingerprint, number in line.removed.items():
                self._removed[fingerprint] = self._removed.get(fingerprint, 0) + number

    def as_lines(self) -> list[Line]:
        """Return the shortest index that says the same; what nothing is left of is no longer counted."""
        removed = {known: number for known, number in self._removed.items() if known in self._alike}
        return [
            Line(removed=removed),
            *(Line(run.id, run.at, run.bytes, run.fingerprint) for run in self),
            *(Line(kept=run_id) for run_id in sorted(self.kept)),
        ]

    def _put(self, run: KeptRun) -> None:
        """Add a run, or say anew what is known of it."""
        if run.id in self.kept:
            return
        self._drop(run.id)
        self._runs[run.id] = run
        self._alike.setdefault(run.fingerprint, {})[run.id] = run
        self._grown.add(run.fingerprint)
        self.bytes += run.bytes
        if run.at < self._newest - _APART:
            self._sort()
        self._newest = max(self._newest, run.at)

    def _take(self, run_id: str) -> None:
        """Take away a run that no longer counts in anything else; of its failure it was seen all the same."""
        run = self._drop(run_id)
        if run is not None and run.fingerprint:
            self._removed[run.fingerprint] = self._removed.get(run.fingerprint, 0) + 1

    def _drop(self, run_id: str) -> KeptRun | None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            alike = self._alike[run.fingerprint]
            del alike[run_id]
            if not alike:
                del self._alike[run.fingerprint]
            self.bytes -= run.bytes
        return run

    def _sort(self) -> None:
        ended = sorted(self._runs.values(), key=lambda run: run.at)
        self._runs = {run.id: run for run in ended}
        self._alike = {}
        for run in ended:
            self._alike.setdefault(run.fingerprint, {})[run.id] = run

    def surplus(self, oldest: float) -> list[KeptRun]:
        """Return the runs that ended before ``oldest``, and those that are too many of their kind."""
        found: dict[str, KeptRun] = {}
        for run in self._runs.values():
            if run.at >= oldest:
                break
            found[run.id] = run
        for fingerprint in self._grown:
            found |= {run.id: run for run in self._too_many(fingerprint)}
        self._grown.clear()
        return list(found.values())

    def _too_many(self, fingerprint: str) -> list[KeptRun]:
        runs = self._alike.get(fingerprint, {})
        first, newest = (1, _NEWEST_FAILED) if fingerprint else (0, _NEWEST_PASSED)
        number = len(runs) - first - newest
        return list(runs.values())[first : first + number] if number > 0 else []

    def overweight(self, most: int) -> list[KeptRun]:
        """Return what has to go so that no more than ``most`` bytes are left, or one of each failure.

        What passed goes first, then of the failures all but the first run; each time the oldest.
        """
        found: list[KeptRun] = []
        left = self.bytes
        if left <= most:
            return found
        firsts = {next(iter(alike)) for fingerprint, alike in self._alike.items() if fingerprint}
        passed = self._alike.get("", {})
        for run in [*passed.values(), *(run for run in self._runs.values() if run.fingerprint)]:
            if left <= most:
                break
            if run.id not in firsts:
                found.append(run)
                left -= run.bytes
        return found
