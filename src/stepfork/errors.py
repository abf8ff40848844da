"""The errors of stepfork, each with a code that ``docs/errors.md`` explains.

StepforkError
├── DecorationError      SF101  a class, or something that is not callable, was decorated
├── OptionError          SF102  an option or a setting that does not exist or does not fit
├── UnrecordedCall       SF201  the replay asked for something that the recording does not hold
├── UnusedOverride       SF202  an override that no call of the replay used
├── UnusedCalls          SF203  recorded calls that a ``replaying`` block did not make
├── AmbiguousReplay      SF204  a call without context while several replays are open
├── ReplayTimeout        SF205  the replay took longer than its time limit
├── RootArgumentsError   SF206  the recorded arguments of the root do not fit the function now
├── AdapterFailed        SF207  an adapter that the recording needs is missing or does not fit its library
├── RecordingMissing     SF301  there is no such recording
├── RecordingDamaged     SF302  a recording, journal or extension that cannot be read
├── RecordingTooNew      SF303  made by a newer stepfork
├── SnapshotDamaged      SF304  a snapshot that cannot be read, or holds conflict markers
├── ClassChanged         SF305  a recorded value no longer fits its class
├── UnsafeName           SF306  a name that would leave its folder
├── StandInTouched       SF307  a value was used that the recording only names
├── NotReproduced        SF401  the failure did not come back when the test was proved
├── EntryNotFound        SF402  the root function cannot be imported by a test
├── CriterionMet         SF403  the recorded run already meets the criterion
├── RunNotFound          SF404  no run has this id, or several have
├── FailingRun           SF405  what was asked for does not go with how this run ended
└── NotRedacted          SF406  a secret stands where it cannot be replaced

``StillFailing`` is no StepforkError: it is the AssertionError of a test whose recorded failure shows again.

``ReplayStopped`` is no StepforkError: it derives from BaseException, so that an agent's
``except Exception`` does not swallow it, and it never leaves ``replay(...)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AdapterFailed",
    "AmbiguousReplay",
    "ClassChanged",
    "CriterionMet",
    "DecorationError",
    "EntryNotFound",
    "FailingRun",
    "NotRedacted",
    "NotReproduced",
    "OptionError",
    "RecordingDamaged",
    "RecordingMissing",
    "RecordingTooNew",
    "ReplayStopped",
    "ReplayTimeout",
    "RootArgumentsError",
    "RunNotFound",
    "SnapshotDamaged",
    "StandInTouched",
    "StepforkError",
    "StillFailing",
    "UnrecordedCall",
    "UnsafeName",
    "UnusedCalls",
    "UnusedOverride",
]


def _restore(cls: type[StepforkError], state: dict[str, Any]) -> StepforkError:
    return cls(**state)


class StepforkError(Exception):
    """What happened, recorded against now, and what to do next.

    ``what`` is one line. ``detail`` holds ``(label, text)`` rows, ``ways_on`` one line each.
    Every further keyword becomes an attribute, so that a program need not parse the message.
    """

    code: ClassVar[str] = "SF000"

    def __init__(
        self,
        what: str,
        *,
        detail: Iterable[tuple[str, str]] = (),
        ways_on: Iterable[str] = (),
        **facts: Any,
    ) -> None:
        self.what = what
        self.detail = tuple(detail)
        self.ways_on = tuple(ways_on)
        self.facts = facts
        super().__init__(what)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no fact {name!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        state = {
            "what": self.what,
            "detail": self.detail,
            "ways_on": self.ways_on,
            **self.facts,
        }
        return _restore, (type(self), state)

    def __str__(self) -> str:
        rows = [*self.detail, *_labelled("ways on", self.ways_on)]
        width = max((len(label) for label, _ in rows), default=0) + 3
        lines = [f"{self.code} {self.what}"]
        for label, text in rows:
            first, *rest = text.splitlines() or [""]
            lines.append(f"  {label:<{width}}{first}".rstrip())
            lines.extend(f"  {'':<{width}}{line}".rstrip() for line in rest)
        return "\n".join(lines)


def _labelled(label: str, lines: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(label if index == 0 else "", line) for index, line in enumerate(lines)]


class DecorationError(StepforkError, TypeError):
    """A class, or something that is not callable, was decorated."""

    code = "SF101"


class OptionError(StepforkError, ValueError):
    """An option, a setting or an argument that does not exist or does not fit."""

    code = "SF102"


class UnrecordedCall(StepforkError):
    """The replay asked for something that the recording does not hold."""

    code = "SF201"


class UnusedOverride(StepforkError):
    """An override that no call of the replay used."""

    code = "SF202"


class UnusedCalls(StepforkError):
    """Recorded calls that a ``with stepfork.replaying(...)`` block did not make."""

    code = "SF203"


class AmbiguousReplay(StepforkError):
    """A call came without context while several replays are open, or after its replay ended."""

    code = "SF204"


class ReplayTimeout(StepforkError):
    """The replay took longer than its time limit."""

    code = "SF205"


class RootArgumentsError(StepforkError, TypeError):
    """The recorded arguments of the root do not fit the function as it is now."""

    code = "SF206"


class AdapterFailed(StepforkError):
    """An adapter that the recording was made with is not there, or does not fit its library."""

    code = "SF207"


class RecordingMissing(StepforkError):
    """There is no such recording."""

    code = "SF301"


class RecordingDamaged(StepforkError):
    """A recording, journal or extension that cannot be read; names the file and the line."""

    code = "SF302"


class RecordingTooNew(StepforkError):
    """A file made by a newer stepfork than this one."""

    code = "SF303"


class SnapshotDamaged(StepforkError):
    """A snapshot that cannot be read, or that holds conflict markers; names the file and the line."""

    code = "SF304"


class ClassChanged(StepforkError):
    """A recorded value no longer fits its class; names the class and the field."""

    code = "SF305"


class UnsafeName(StepforkError, ValueError):
    """A name that would put a file outside the folder it belongs in."""

    code = "SF306"


class StandInTouched(StepforkError, AttributeError):
    """A value was used that the recording only names: it could not be written, or its class is not loaded."""

    code = "SF307"


class NotReproduced(StepforkError):
    """The failure did not come back when ``make-test`` proved the test."""

    code = "SF401"


class EntryNotFound(StepforkError):
    """The root function cannot be imported by a test."""

    code = "SF402"


class CriterionMet(StepforkError, ValueError):
    """The recorded run already meets the criterion that was given."""

    code = "SF403"


class RunNotFound(StepforkError):
    """No run has this id or prefix, or several have."""

    code = "SF404"


class FailingRun(StepforkError, ValueError):
    """What was asked for does not go with how this run ended."""

    code = "SF405"


class NotRedacted(StepforkError):
    """A secret, or personal data that was to be replaced, stands where it cannot be."""

    code = "SF406"


class ReplayStopped(BaseException):
    """Ends the agent's code at a call that the replay cannot answer. Not for catching."""


class StillFailing(AssertionError):
    """The recorded failure shows again in ``assert run == snapshot``; for ``xfail(raises=...)``."""

    __module__ = "stepfork"  # as one writes it in ``raises=``, and as pytest shows it
