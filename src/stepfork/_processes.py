"""Work that a run gives to another process: what is called there is a run of its own that names its parent.

Who starts the process says so: in the environment of a subprocess, in the function that a pool of processes
is handed, in the process object itself. Nothing global is set, for many runs may be open at once.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wrapt

from stepfork import _context
from stepfork._context import Frame, _frame, running
from stepfork._unopened_run import UnopenedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepfork._record import RecordedFrame
    from stepfork._spec import Spec


class Job(UnopenedRun):
    """What runs here for a run in another process.

    A step that is called in it opens a run, as ever. For a tool outside of any step it opens one itself.
    """

    def __init__(self, parent_run: str, name: str) -> None:
        super().__init__()
        self.parent_run = parent_run
        self.name = name

    @property
    def id(self) -> str:
        """The run that other processes, started from here, belong to."""
        root = self.root
        return self.parent_run if root is None else str(root.session.id)

    def _open(self, spec: Spec) -> RecordedFrame | None:
        from stepfork._home import file_of
        from stepfork._open_run import open_run
        from stepfork._spec import undecorated

        root = undecorated("step", self.name, spec.function)
        return open_run(root, dict, file=lambda: file_of(spec.function))


def run_job(parent_run: str, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run, in another process, what belongs to a run in this one."""
    job = Job(parent_run, name)
    _context.busy.append(job)
    try:
        with running(job):
            result = function(*args, **kwargs)
    except BaseException as error:
        job.end(error)
        raise
    finally:
        _context.busy.remove(job)
    job.end()
    return result


def belong_to(parent_run: str) -> None:
    """Let this whole process, which just began, belong to a run in another one."""
    script = Path(sys.argv[0] if sys.argv else "").stem
    job = Job(parent_run, "python" if script in ("", "-", "-c", "-m") else script)
    _context._open.append(job)
    _context.busy.append(job)
    atexit.register(job.end)


@functools.cache
def name_the_parent_in_processes() -> None:
    """Wrap the places where processes get their work; done once, when the first run opens."""
    wrapt.register_post_import_hook(_wrap_process, "multiprocessing.process")
    wrapt.register_post_import_hook(_wrap_pool, "multiprocessing.pool")
    wrapt.register_post_import_hook(_wrap_executor, "concurrent.futures.process")
    wrapt.register_post_import_hook(_wrap_subprocess, "subprocess")


def _wrap_process(module: Any) -> None:
    wrapt.wrap_function_wrapper(module, "BaseProcess.start", _start)


def _wrap_executor(module: Any) -> None:
    wrapt.wrap_function_wrapper(module, "ProcessPoolExecutor.submit", _submit)


def _wrap_pool(module: Any) -> None:
    for name in ("_map_async", "apply_async", "imap", "imap_unordered"):
        wrapt.wrap_function_wrapper(module, f"Pool.{name}", _submit)


def _wrap_subprocess(module: Any) -> None:
    wrapt.wrap_function_wrapper(module, "Popen.__init__", _start_program)


def _recorded_run() -> str | None:
    """Return the id of the run that is being recorded here."""
    frame = _frame.get()
    if frame is None or not frame.session.is_open:
        sessions = [session for session in list(_context._open) if session.is_open]
        frame = sessions[0].base if len(sessions) == 1 else None
    if frame is None or frame.session.is_replay:
        return None
    run_id = getattr(frame.session, "id", None)
    return run_id if isinstance(run_id, str) else None


_WORKERS = ("multiprocessing.pool", "concurrent.futures.process")


def _start(
    wrapped: Callable[..., Any], process: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    target = getattr(process, "_target", None)
    run_id = _recorded_run()
    if run_id is None:
        return wrapped(*args, **kwargs)
    if getattr(target, "__module__", None) in _WORKERS:
        # A worker outlives this call, and serves others.
        token = _frame.set(None)
        try:
            return wrapped(*args, **kwargs)
        finally:
            _frame.reset(token)
    run = process.run
    with starts_with(process, functools.partial(run_job, run_id, _name_of(target or run), run)):
        return wrapped(*args, **kwargs)


@contextmanager
def starts_with(process: Any, run: Callable[[], Any]) -> Iterator[None]:
    """Let a process of multiprocessing that is started in the block do this, and be as it was after it."""
    own = vars(process).get("run")
    process.run = run
    try:
        yield
    finally:
        del process.run
        if own is not None:
            process.run = own


def _submit(wrapped: Callable[..., Any], pool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    run_id = _recorded_run()
    if run_id is None or not args:
        return wrapped(*args, **kwargs)
    function, *rest = args
    if type(pool).__name__ == "ThreadPool":
        function = functools.partial(_in_frame, _frame.get(), function)
    else:
        function = functools.partial(run_job, run_id, _name_of(function), function)
    return wrapped(function, *rest, **kwargs)


def _in_frame(frame: Frame | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with running(frame):
        return function(*args, **kwargs)


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.args[0] if function.args and callable(function.args[0]) else function.func
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).rpartition("<locals>.")[2]


def _start_program(
    wrapped: Callable[..., Any], _popen: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    run_id = _recorded_run()
    if run_id is None or len(args) > _BEFORE_ENV:
        return wrapped(*args, **kwargs)
    env = kwargs.get("env")
    if env is None:
        env = os.environ
    elif not isinstance(env, (dict, type(os.environ))):
        return wrapped(*args, **kwargs)
    return wrapped(*args, **{**kwargs, "env": {**env, _context.PARENT: run_id}})


_BEFORE_ENV = 10
"""The positional arguments of Popen before that one."""
