"""Puts the calls of a replay into an order that does not depend on scheduling."""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from stepfork._calls import Call, child_address
from stepfork._codec import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._calls import Plain

Span: TypeAlias = tuple[int, int]


def put_in_order(
    top: Call,
    spans: Mapping[str, Span],
    makers: Mapping[int, object],
    blank: Callable[[Plain], Plain],
    *,
    fixed: bool = False,
) -> dict[str, str]:
    """Sort and number the calls below ``top``; returns the new address of each that got another one.

    Calls that overlapped in the recording stand as the recording has them, the others in the order in
    which they were made. Those that could not be answered come last, by their arguments; so do others
    that are not in the recording, where different tasks or threads made them. ``fixed``: no call is
    given another number, since its address stands in a file already.
    """
    order = _Order(spans, makers, blank)
    order.sort(top)
    places: dict[str, str] = {}
    if not fixed:
        order.number(top, places)
    return places


class _Order:
    def __init__(
        self, spans: Mapping[str, Span], makers: Mapping[int, object], blank: Callable[[Plain], Plain]
    ) -> None:
        self._spans = spans
        self._makers = makers
        self._blank = blank
        self._keys: dict[int, tuple[str, bytes, bytes]] = {}

    def sort(self, parent: Call) -> None:
        """Sort what is below a call."""
        unanswered = [call for call in parent.children if call.unrecorded and call.address not in self._spans]
        late = {id(call) for call in unanswered}
        calls: list[Call] = []
        starts: list[int] = []
        makers: set[int] = set()
        for call in parent.children:
            if id(call) in late:
                continue
            span = self._span(call)
            if span is not None:
                may_precede = bisect_right(starts, span[0]) < bisect_right(starts, span[1])
                insort(starts, span[0])
            else:
                makers.add(id(self._makers.get(id(call))))
                may_precede = len(makers) > 1
            calls.insert(self._place(call, calls) if may_precede else len(calls), call)
        parent.children[:] = [*calls, *sorted(unanswered, key=self._key)]
        for child in parent.children:
            self.sort(child)

    def _place(self, call: Call, calls: list[Call]) -> int:
        """Return the place in front of the first that must follow."""
        return next((at for at, other in enumerate(calls) if self._precedes(call, other)), len(calls))

    def _precedes(self, call: Call, other: Call) -> bool:
        one, two = self._span(call), self._span(other)
        if one and two:
            return one[0] < two[0] <= one[1]
        if one or two or self._makers.get(id(call)) is self._makers.get(id(other)):
            return False
        return self._key(call) < self._key(other)

    def _span(self, call: Call) -> Span | None:
        return self._spans.get(call.moved_from or call.address)

    def _key(self, call: Call) -> tuple[str, bytes, bytes]:
        """What a call is sorted by; ids that the code made count only where nothing else differs."""
        key = self._keys.get(id(call))
        if key is None:
            key = call.name, canonical(self._blank(call.input)), canonical(call.input)
            self._keys[id(call)] = key
        return key

    def number(self, parent: Call, places: dict[str, str]) -> None:
        """Number the calls below one that stand at no recorded address, in their order."""
        new = sorted(
            (call for call in parent.children if call.address not in self._spans), key=lambda call: call.name
        )
        for name, group in groupby(new, key=lambda call: call.name):
            calls = list(group)
            for number, call in zip(sorted(map(_number, calls)), calls, strict=True):
                address = child_address(parent.address, name, number)
                if address != call.address:
                    places[call.address] = address
                    call.address = address
        for child in parent.children:
            _follow(child, parent.address, places)
            self.number(child, places)


def _follow(call: Call, parent: str, places: dict[str, str]) -> None:
    """Let the address of a call follow that of its caller."""
    address = f"{parent}/{call.label}" if parent else call.address
    if address != call.address:
        places[call.address] = address
        call.address = address


def _number(call: Call) -> int:
    return int(call.address.rpartition("#")[2])
