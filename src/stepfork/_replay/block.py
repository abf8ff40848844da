"""``replaying``: a replay in block form, beside ``run(path=...)``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from stepfork._context import opened, running
from stepfork._paths import project_root
from stepfork._replay.explain import explain
from stepfork._replay.load import load_recording
from stepfork._replay.override import Overrides
from stepfork._replay.processes import watching_processes
from stepfork._replay.protocol import new_session
from stepfork._replay.surroundings import surroundings_of
from stepfork._settings import settings
from stepfork._text import shown_call
from stepfork.errors import ReplayStopped, StepforkError, UnusedCalls

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from stepfork._calls import Call
    from stepfork._replay.session import Replay
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
        # The block stands where the recorded root stood.
        self._session: Replay = new_session(
            load_recording(path), chosen, overrides=self._overrides, tolerance=tolerance or {}, block=True
        )
        self._stack = ExitStack()

    @property
    def unused(self) -> list[str]:
        """The addresses of the recorded calls that were not made so far."""
        return [call.address for call in self._session.unused]

    def __enter__(self) -> replaying:
        self._stack.enter_context(surroundings_of(self._session.recording.run))
        self._stack.callback(self._session.close)
        self._stack.enter_context(watching_processes(self._session))
        self._stack.enter_context(opened(self._session))
        self._stack.enter_context(running(self._session.base))
        self._session.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
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
        made = [call for root in session.calls for call in root.walk()]
        if session.frontiers:
            unknown = self._overrides.unknown([*session.recording.addresses, *_addresses(made)])
            return explain(session.recording.path, made, session.frontiers[0], unknown)
        self._overrides.check_used(_addresses(made))
        unused = session.unused
        if unused:
            return UnusedCalls(
                f"{len(unused)} recorded call{' was' if len(unused) == 1 else 's were'} not made",
                detail=[("unused", f"{shown_call(call)}   {call.address}") for call in unused[:5]],
                unused=[call.address for call in unused],
            )
        return None


def _addresses(calls: list[Call]) -> list[str]:
    return [call.address for call in calls if call.kind != "step"]
