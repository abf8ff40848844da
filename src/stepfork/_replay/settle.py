"""Gives steps that raced for the places of recorded ones those places that do not depend on who won."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from stepfork._calls import child_address, parent_address
from stepfork._codec import canonical
from stepfork._replay.matching import Request

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from stepfork._calls import Call
    from stepfork._replay.bindings import Bindings
    from stepfork._replay.frame import ReplayFrame
    from stepfork._replay.matching import Pool


def settle(
    top: Call,
    frames: Iterable[ReplayFrame],
    makers: Mapping[int, object],
    pool: Pool,
    recorded: Container[str],
    bindings: Bindings,
) -> None:
    """Address the steps of several tasks or threads anew, and all that is below those that change.

    A step whose input is recorded takes the place where it is; the others what is left, in the order of
    their inputs. ``recorded``: the addresses that stand in the recording.
    """
    _Settling(frames, makers, pool, recorded, bindings).visit(top, is_moved=False)


class _Settling:
    def __init__(
        self,
        frames: Iterable[ReplayFrame],
        makers: Mapping[int, object],
        pool: Pool,
        recorded: Container[str],
        bindings: Bindings,
    ) -> None:
        self._frames = {id(frame.call): frame for frame in frames}
        self._makers = makers
        self._pool = pool
        self._recorded = recorded
        self._bindings = bindings
        self._new: Counter[tuple[str, str]] = Counter()

    def visit(self, parent: Call, *, is_moved: bool) -> None:
        """Settle what is below a call; ``is_moved``: it has another address than while it ran."""
        before = {id(call): call.address for call in parent.children}
        groups: dict[str, list[ReplayFrame]] = defaultdict(list)
        for call in parent.children:
            if id(call) in self._frames:
                groups[call.name].append(self._frames[id(call)])
            elif is_moved:
                self._follow(call, parent)
        for group in groups.values():
            if is_moved or len({id(self._makers.get(id(frame.call))) for frame in group}) > 1:
                self._assign(group, parent)
        for call in parent.children:
            self.visit(call, is_moved=call.address != before[id(call)])

    def _assign(self, group: list[ReplayFrame], parent: Call) -> None:
        caller = self._frames.get(id(parent))
        spec = group[0].spec
        if caller is None or spec is None:
            return
        shelf = caller.recorded_steps(spec, self._bindings.then.blank)
        left: list[tuple[bytes, ReplayFrame]] = []
        for frame in group:
            request = Request(spec, parent.address, frame.call.input, self._bindings.now.blank)
            entry = shelf.same(request)
            if entry is None:
                left.append((request.key, frame))
                continue
            entry.slot.is_used = True
            self._place(frame, entry.slot.recorded, parent)
        if len({id(self._makers.get(id(frame.call))) for _, frame in left}) > 1:
            left.sort(key=lambda pair: (pair[0], canonical(pair[1].call.input)))
        for _, frame in left:
            slot = shelf.first_unused()
            if slot is not None:
                slot.is_used = True
            self._place(frame, slot.recorded if slot else None, parent)

    def _place(self, frame: ReplayFrame, recorded: Call | None, parent: Call) -> None:
        frame.recorded = recorded
        frame.call.address = recorded.address if recorded else self._new_address(parent, frame.call.name)

    def _follow(self, call: Call, parent: Call) -> None:
        """Let a tool's call follow its caller: from where it was answered stays as it is."""
        origin = call.moved_from or (call.address if call.address in self._recorded else None)
        if origin is not None and parent_address(origin) == parent.address:
            call.address, call.moved_from = origin, None
        else:
            call.address = self._new_address(parent, call.name)
            call.moved_from = None if call.unrecorded else origin

    def _new_address(self, parent: Call, name: str) -> str:
        place = parent.address, name
        self._new[place] += 1
        return child_address(parent.address, name, self._pool.highest(*place) + self._new[place])
