"""A process lent to a program: what it changes of it is put back, and what it left for its end is done."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from stepfork._as_main import MAIN
from stepfork._frames import current_frames, is_users
from stepfork.errors import ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def put_back_after(module: str) -> Iterator[None]:
    """Undo what a program changes of the interpreter that others use after it.

    ``module``, where it is loaded, is not while the block runs: run as ``__main__`` it is another one.
    """
    environ = dict(os.environ)
    loaded = {name: sys.modules[name] for name in (MAIN, module) if name in sys.modules}
    argv, path, hook, folder = sys.argv, sys.path[:], sys.excepthook, Path.cwd()
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    sys.modules.pop(module, None)
    try:
        yield
    finally:
        sys.modules.update(loaded)
        sys.argv, sys.path[:], sys.excepthook = argv, path, hook
        _put_environment_back(environ)
        with contextlib.suppress(OSError):
            os.chdir(folder)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _put_environment_back(before: Mapping[str, str]) -> None:
    for name in [each for each in os.environ if each not in before]:
        del os.environ[name]
    os.environ.update({name: text for name, text in before.items() if os.environ.get(name) != text})


@contextlib.contextmanager
def ended_as_a_process() -> Iterator[None]:
    """When the block ends, wait for the threads that it started, then call what it registered for the exit.

    A daemon thread is not waited for; of a pool of threads the work is. Where the replay stopped nothing is.
    """
    before = {each for each in threading.enumerate() if not (_is_of_pool(each) and _rests(each))}
    callbacks = _AtExit()
    with callbacks.taken():
        try:
            yield
        except ReplayStopped:
            callbacks.forget()
            raise
        finally:
            if callbacks.is_wanted:
                _wait_for_others(before)
                callbacks.call()


_AT_REST = 3
"""So many looks in a row have to find all pools of threads at rest."""

_PAUSE = 0.001
"""Seconds between two of them."""


def _wait_for_others(before: set[threading.Thread]) -> None:
    """Wait for the threads begun since, and for what pools of threads do; each may begin more."""
    rests = 0
    while rests < _AT_REST:
        begun = [each for each in threading.enumerate() if each not in before and not each.daemon]
        others = [each for each in begun if not _is_of_pool(each)]
        for thread in others:
            if thread.is_alive():  # else it is about to start
                thread.join()
        is_at_rest = not others and all(map(_rests, begun))
        rests = rests + 1 if is_at_rest else 0
        time.sleep(_PAUSE if begun else 0)


def _is_of_pool(thread: threading.Thread) -> bool:
    """Whether it waits for more work until the interpreter ends."""
    target = getattr(thread, "_target", None)
    return (getattr(target, "__module__", ""), getattr(target, "__name__", "")) == _WORKER


def _rests(thread: threading.Thread) -> bool:
    """Whether a thread of a pool has no work: nothing is called in it."""
    frame = current_frames().get(thread.ident or 0)
    return frame is None or (frame.f_globals.get("__name__"), frame.f_code.co_name) == _WORKER


_WORKER = ("concurrent.futures.thread", "_worker")


@final
class _AtExit:
    """What the user's code registers while the block runs; that of libraries goes to the interpreter."""

    def __init__(self) -> None:
        self.is_wanted = True
        self._callbacks: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._register = atexit.register
        self._unregister = atexit.unregister

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        atexit.register, atexit.unregister = self.register, self.unregister
        try:
            yield
        finally:
            atexit.register, atexit.unregister = self._register, self._unregister

    def register(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        if not is_users(sys._getframe(1).f_code.co_filename):
            return self._register(function, *args, **kwargs)
        self._callbacks.append((function, args, kwargs))
        return function

    def unregister(self, function: Callable[..., Any], /) -> None:
        self._callbacks = [each for each in self._callbacks if each[0] != function]
        self._unregister(function)

    def forget(self) -> None:
        self.is_wanted = False

    def call(self) -> None:
        while self._callbacks:
            function, args, kwargs = self._callbacks.pop()
            try:
                function(*args, **kwargs)
            except Exception:
                traceback.print_exc()
