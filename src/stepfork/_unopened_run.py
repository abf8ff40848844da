"""A run that its first call opens: without one, none is left behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from stepfork._context import NoCall, running
from stepfork._fork import renew_in_children

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._record import RecordedFrame
    from stepfork._spec import Spec


class UnopenedRun(NoCall):
    """Stands for the root of a run that is not open yet: a frame and its session in one."""

    is_replay = False

    def __init__(self) -> None:
        self._root: RecordedFrame | None = None
        self._is_tried = False
        self._is_over = False
        self._lock = threading.RLock()
        renew_in_children(self, "_lock")

    @property
    def is_open(self) -> bool:
        """Whether a call may still belong to it."""
        return not self._is_over

    @property
    def session(self) -> Any:
        """It is its own."""
        return self

    @property
    def base(self) -> Any:
        """It is its own."""
        return self

    @property
    def root(self) -> Any:
        """The root of the run that it opened; None where there is none."""
        root = self._root
        return root if root is not None and root.session.is_open else None

    def enter(
        self, spec: Spec, _parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> RecordedFrame | None:
        """Open the run for the first call, and enter it."""
        root = self.opened(spec)
        return None if root is None else root.session.enter(spec, root, args, kwargs)

    def opened(self, spec: Spec) -> Any:
        """Return the root of its run, which is opened where it has not been; None where it cannot be."""
        with self._lock:
            if not self._is_tried and self.is_open:
                self._is_tried = True
                with running(self):
                    self._root = self._open(spec)
        return self.root

    def _open(self, spec: Spec) -> RecordedFrame | None:
        """Open the run; ``spec`` is of the call that needs it."""
        raise NotImplementedError

    def fail(self, reason: str, _frame: Any) -> None:
        """Mark the run that it opened."""
        root = self.root
        if root is not None:
            root.session.fail(reason, root)

    def end(self, error: BaseException | None = None) -> None:
        """End the run that it opened."""
        root, self._is_over = self.root, True
        if root is None:
            return
        if error is None:
            root.returned(None, "value")
        else:
            root.raised(error, "value")

    def forget(self) -> None:
        """In a forked child: that one has a job of its own."""
        self._is_over = True

    def give_up(self, fault: Exception) -> None:
        """Stop recording."""
        root = self.root
        if root is not None:
            root.session.give_up(fault)


def recording_session(session: Any) -> Any:
    """Return the session itself, or that of the run that it has opened."""
    root = getattr(session, "root", None)
    return session if root is None else root.session
