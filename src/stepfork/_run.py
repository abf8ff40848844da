"""``run``: a run opened by hand. ``fail``: this run did not raise, and is a failed one all the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, final

from stepfork._context import Frame, _frame, current_frame, leave
from stepfork._spec import GivenSpec, Options, address_part
from stepfork._warn import warn_once


@final
class run:  # noqa: N801 - used as a statement: ``with stepfork.run("refund"):``
    """Open a run by hand, in ``with`` or ``async with``; inside another run it is a step of that one.

    The keyword arguments are recorded as the input of the root. With ``path=`` the run is recorded
    there even where recording is off. ``run.fail(reason)`` marks it as failed.
    """

    def __init__(self, name: str, /, *, path: str | Path | None = None, **inputs: Any) -> None:
        self._spec = GivenSpec("step", _by_hand, Options(name=name), address_part(name))
        self._path = Path(path) if path is not None else None
        self._inputs = inputs
        self._frame: Frame | None = None
        self._token: Any = None

    def __enter__(self) -> run:
        self._frame = self._open()
        if self._frame is not None:
            self._token = _frame.set(self._frame)
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if self._frame is None:
            return
        leave(self._token)
        if error is None:
            self._frame.returned(None, "value")
        else:
            self._frame.raised(error, "value")

    async def __aenter__(self) -> run:
        return self.__enter__()

    async def __aexit__(self, *exc_info: Any) -> None:
        self.__exit__(*exc_info)

    def fail(self, reason: str) -> None:
        """Mark this run as failed."""
        if self._frame is not None:
            self._frame.session.fail(reason, self._frame)

    def _open(self) -> Frame | None:
        parent = current_frame(may_open_run=True)
        if parent is not None:
            return parent.session.enter(self._spec, parent, (), self._inputs)
        try:
            from stepfork._open_run import open_run
        except Exception as fault:  # without a free descriptor nothing can be loaded
            warn_once(f"stepfork cannot record here: {type(fault).__name__}: {fault}")
            return None
        caller = sys._getframe(2).f_code.co_filename
        return open_run(self._spec, lambda: self._inputs, file=lambda: caller, path=self._path)


def _by_hand() -> None:
    """Stands there for the code of the block."""


def fail(reason: str) -> None:
    """Mark the run that is going on here as failed, though it does not raise.

    Without a run it does nothing: an agent whose recording is off must not notice.
    """
    frame = current_frame()
    if frame is not None:
        frame.session.fail(reason, frame)
