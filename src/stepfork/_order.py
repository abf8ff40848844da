"""Puts the calls of a replay into an order that does not depend on scheduling."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from stepfork._calls import Call, child_address, parent_address
from stepfork._codec import canonical

Span = tuple[int, int]


def in_recorded_order(parent: Call, recorded_span: Callable[[Call], Span | None]) -> None:
    """Sort the calls below ``parent`` that overlapped in the recording as the recording has them.

    Calls that followed one another then keep the order they take now. Calls that could not be
    answered are numbered after all others, in the order of their arguments.
    """
    _renumber(parent)
    children = parent.children
    swapped = True
    while swapped:
        swapped = False
        for index in range(len(children) - 1):
            if _belongs_after(children[index], children[index + 1], recorded_span):
                children[index], children[index + 1] = children[index + 1], children[index]
                swapped = True
    for child in children:
        in_recorded_order(child, recorded_span)


def _belongs_after(first: Call, second: Call, recorded_span: Callable[[Call], Span | None]) -> bool:
    if first.unrecorded and second.unrecorded:
        return first.name == second.name and canonical(first.input) > canonical(second.input)
    one, two = recorded_span(first), recorded_span(second)
    if one is None or two is None:
        return False
    return two[0] < one[0] <= two[1]


def _renumber(parent: Call) -> None:
    unanswered = sorted((call for call in parent.children if call.unrecorded), key=lambda call: call.name)
    for name, group in groupby(unanswered, key=lambda call: call.name):
        calls = list(group)
        numbers = sorted(int(call.address.rpartition("#")[2]) for call in calls)
        for number, call in zip(numbers, sorted(calls, key=lambda call: canonical(call.input)), strict=True):
            call.address = child_address(parent_address(call.address), name, number)
