"""Notices tools that ran where stepfork does not look: their work would be done again in a replay."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork._context import current_frame
from stepfork._spec import address_part
from stepfork._unopened_run import recording_session
from stepfork.adapters._plain_tools_declared import last_turn

if TYPE_CHECKING:
    from collections.abc import Collection, Container


class _Before(NamedTuple):
    """What was so at the last request of a run."""

    answered: frozenset[str]
    """The ids of the tool calls whose results some request has carried."""
    called: Counter[str]
    """How often each tool had been called."""


_before: weakref.WeakKeyDictionary[Any, _Before] = weakref.WeakKeyDictionary()


def note_unseen(body: object, declared: Collection[str], covered: Container[str]) -> None:
    """Note in the run which tools the model is given results of, with no call to show; a replay ends by it.

    Not those whose functions are known (they may have been refused, or given arguments that do not fit), nor
    what a function of another name may have done. The results in the first request of a run are older.
    """
    session: Any = getattr(current_frame(), "session", None)
    if session is None:
        return
    turn = last_turn(body)
    before = _before.get(session)
    recorder = recording_session(session)
    called = _called(recorder)
    if before is None:
        _before[session] = _Before(frozenset(turn.answered), called)
        return
    _before[session] = _Before(before.answered | turn.answered, called)
    asked = [turn.asked[id] for id in turn.answered - before.answered if id in turn.asked]
    missing = [
        name for name in asked if name in declared and name not in covered and not _is_among(name, called)
    ]
    others = called - before.called
    if len(missing) > sum(
        others[name] for name in others if not any(_is_among(each, [name]) for each in declared)
    ):
        for name in sorted(set(missing)):
            recorder.unseen(name)


def _called(session: Any) -> Counter[str]:
    """Return how often each tool was called, and not merely asked for."""
    if not session.is_replay:
        return Counter(getattr(session, "called", {}))
    made = (call for outermost in getattr(session, "calls", ()) for call in outermost.walk())
    return Counter(call.name for call in made if call.kind == "tool")


def _is_among(name: str, called: Collection[str]) -> bool:
    """Whether there is a call of this name: of a function, of a method, or of a server's tool."""
    name = address_part(name)
    return name in called or any(
        each.endswith(f".{name}") or name.endswith((f"_{each}", f".{each}")) for each in called
    )
