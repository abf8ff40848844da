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
) -> None:
    """Sort and number the calls below ``top``.

    Calls that overlapped in the recording, and those that different tasks or threads make now, stand as
    the recording has them; the others in the order in which they were made. What is not in the recording
    stands after what its maker did before; what other tasks or threads made stands by its arguments, and
    so do, at the end, the calls that could not be answered. ``fixed``: no call is given another number,
    since its address stands in a file already.
    """
    order = _Order(spans, makers, blank)
    order.sort(top)
    if not fixed:
        order.number(top)


class _Order:
    def __init__(
        self, spans: Mapping[str, Span], makers: Mapping[int, object], blank: Callable[[Plain], Plain]
    ) -> None:
        self._spans = spans
        self._makers = makers
        self._blank = blank

    def sort(self, parent: Call) -> None:
        """Sort what is below a call."""
        unanswered = [call for call in parent.children if call.unrecorded and call.address not in self._spans]
        late = {id(call) for call in unanswered}
        answered = [call for call in parent.children if id(call) not in late]
        parent.children[:] = [*self._merged(parent, answered), *sorted(unanswered, key=self._key)]
        for child in parent.children:
            self.sort(child)

    def _merged(self, parent: Call, calls: list[Call]) -> list[Call]:
        """Return the calls of all makers in one order that does not depend on who was faster."""
        chains: dict[int, list[Call]] = {}
        for call in calls:
            chains.setdefault(id(self._makers.get(id(call))), []).append(call)
        if len(chains) < 2:
            return self._chain(calls)
        arrival = {id(call): number for number, call in enumerate(calls)}
        own = self._chain(chains.pop(id(self._makers.get(id(parent))), []))
        others = [self._chain(chain) for chain in chains.values()]
        known = [chain for chain in others if any(map(self._span, chain))]
        new = [chain for chain in others if not any(map(self._span, chain))]
        merged = self._by_recording([[call for call in own if self._span(call)], *known])
        self._insert_own(own, merged, arrival)
        for chain in sorted(new, key=lambda chain: self._key(chain[0])):
            following = (call for call in own if arrival[id(call)] > arrival[id(chain[0])])
            at = _index(merged, next(following, None))
            merged[at:at] = chain
        return merged

    def _by_recording(self, chains: list[list[Call]]) -> list[Call]:
        """Merge by the recorded starts; what one maker did in another order now stays as it is now."""
        keyed: list[tuple[int, Call]] = []
        for chain in chains:
            latest = next((span[0] for call in chain if (span := self._span(call))), 0)
            for call in chain:
                latest = max(latest, (self._span(call) or (0, 0))[0])
                keyed.append((latest, call))
        return [call for _, call in sorted(keyed, key=lambda pair: pair[0])]

    def _insert_own(self, own: list[Call], merged: list[Call], arrival: Mapping[int, int]) -> None:
        """Put in what the caller itself did anew: after what had arrived before."""
        at = 0
        for number, call in enumerate(own):
            if self._span(call):
                at = _index(merged, call) + 1
                continue
            following = next((other for other in own[number:] if self._span(other)), None)
            for place in range(at, _index(merged, following)):
                if arrival[id(merged[place])] < arrival[id(call)]:
                    at = place + 1
            merged.insert(at, call)
            at += 1

    def _chain(self, made: list[Call]) -> list[Call]:
        """Return what one maker did: in its order, but what overlapped in the recording in that one."""
        calls: list[Call] = []
        starts: list[int] = []
        for call in made:
            span = self._span(call)
            at = len(calls)
            if span is not None:
                if bisect_right(starts, span[0]) < bisect_right(starts, span[1]):
                    at = next((at for at, other in enumerate(calls) if self._precedes(span, other)), at)
                insort(starts, span[0])
            calls.insert(at, call)
        return calls

    def _precedes(self, span: Span, other: Call) -> bool:
        two = self._span(other)
        return two is not None and span[0] < two[0] <= span[1]

    def _span(self, call: Call) -> Span | None:
        return self._spans.get(call.moved_from or call.address)

    def _key(self, call: Call) -> tuple[str, bytes, bytes]:
        """What a call is sorted by; ids that the code made count only where nothing else differs."""
        return call.name, canonical(self._blank(call.input)), canonical(call.input)

    def number(self, parent: Call) -> None:
        """Number the calls below one that stand at no recorded address, in their order."""
        new = sorted(
            (call for call in parent.children if call.address not in self._spans), key=lambda call: call.name
        )
        for name, group in groupby(new, key=lambda call: call.name):
            calls = list(group)
            for number, call in zip(sorted(map(_number, calls)), calls, strict=True):
                call.address = child_address(parent.address, name, number)
        for child in parent.children:
            if parent.address:
                child.address = f"{parent.address}/{child.label}"
            self.number(child)


def _index(calls: list[Call], call: Call | None) -> int:
    """Return where a call stands; the end for none."""
    return len(calls) if call is None else next(at for at, other in enumerate(calls) if other is call)


def _number(call: Call) -> int:
    return int(call.address.rpartition("#")[2])
