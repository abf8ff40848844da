"""Calls that belong to no replay any more, or to no single one: they are stopped, never executed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stepfork._calls import Call, Outcome, child_address
from stepfork._refusal import refused
from stepfork._replay.frame import ReplayFrame
from stepfork._replay.serve import Stop
from stepfork._replay.site import call_site
from stepfork.errors import AmbiguousReplay, ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepfork._calls import Plain
    from stepfork._context import AmbiguousFrame
    from stepfork._replay.session import Replay
    from stepfork._spec import Spec


def lost_call(session: Replay, spec: Spec, parent: AmbiguousFrame) -> ReplayFrame:
    """Stop a call that could belong to any of several replays; all of them fail."""
    error = AmbiguousReplay(
        f"{spec.name} was called without context, and {len(parent.sessions)} replays are open",
        detail=[("now", f"{spec.name}(...)   {call_site() or ''}".rstrip())],
        ways_on=[
            "pass the context on: contextvars.copy_context().run(...)",
            "or run the replays one by one",
        ],
    )
    for other in parent.sessions:
        other.errors.append(error)  # type: ignore[attr-defined]
    call = Call(spec.kind, spec.name, spec.name, {}, Outcome("stopped"))
    return ReplayFrame(session, spec, call, answer=Stop(ReplayStopped(str(error))))


def late_call(session: Replay, spec: Spec, parent: ReplayFrame, plain: dict[str, Plain]) -> ReplayFrame:
    """Stop a call that comes after the end of its replay, or from another process."""
    if session.process != os.getpid():
        stopped = refused(spec.name)
    else:
        stopped = ReplayStopped(f"{spec.name} was called after its replay had ended, and was not executed")
    address = child_address(parent.call.address, spec.name, 1)
    call = Call(spec.kind, spec.name, address, plain, Outcome("stopped"))
    return ReplayFrame(session, spec, call, answer=Stop(stopped))


def why_unrecorded(spec: Spec, call: Call, found: Iterable[str], made: Iterable[Call]) -> str:
    """Return why the recording cannot answer a call.

    ``found`` are the functions that became tools while the run went on, ``made`` the calls of the replay.
    """
    name = spec.options.name
    functions = [entry.rpartition("=")[0] for entry in found if entry.rpartition("=")[2] == name]
    is_first = all(each is call or each.name != spec.name for each in made)
    if not functions or not spec.is_hooked or not is_first:
        return "the recording holds no such call"
    return f"the run knew it as a tool only later; stepfork run --tool {functions[0]} does from the start"
