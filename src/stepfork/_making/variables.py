"""Which secrets of the environment a replay needs: found by leaving them out, as where the test will run.

Of most a replay needs no more than that they are there: their names go into the recording, and a replay
sets those that are missing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stepfork._environment import is_address, stand_in
from stepfork._making.transcribe import with_variables
from stepfork._redact.environ import is_secret_variable, secrets_in
from stepfork.errors import StepforkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from stepfork._calls import Run
    from stepfork._making.filing import Filing
    from stepfork._making.proof import Prover, Seen

    Standard = Callable[[Prover, Seen], bool]


def secret_variables() -> frozenset[str]:
    """Return the names of the variables of this process that hold a secret."""
    held = secrets_in(os.environ).values()
    by_value = {name for names in held for name in names.split(", ")}
    return frozenset(by_value.union(filter(is_secret_variable, os.environ)))


def variables_kept(run: Run) -> list[str]:
    """Return which of the variables that a run had are kept in the recording of its test anyway.

    What it set itself came from a file, most often, which will not be there where the test runs.
    """
    return sorted({*filter(is_address, run.variables), *run.variables_set})


@dataclass
class Variables:
    """Finds which variables a replay needs, and has the recording name those of which any value will do."""

    had: Run
    """The run as it was recorded."""
    recording: Path
    filing: Filing
    needed: list[str] = field(default_factory=list)
    """Those that nobody but the owner of the test can set."""
    notes: list[str] = field(default_factory=list)

    def proved(self, prover: Prover, seen: Seen) -> tuple[Prover, Seen]:
        """Return a prover with no more than is needed, and what it shows.

        ``seen`` is what ``prover`` showed without any secret.
        """
        proved, shown = self._proved_by(is_shown, prover, seen)
        if is_shown(proved, shown) or not comes_back(proved, shown):
            return proved, shown
        # Whatever is set, some value is another than in the run: that what failed comes back has to do.
        return self._proved_by(comes_back, prover, seen)

    def _proved_by(self, standard: Standard, prover: Prover, seen: Seen) -> tuple[Prover, Seen]:
        if standard(prover, seen):
            self._set_in_replays([name for name in seen.variables_set if name in self.had.variables])
            return prover, seen
        found = self._shown_with_likely(standard, prover, seen)
        if found is not None:
            return prover, found
        prover, seen, needed = needed_variables(standard, prover, seen, self.had.variables)
        if not needed:
            return prover, seen
        bare = replace(prover, without=prover.without | set(needed))
        with_needed = self._tried(standard, bare, needed)
        if standard(bare, with_needed):
            return bare, with_needed
        which = "any value will do" if takes_any_value(standard, prover, needed) else "with a value like here"
        self.needed = needed
        self.notes.append(f"a replay needs {', '.join(needed)} in its environment ({which})")
        return prover, seen

    def _shown_with_likely(self, standard: Standard, prover: Prover, seen: Seen) -> Seen | None:
        """Return what is seen with those that the output tells of, one after the other, or with all keys."""
        names: list[str] = []
        candidates = sorted({*self.had.variables, *prover.without})
        while more := [name for name in candidates if name not in names and _tells_of(seen, name)]:
            names += more
            seen = self._tried(standard, prover, names)
            if standard(prover, seen):
                return seen
        keys = [name for name in self.had.variables if name.endswith("KEY") and name not in names]
        if not keys:
            return None
        seen = self._tried(standard, prover, [*names, *keys])
        return seen if standard(prover, seen) else None

    def _tried(self, standard: Standard, prover: Prover, variables: list[str]) -> Seen:
        """Return what is seen where a replay sets these; it does not, where that is another run."""
        before = self.recording.read_bytes()
        self._set_in_replays(variables)
        seen = prover.once()
        if not standard(prover, seen):
            self.filing.put(self.recording, before)
        return seen

    def _set_in_replays(self, variables: list[str]) -> None:
        if variables:
            names = {*variables_kept(self.had), *variables}
            self.filing.put(self.recording, with_variables(self.recording.read_bytes(), names))


def _tells_of(seen: Seen, name: str) -> bool:
    """Whether what pytest printed names the variable; some libraries write it in small letters."""
    return re.search(rf"\b{re.escape(name)}\b", seen.output, re.IGNORECASE) is not None


def needed_variables(
    standard: Standard, prover: Prover, seen: Seen, had: Collection[str]
) -> tuple[Prover, Seen, list[str]]:
    """Return a prover that leaves out what is not needed, what it shows, and the names of what is.

    ``seen`` is what ``prover`` showed without any secret; ``had`` are those that the run had.
    """
    elsewhere = frozenset(name for name in had if name not in os.environ)
    if not (prover.without or elsewhere) or standard(prover, seen):
        return prover, seen, []
    whole = _lacking(prover, (), elsewhere)
    with_all = whole.once()
    if not standard(whole, with_all):
        return whole, with_all, []
    names = sorted(prover.without | elsewhere)
    needed = _needed(standard, prover, names, elsewhere) or names
    prover = replace(prover, without=prover.without - set(needed))
    return prover, with_all, needed


def _lacking(prover: Prover, without: Collection[str], elsewhere: frozenset[str]) -> Prover:
    """Return one that has all secrets but these; what was set only in the run is a placeholder."""
    instead = {name: stand_in(name) for name in sorted(elsewhere.difference(without))}
    return replace(prover, without=frozenset(without), instead=instead)


def takes_any_value(standard: Standard, prover: Prover, needed: list[str]) -> bool:
    """Whether the replay is the same when each of these variables holds something else."""
    other = replace(prover, instead={name: stand_in(name) for name in needed})
    return standard(other, other.once())


def _needed(standard: Standard, prover: Prover, names: list[str], elsewhere: frozenset[str]) -> list[str]:
    """Return which of these variables, without which the replay is another, it needs.

    By halves: most often it is one of many.
    """
    if len(names) == 1:
        return names
    middle = len(names) // 2
    needed: list[str] = []
    for half in (names[:middle], names[middle:]):
        lacking = _lacking(prover, half, elsewhere)
        if not standard(lacking, lacking.once()):
            needed += _needed(standard, prover, half, elsewhere)
    return needed


def is_shown(prover: Prover, seen: Seen) -> bool:
    """Whether what the run showed was seen again, call by call."""
    return comes_back(prover, seen) and (not seen.verdicts[0]["parted"] or prover.run.failure is None)


def comes_back(prover: Prover, seen: Seen) -> bool:
    """Whether the test shows what it has to, though some values may be others whatever is set."""
    try:
        prover.checked(seen)
    except StepforkError:
        return False
    return True
