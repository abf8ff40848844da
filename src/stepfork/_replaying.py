"""``replaying``: a replay in block form, beside ``run(path=...)``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, final

from stepfork import _context
from stepfork._context import _frame, leave
from stepfork._load import load_recording
from stepfork._override import Overrides
from stepfork._paths import project_root
from stepfork._record import make_redactor
from stepfork._replay import Replay
from stepfork._settings import settings
from stepfork._text import shown_call
from stepfork.errors import ReplayStopped, StepforkError, UnrecordedCall, UnusedCalls
from stepfork.tolerance import Rule


@final
class replaying:  # noqa: N801 - used as a statement: ``with stepfork.replaying("x.jsonl") as run:``
    """Answer the tools and models that are called in the block from a recording.

    Leaving the block raises UnrecordedCall where a call could not be answered, and UnusedCalls
    where a recorded one was not made, if no other exception is under way.
    """

    def __init__(
        self,
        recording: str | Path,
        *,
        override: Mapping[str, Any] | None = None,
        tolerance: Mapping[str, Rule] | None = None,
    ) -> None:
        path = Path(recording)
        chosen = settings(project_root(path.parent))
        self._overrides = Overrides(override or {}, chosen.override)
        self._session = Replay(
            load_recording(path),
            overrides=self._overrides,
            redactor=make_redactor(chosen),
            moved=chosen.moved,
            tolerance=tolerance or {},
        )
        self._opened = _context.opened(self._session)
        self._token: Any = None

    @property
    def unused(self) -> list[str]:
        """The addresses of the recorded calls that were not made so far."""
        return [call.address for call in self._session.unused]

    def __enter__(self) -> replaying:
        self._opened.__enter__()
        # The block stands where the recorded root stood.
        frame = self._session.root_frame()
        self._token = _frame.set(frame)
        os.environ[_context.REPLAYING] = "1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.environ.pop(_context.REPLAYING, None)
        leave(self._token)
        self._session.close()
        self._opened.__exit__(None, None, None)
        if error is None or isinstance(error, ReplayStopped):
            problem = self._problem()
            if problem is not None:
                raise problem from None

    async def __aenter__(self) -> replaying:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _problem(self) -> StepforkError | None:
        session = self._session
        if session.errors:
            return session.errors[0]
        if session.frontiers:
            frontier = session.frontiers[0]
            return UnrecordedCall(
                f"unrecorded call at {frontier.call.address}   {session.recording.path}",
                detail=[("now", shown_call(frontier.call)), *(("recorded", shown_call(c)) for c in frontier.nearest)],
                address=frontier.call.address,
            )
        self._overrides.check_used(call.address for call in session.recording.run.walk())
        unused = session.unused
        if unused:
            return UnusedCalls(
                f"{len(unused)} recorded call(s) were not made",
                detail=[("unused", shown_call(call)) for call in unused[:5]],
                unused=[call.address for call in unused],
            )
        return None
