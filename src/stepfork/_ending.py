"""What becomes of a run when it has ended: handed over, held for the end of its test, kept or removed."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepfork._memory_journal import RescuedJournal
from stepfork._retention import Limits
from stepfork._run_files import fingerprint_in_test, fingerprint_of, remove_run
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from stepfork._calls import Failure
    from stepfork._journal import Journal
    from stepfork._retention import Keeper
    from stepfork._settings import Settings

_is_handing_over: ContextVar[bool] = ContextVar("stepfork_is_handing_over", default=False)
"""A step that ``on_failed`` itself calls, and that fails, is not handed over: it would never end."""

_A_DAY = 24 * 60 * 60.0


def limits_of(settings: Settings) -> Limits:
    """Return within what runs are kept."""
    return Limits(settings.max_age * _A_DAY, settings.max_bytes)


@dataclass(eq=False)
class RunsOfTest:
    """The runs that began and ended while one test was under way."""

    nodeid: str
    has_failed: bool = False
    ended: list[Ending] = field(default_factory=list)

    def ids(self) -> list[str]:
        """Return the ids of the runs so far."""
        return [ending.run_id for ending in self.ended]

    def decide(self) -> None:
        """Keep the runs of a test that failed, also those that passed in it; remove those of any other."""
        for ending in self.ended:
            try:
                if self.has_failed:
                    ending.keep(fingerprint_in_test(self.nodeid, ending.fingerprint))
                else:
                    ending.remove()
            except Exception as fault:
                _say(fault)


_test: RunsOfTest | None = None


def begin_test(nodeid: str) -> RunsOfTest:
    """From now on runs wait for the end of this test."""
    global _test
    _test = RunsOfTest(nodeid)
    return _test


def end_test() -> None:
    """Runs that end now belong to no test."""
    global _test
    _test = None


def _say(fault: Exception) -> None:
    warn_once(f"stepfork could not look after its runs: {type(fault).__name__}: {fault}")


class Ending:
    """Knows, from the start of a run, what is to become of it at its end."""

    def __init__(
        self,
        run_id: str,
        name: str,
        journal: Journal | RescuedJournal,
        settings: Settings,
        keeper: Keeper | None,
    ) -> None:
        self.run_id = run_id
        self.fingerprint = ""
        self._name = name
        self._journal = journal
        self._settings = settings
        self._keeper = keeper
        """Of the folder of the runs; None for a run that lies where somebody else wanted it."""
        self._test = _test

    def __call__(self, failure: Failure | None, *, incomplete: bool) -> None:
        """Do with the run what is to be done; it has let go of its file. Never raises."""
        try:
            data = self._journal.data if isinstance(self._journal, RescuedJournal) else None
            is_settled = failure is None or incomplete or self._hand_over(data)
            if isinstance(self._journal, RescuedJournal) and data is not None:
                self._journal.release()
                if is_settled:  # what its file holds ends in the middle
                    self.remove()
            else:
                self._settle(fingerprint_of(self._name, failure, incomplete=incomplete))
        except Exception as fault:
            _say(fault)

    def _hand_over(self, data: bytes | None) -> bool:
        """Tell whoever takes failed runs out of here; what goes wrong there is not the agent's."""
        if self._settings.on_failed is None or _is_handing_over.get():
            return False
        token = _is_handing_over.set(True)
        try:
            self._settings.on_failed(self._journal.path if data is None else data)
        except Exception as fault:
            warn_once(f"stepfork: on_failed raised {type(fault).__name__}: {fault}")
            return False
        finally:
            _is_handing_over.reset(token)
        return True

    def _settle(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        if self._keeper is None:
            return
        if self._test is not None and self._test is _test:
            self._test.ended.append(self)
        elif fingerprint or self._is_sampled():
            self.keep(fingerprint)
        else:
            self.remove()

    def _is_sampled(self) -> bool:
        share = self._settings.sample
        return share >= 1 or int(self.run_id, 16) < share * 16 ** len(self.run_id)

    def keep(self, fingerprint: str) -> None:
        """Keep the run as one of those that failed alike, as long as the limits allow."""
        if self._keeper is not None:
            self._keeper.note(self.run_id, fingerprint, limits_of(self._settings))

    def remove(self) -> None:
        """Remove the run."""
        if self._keeper is not None:
            remove_run(self._keeper.folder, self.run_id)
