"""Recordings of each released format are replayed for ever, by the fixtures that users have.

Made by ``stepfork make-test`` from a crash of the example, then accepted with its fix.
"""

from __future__ import annotations

from typing import Any

from examples.refund_crash.agent_fixed import handle


def test_refund_crash(replay: Any, snapshot: Any) -> None:
    """A recording of format 1: the fixed agent goes on to the refund that was never recorded."""
    run = replay("refund_crash", handle)

    assert run.called("refund", times=1)
    assert run == snapshot
