"""Who makes a call: each task and each thread has an order of its own, and none with the others."""

from __future__ import annotations

import asyncio

from stepfork._threads import current_job


def current_maker() -> object:
    """Return the task, the job of a thread pool, or the thread that runs here."""
    if loop_runs_here():
        task = asyncio.current_task()
        if task is not None:
            return task
    return current_job()


def loop_runs_here() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
