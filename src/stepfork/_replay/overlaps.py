"""Which recorded calls were under way at the same time."""

from __future__ import annotations

from bisect import bisect
from itertools import pairwise
from typing import TYPE_CHECKING

from stepfork._replay.serve import is_cancellation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepfork._calls import Call

_TOGETHER = 0.001
"""Seconds between the ends of calls that the same turn of an event loop may have brought; timers of asyncio
are no finer."""


def overlapping(root: Call) -> list[Call]:
    """Return the recorded calls that can be answered and were under way together with another such call."""
    furthest: Call | None = None
    found: dict[int, Call] = {}
    for call in sorted(_outermost(root), key=lambda call: call.span):
        if furthest is not None and call.span[0] < furthest.span[1]:
            found[id(furthest)], found[id(call)] = furthest, call
        if furthest is None or call.span[1] > furthest.span[1]:
            furthest = call
    return list(found.values())


def ended_together(root: Call, calls: Iterable[Call]) -> Iterator[int]:
    """Yield the ends that one turn of an event loop may have brought together with the end before them.

    Between the two nothing was begun. Where several are done the agent may take up all of them at once.
    """
    starts = sorted(call.span[0] for call in root.walk())
    ends = sorted(calls, key=lambda call: call.span[1])
    for one, two in pairwise(ends):
        is_near = two.at + two.seconds - one.at - one.seconds <= _TOGETHER
        if is_near and bisect(starts, one.span[1]) == bisect(starts, two.span[1]):
            yield two.span[1]


def _outermost(root: Call) -> Iterator[Call]:
    waiting = list(root.children)
    while waiting:
        call = waiting.pop()
        if call.kind == "step":
            waiting += call.children
        elif _comes(call):
            yield call


def _comes(call: Call) -> bool:
    """Whether the recording has an outcome to hand out; how often a polled tool was asked means nothing."""
    outcome = call.outcome
    if call.repeats or (outcome.status == "suspended" and is_cancellation(outcome.value)):
        return False
    return outcome.status in ("returned", "raised", "suspended", "closed_early")
