"""The frames of the user's code from which a request to a model is made."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

from stepfork._frames import current_frames, is_stand_in, is_users
from stepfork.adapters._plain_tools_members import is_users_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

_DEEPEST = 500
"""How far up a stack is looked."""
_MOST_OTHERS = 200
"""How many frames of other tasks and threads are looked at."""


def users_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the user's among this frame and its callers, the nearest first."""
    return [each for each in islice(_callers(frame), _DEEPEST) if _is_users(each)]


def other_frames(own: Sequence[FrameType]) -> list[FrameType]:
    """Return those of the user's frames that wait in other tasks of this loop, or in other threads.

    A request made by ``gather`` or in a worker thread has only its own end of the stack.
    """
    known = set(map(id, own))
    others = [each for each in islice(_others(), _MOST_OTHERS) if _is_users(each) and id(each) not in known]
    return list({id(each): each for each in others}.values())


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_users(frame: FrameType) -> bool:
    code = frame.f_code
    return (is_users(code.co_filename) or is_users_namespace(frame.f_globals)) and not is_stand_in(code)


def _others() -> Iterator[FrameType]:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs here
        tasks = set()
    for task in tasks:
        yield from _awaiting(task.get_coro())
    for frame in list(current_frames().values()):
        yield from islice(_callers(frame), _DEEPEST)


def _awaiting(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of those that it awaits."""
    while coroutine is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                yield frame
                coroutine = getattr(coroutine, f"{kind}_await" if kind != "gi" else "gi_yieldfrom", None)
                break
        else:
            return
