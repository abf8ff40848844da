"""Which call is under way here, and in which session: the one seam between agent code and the modes.

A *session* is a run that is being recorded, or a replay. A *frame* is one call under way in it. The
decorators know these two protocols and nothing of what stands behind them.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from stepfork._fork import in_children
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepfork._calls import Shape, Usage
    from stepfork._spec import Spec


class Turn(Protocol):
    """The place of an outcome among those of the calls that it overlapped in the recording."""

    def take(self) -> None:
        """Block this thread until the next chunk, or what ends them, may come."""

    async def taken(self) -> None:
        """Wait for it in an event loop."""


class Answer(Protocol):
    """An outcome that is served instead of executing the call."""

    @property
    def shape(self) -> Shape:
        """How the outcome reaches the caller."""

    @property
    def patience(self) -> float | None:
        """Seconds in which the caller is expected to cancel the call."""

    @property
    def turn(self) -> Turn | None:
        """What is taken before each chunk and before the value; None: it comes at once."""

    def value(self) -> Any:
        """Return what the call returned, or raise what it raised."""

    def items(self) -> Iterator[Any]:
        """Return the chunks of a stream; ``value`` then ends it."""

    @property
    def seen(self) -> Callable[[BaseException], None]:
        """Notes that an exception, made of what was served by somebody else, comes from this call."""

    @property
    def parts(self) -> Mapping[str, Sequence[Answer]]:
        """What the attributes and methods of a stream that is an object gave, by name and in order."""

    @property
    def stop(self) -> Callable[[str], BaseException]:
        """Makes, of a reason, what is raised where it has no answer."""


class Frame(Protocol):
    """One call under way."""

    @property
    def session(self) -> Session:
        """The run or replay that it belongs to."""

    @property
    def answer(self) -> Answer | None:
        """What is served instead of executing it."""

    @property
    def is_ended(self) -> bool:
        """Whether its outcome is known."""

    def streaming(self, shape: Shape) -> None:
        """From now on its chunks come, in this shape."""

    def item(self, value: object) -> None:
        """One chunk is about to reach the caller."""

    def used(self, usage: Usage) -> None:
        """So many tokens were used, told before the call's end; what is told several times adds up."""

    def returned(self, value: object, shape: Shape) -> None:
        """The call returned, or its stream ended."""

    def raised(self, error: BaseException, shape: Shape) -> None:
        """The call, or its stream, raised."""

    def closed_early(self, shape: Shape) -> None:
        """The consumer left the stream before its end."""


class NoCall:
    """Stands in the place of a frame where no call is under way: there is nothing to note."""

    answer: Answer | None = None
    is_ended = False

    def streaming(self, shape: Shape) -> None:
        """No chunks come."""

    def item(self, value: object) -> None:
        """No chunks come."""

    def used(self, usage: Usage) -> None:
        """No model is asked."""

    def returned(self, value: object, shape: Shape) -> None:
        """Nothing ends."""

    def raised(self, error: BaseException, shape: Shape) -> None:
        """Nothing ends."""

    def closed_early(self, shape: Shape) -> None:
        """Nothing ends."""


class Session(Protocol):
    """A run being recorded, or a replay."""

    @property
    def is_open(self) -> bool:
        """Whether calls may still belong to it."""

    @property
    def base(self) -> Frame:
        """Where calls without a context of their own belong."""

    @property
    def is_replay(self) -> bool:
        """Whether no tool may run here."""

    def enter(
        self, spec: Spec, parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Frame | None:
        """A call begins; None: execute it as if it were not decorated."""

    def fail(self, reason: str, frame: Any) -> None:
        """The code says that this run is a failed one."""

    def give_up(self, fault: Exception) -> None:
        """Something went wrong in stepfork itself."""

    def forget(self) -> None:
        """In a child that was forked: leave everything to the parent."""


_frame: ContextVar[Frame | None] = ContextVar("stepfork_frame", default=None)
_lock = threading.RLock()  # a signal handler may open a run of its own in the middle
_open: list[Session] = []

REPLAYING = "STEPFORK_REPLAYING"
"""Set in the environment while a replay goes on, for the processes that the agent starts."""

PARENT = "STEPFORK_PARENT"
"""Set in the environment of a program that is started inside a recorded run: the id of that run."""

child_of_replay = REPLAYING in os.environ
"""Whether this process was started by an agent that is being replayed: it must run no tool."""


busy: list[object] = ["child of a replay"] if child_of_replay else []
"""Empty as long as every tool is a plain call: no session is open, and no replay ever was, whose frames
might be left somewhere. One look, since almost all calls are of this kind where nothing is recorded."""


adapters_on: set[str] = set()
"""The names of the adapters that are switched on in this process."""

tools_on: set[str] = set()
"""``module:function=tool`` of the functions that were made tools of in this process where they stood."""


def replay_is_open() -> bool:
    """Whether a replay goes on in this process."""
    return any(session.is_replay for session in _open)


def current_frame(*, may_open_run: bool = False) -> Frame | None:
    """Return the innermost call under way here; without a context, the base of the only open session.

    ``may_open_run``: the caller is a step, and so without a context the root of a run of its own;
    only in a replay it belongs to what is open, since there it must not reach the world.
    """
    frame = _frame.get()
    if frame is not None and frame.session.is_open:
        return _root_of_job(frame) if may_open_run and _is_job(frame.session) else frame
    sessions = list(_open)
    if len(sessions) > 1 or may_open_run:  # what this process does for another comes after all else
        jobs = [session for session in sessions if _is_job(session)]
        sessions = [session for session in sessions if session not in jobs]
        if jobs and not sessions:
            return _root_of_job(jobs[0].base) if may_open_run else jobs[0].base
    replays = [session for session in sessions if session.is_replay]
    # What is over is no context: a thread that it left behind may serve the next run, or the next replay;
    # what a replay left behind must not reach the world.
    if frame is not None and frame.session.is_replay and not (len(sessions) == len(replays) == 1):
        return frame
    if not sessions:
        return None
    if may_open_run and not replays:
        return None
    if len(sessions) == 1:
        return sessions[0].base
    if replays:
        # Running the tool would be worse than any wrong guess: the replay turns it into a stop.
        return AmbiguousFrame(replays)  # type: ignore[return-value]
    warn_once(
        f"stepfork: a call in a thread has no context and {len(sessions)} runs are open: it is not recorded. "
        "Pass the context on: contextvars.copy_context().run(...)"
    )
    return None


def _is_job(session: Session) -> bool:
    return hasattr(session, "parent_run")


def _root_of_job(job: Any) -> Frame | None:
    return job.root  # type: ignore[no-any-return]


def parent_run() -> str | None:
    """Return the id of the run, in another process, that what runs here belongs to."""
    frame = _frame.get()
    sessions = [*([] if frame is None else [frame.session]), *_open]
    return next(filter(None, (getattr(session, "parent_run", None) for session in sessions)), None)


class AmbiguousFrame:
    """Stands for the frame of a call that could belong to any of several replays."""

    def __init__(self, sessions: list[Session]) -> None:
        self.sessions = sessions
        self.session = sessions[0]


@contextmanager
def opened(session: Session) -> Iterator[None]:
    """Make ``session`` known to calls without a context while the block runs."""
    make_known(session)
    try:
        yield
    finally:
        make_unknown(session)


def make_known(session: Session) -> None:
    """From now on calls without a context may belong to ``session``."""
    from stepfork._processes import name_the_parent_in_processes
    from stepfork._threads import carry_frames_into_threads

    carry_frames_into_threads()
    name_the_parent_in_processes()
    with _lock:
        busy.append(session)
        _open.append(session)


def make_unknown(session: Session) -> None:
    """No call belongs to ``session`` any more; harmless where it was never known."""
    with _lock, suppress(ValueError):  # a child that was forked meanwhile has left it already
        _open.remove(session)
        if not session.is_replay:
            busy.remove(session)


class running:  # noqa: N801 - reads as the statement it is
    """Make ``frame`` the innermost call while the block runs. Never hold it across a ``yield``."""

    __slots__ = ("_frame", "_token")

    def __init__(self, frame: Frame | None) -> None:
        self._frame = frame

    def __enter__(self) -> None:
        if self._frame is not None:
            self._token = _frame.set(self._frame)

    def __exit__(self, *exc_info: object) -> None:
        if self._frame is not None:
            leave(self._token)


def leave(token: Any) -> None:
    """Undo ``_frame.set``; harmless where a dropped coroutine is closed in a foreign context."""
    try:  # noqa: SIM105 - twice in every call, and suppress() costs three times as much
        _frame.reset(token)
    except ValueError:
        pass


def _leave_parent() -> None:
    """A forked child must not write into its parent's journal, nor take answers that its parent misses."""
    frame = _frame.get()
    recorded = None if frame is None or not frame.session.is_open else getattr(frame.session, "id", None)
    for session in list(_open):
        session.forget()
        if not session.is_replay:  # a replay that is over refuses whatever is still called
            _open.remove(session)
            busy.remove(session)
    if recorded is not None:
        _belong_to(recorded)


def _belong_to(run_id: str) -> None:
    from stepfork._processes import belong_to

    belong_to(run_id)


in_children(_leave_parent)
if PARENT in os.environ and not child_of_replay:
    _belong_to(os.environ[PARENT])
