"""Recordings of each released format are replayed for ever, by the fixtures that users have.

Made by ``stepfork make-test``: one from a crash of the example, then accepted with its fix; one from an agent
that has everything in it that the format can say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from examples.refund_crash.agent_fixed import handle

import kept_agent

DOCUMENT = Path(__file__).parent.parent / "docs" / "format.md"
RECORDINGS = Path(__file__).parent / "recordings"


def test_refund_crash(replay: Any, snapshot: Any) -> None:
    """(B76) A recording of format 1: the fixed agent goes on to the refund that was never recorded (B76)."""
    run = replay("refund_crash", handle)

    assert run.called("refund", times=1)
    assert run == snapshot


def test_every_kind(replay: Any, snapshot: Any) -> None:
    """(B76) Each kind of value, of call and of outcome that format 1 knows is read as it was written."""
    run = replay("every_kind", kept_agent.handle)

    assert run == snapshot


def test_the_kept_recording_has_every_tag_in_it() -> None:
    """What the document of the format names stands in it, so that no later change loses one unseen."""
    documented = set(re.findall(r"`(\$[a-z][a-z ]*)`", DOCUMENT.read_text(encoding="utf-8")))
    recorded = set(re.findall(r'"(\$[a-z][a-z ]*)"', (RECORDINGS / "every_kind.jsonl").read_text("utf-8")))

    assert documented - recorded <= {"$begins as", "$large"}  # of snapshots alone
