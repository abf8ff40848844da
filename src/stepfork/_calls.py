"""The data that every other module speaks of: calls, their outcomes, and the run they make up.

A recording that was read, and a replay that was made, are both a :class:`Run`: so one function
draws them, one writes them as a snapshot, one compares them.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

Plain: TypeAlias = Any
"""A value as the codec writes it: None, bool, int, finite float, str, list and dict[str, Plain] only."""

Kind: TypeAlias = Literal["step", "tool", "model"]

Status: TypeAlias = Literal[
    "returned",
    "raised",
    "suspended",  # control flow, not failure: cancellation, an interrupt that waits for a human
    "closed_early",  # a stream that its consumer left before the end
    "killed",  # the process ended in the middle of the call
    "unfinished",  # the run ended, the call had not
    "stopped",  # replay only: the call, or one below it, could not be answered
    "cut_off",  # replay only: cancelled because a sibling stopped
]

Shape: TypeAlias = Literal["value", "awaitable", "stream", "astream", "object", "aobject"]
"""How the outcome reaches the caller; ``awaitable``: a plain function returned something to await;
``object``, ``aobject``: a stream that is more than its chunks; what its attributes and methods gave are the
calls ``.name`` and ``.name()`` below it."""


class Usage(msgspec.Struct, frozen=True):
    """How many tokens a call, or all calls of a run, took."""

    input: int
    output: int
    cached: int = 0
    """Of the input: what was read from a cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.output + other.output, self.cached + other.cached)


class Outcome(msgspec.Struct, omit_defaults=True):
    """What a call did."""

    status: Status
    value: Plain = None
    """The returned value, or a stream's return value; the encoded exception when raised or suspended."""
    items: list[Plain] | None = None
    """The chunks of a stream, in order."""
    shape: Shape = "value"
    origin: str | None = None
    """Raised: the address where this exception object was first seen."""
    changes: dict[str, list[Any]] | None = None
    """By parameter name, what the call changed in place (see ``_mutation``)."""
    usage: Usage | None = None
    """None: not told."""

    @property
    def has_exception(self) -> bool:
        """Whether ``value`` is an encoded exception."""
        return self.status in ("raised", "suspended")


class Call(msgspec.Struct, omit_defaults=True, eq=False):
    """One invocation of a step, tool or model, with what it called in turn."""

    kind: Kind
    name: str
    address: str
    """``handle#1/plan#1/search#2``"""
    input: dict[str, Plain]
    """The arguments by parameter name, bound with their defaults, encoded on entry."""
    outcome: Outcome
    children: list[Call] = []
    at: float = 0.0
    """Seconds from the start of the run to its own."""
    seconds: float = 0.0
    span: tuple[int, int] = (0, 0)
    """Positions of its start and its end in the journal: two calls whose spans cross overlapped."""
    moments: list[int] = []
    """Positions of its chunks in the journal."""
    lossy: bool = False
    """Some value could not be encoded and stands as a placeholder."""

    repeats: bool = False
    """A polled tool: how often it was asked is not compared."""
    plain: bool = False
    """A tool without a mark: each replay has to find its function anew."""

    # What a replay adds.
    moved_from: str | None = None
    stale: bool = False
    drifted: bool = False
    unrecorded: bool = False
    overridden: bool = False
    extended: bool = False
    """Answered from an extension, or run live for one just now."""
    site: str | None = None
    """``shop/agent.py:88``, the line of the user's code that made the call; replay only."""

    def walk(self) -> Iterator[Call]:
        """Yield this call and all below it, in order."""
        waiting = [self]
        while waiting:
            call = waiting.pop()
            yield call
            waiting.extend(reversed(call.children))

    @property
    def label(self) -> str:
        """The last part of the address: ``search#2``."""
        return self.address.rpartition("/")[2]


class Failure(msgspec.Struct, omit_defaults=True, frozen=True):
    """What makes a run a failed one."""

    kind: Literal["raised", "failed", "marked"]
    """``raised``: the root ended with an exception; ``failed``: the code called ``fail``;
    ``marked``: somebody said so afterwards."""
    address: str | None = None
    type: str | None = None
    """Of the exception: ``module:QualName``."""
    message: str = ""
    """The exception's text, or the reason that was given."""


class Criterion(msgspec.Struct, omit_defaults=True, frozen=True):
    """What a run that did not raise must show to count as good."""

    expect: dict[str, Plain] = {}
    """JSONPath over ``{"input": ..., "output": ...}`` of the root -> the value that must stand there."""
    never: tuple[str, ...] = ()
    times: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.expect or self.never or self.times)


class Run(msgspec.Struct, omit_defaults=True, eq=False):
    """One execution of an agent: a tree of calls and how it ended."""

    id: str
    name: str
    root: Call
    failure: Failure | None = None
    criterion: Criterion | None = None
    entry: Entry | None = None
    started: float = 0.0
    """Seconds since the epoch."""
    seconds: float = 0.0
    ended: bool = True
    """False for a run that is still going or was killed."""
    incomplete: bool = False
    """stepfork itself failed while recording; some calls may be missing."""
    made_by: str = ""
    parent: str | None = None
    """The id of the run, in another process, that this one belongs to."""
    adapters: tuple[str, ...] = ()
    """The adapters that were switched on when it began; a replay needs the same."""
    tools: tuple[str, ...] = ()
    """The functions without a decorator that were tools when it began, ``module:function=tool``."""
    found: tuple[str, ...] = ()
    """Those that became tools while it went on, likewise; a replay has them from its beginning, for it is to
    run none of them, and what they did before is not in the run."""
    variables: tuple[str, ...] = ()
    """The names of the variables that held a secret, or where a model is asked, when it began; a replay
    finds each of them set."""
    variables_set: tuple[str, ...] = ()
    """The names of such variables that it has set itself, as from a file."""
    unseen: tuple[str, ...] = ()
    """The tools that ran where stepfork did not see them: a replay would run them again."""
    facts: list[str] = []
    """Id-like texts that are constants of the code: they came back identical in the proof."""

    def walk(self) -> Iterator[Call]:
        """Yield every call in order, the root first."""
        return self.root.walk()

    @property
    def usage(self) -> Usage | None:
        """What its calls took in all; None where no call tells it.

        What a call only hands on from calls below it is not counted twice.
        """
        totals: dict[str, Usage | None] = {}
        for call in reversed([*self.walk()]):
            below = [took for child in call.children if (took := totals[child.address]) is not None]
            totals[call.address] = _total(call.outcome.usage, below)
        return totals[self.root.address]


def _total(own: Usage | None, below: list[Usage]) -> Usage | None:
    if not below:
        return own
    total = functools.reduce(operator.add, below)
    return total if own is None or own == total or own in below else total + own


class Entry(msgspec.Struct, omit_defaults=True, frozen=True):
    """Where a test finds the root function again."""

    module: str
    qualname: str
    file: str = ""
    """Path of the source file, relative to the project's root where it is inside."""


def parent_address(address: str) -> str:
    """Return the address of the caller; empty for a root."""
    return address.rpartition("/")[0]


def child_address(parent: str, name: str, number: int) -> str:
    """Return the address of the ``number``-th call of ``name`` in ``parent``, counted from 1."""
    return f"{parent}/{name}#{number}" if parent else f"{name}#{number}"
