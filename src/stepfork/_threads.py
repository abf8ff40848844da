"""Carries the call that is under way into the threads that it starts.

Python copies a context into tasks and ``to_thread``, but not into threads and thread pools: there a
server's next request could not be told from a tool of the run that is open. Only our own variable is
carried; the agent's context variables stay as they are.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import wrapt

from stepfork._context import _frame, running
from stepfork.errors import ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from stepfork._context import Frame


class _Work(threading.local):
    """What a thread of a pool works at: each job is one of its own, whatever thread takes it."""

    job: object = None


_work = _Work()


_WORKERS = {
    ("multiprocessing.pool", "worker"): "task",
    ("anyio._backends._asyncio", "run"): "future",
}
"""Of other pools the function that their threads run, and its variable that is another for each job."""


def current_job() -> object:
    """Return the job of a thread pool that runs here, else the thread."""
    thread = threading.current_thread()
    if _work.job is None and thread is not threading.main_thread():
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = _WORKERS.get((frame.f_globals.get("__name__", ""), frame.f_code.co_name))
            if name is not None:
                return frame.f_locals.get(name) or thread
            frame = frame.f_back
    return _work.job or thread


@functools.cache
def carry_frames_into_threads() -> None:
    """Wrap the two places where threads get their work; done once, when the first run opens."""
    wrapt.wrap_function_wrapper("threading", "Thread.start", _start)
    wrapt.register_post_import_hook(_wrap_pool, "concurrent.futures.thread")


def _wrap_pool(module: Any) -> None:
    wrapt.wrap_function_wrapper(module, "ThreadPoolExecutor.submit", _submit)


def _start(wrapped: Callable[..., Any], thread: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    frame = _frame.get()
    if frame is not None and frame.session.is_replay:
        thread.run = functools.partial(_run_thread, frame, thread.run)
    elif frame is not None and not _has_a_context(thread):
        context = contextvars.Context()  # as empty as the one that a thread has
        context.run(_frame.set, frame)
        thread.run = functools.partial(context.run, thread.run)  # which no traceback shows
    return wrapped(*args, **kwargs)


def _has_a_context(thread: Any) -> bool:
    """Whether it was given one, or takes over that of its maker, as from Python 3.14 on it may."""
    if sys.version_info < (3, 14):
        return False
    return thread._context is not None or bool(sys.flags.thread_inherit_context)


def _run_thread(frame: Frame, run: Callable[[], None]) -> None:
    with running(frame), suppress(ReplayStopped):  # the replay has noted it; nobody else is to be told
        run()


def _submit(wrapped: Callable[..., Any], pool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    frame = _frame.get()
    if frame is None or not args:
        return wrapped(*args, **kwargs)
    function, *rest = args
    # A worker that is started here outlives this call, and serves others.
    token = _frame.set(None)
    try:
        return wrapped(functools.partial(_in_frame, frame, function), *rest, **kwargs)
    finally:
        _frame.reset(token)


def _in_frame(frame: Frame, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    outer, _work.job = _work.job, object()
    try:
        with running(frame):
            return function(*args, **kwargs)
    finally:
        _work.job = outer
