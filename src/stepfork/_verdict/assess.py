"""Judges a replay against its snapshot: what the table says, what would be written, what to tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepfork._verdict import snapshot as _snapshot
from stepfork._verdict.align import Alignment, align, keep_drifted
from stepfork._verdict.document import Node, document
from stepfork._verdict.judge import Judgement, judge
from stepfork._verdict.orphan import find_orphan
from stepfork._verdict.table import Accepted, Case, Likeness, Row, decide
from stepfork.tolerance import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepfork._replay.result import Replayed


@dataclass(frozen=True)
class Assessment:
    """One comparison of a replay with its snapshot."""

    path: Path
    """Where the snapshot is, or would be."""
    replayed: Replayed
    case: Case
    row: Row
    judgement: Judgement
    alignment: Alignment | None
    new: Node
    text: str
    """What an update would write."""
    renamed_from: Path | None = None
    """The snapshot of a test that is gone, which this one takes over."""

    @property
    def guards_part(self) -> bool:
        """Whether green covers only the run up to a frontier."""
        return self.case.stopped

    @property
    def on_stale(self) -> bool:
        """Whether green rests on replies to other prompts."""
        return self.case.stale


def assess(replayed: Replayed, path: Path, test: str) -> Assessment:
    """Judge a replay by the snapshot at ``path``; ``test`` names the test in it. Raises SnapshotDamaged."""
    new = made = document_of(replayed, test=test)
    text = _snapshot.to_text(made)
    renamed_from = None if path.exists() else find_orphan(path, replayed.recording.name, test)
    old = _accepted(renamed_from or path, made, text)
    cut_short = bool(replayed.frontiers) or replayed.timed_out
    judgement = judge(
        replayed.recording.run,
        replayed.run,
        stopped=cut_short,
        facts=replayed.facts,
        rules=replayed.rules,
        under_way=replayed.under_way,
        unmade=replayed.unused_calls,
    )
    alignment = _aligned(old, new, replayed)
    if old and alignment:
        new = keep_drifted(new, alignment)
        if alignment.within and new["state"] != old["state"]:
            new = {**new, "state": old["state"]}
    likeness = _likeness(alignment)
    if replayed.frontiers and "stopped" not in new["outcome"]:
        likeness = "different"
    case = Case(
        stopped=bool(replayed.frontiers),
        finding=judgement.finding,
        stale=bool(replayed.stale),
        accepted=_accepted_state(old)
        if old and not (renamed_from and likeness != "different")
        else "nothing",
        likeness=likeness,
        ended_badly=_ended_badly(replayed, old, alignment),
    )
    if new is not made:
        text = _snapshot.to_text(new)
    return Assessment(path, replayed, case, decide(case), judgement, alignment, new, text, renamed_from)


def document_of(replayed: Replayed, *, test: str) -> Node:
    """Return the document of a replay."""
    made = document(
        replayed.run,
        recording=replayed.recording.name,
        state="accepted",
        facts=replayed.facts,
        clock=replayed.clock,
        rules=replayed.rules,
    )
    return {"recording": made.pop("recording"), "test": test, **made}


def unused_rules(replayed: Replayed) -> Iterator[str]:
    """Yield the keys of tolerances that no value of the run has: misspelt, most likely.

    A call that did not return has no output to look in, so nothing is said of it.
    """
    if replayed.frontiers or replayed.timed_out:
        return
    (_, own), *decorators = replayed.given_rules or [("", Rules({}))]
    endings: dict[str, set[str]] = {}
    for call in replayed.run.walk():
        endings.setdefault(call.name, set()).add(call.outcome.status)
    if {"returned"} == set().union(*endings.values()):
        yield from (f"tolerance {key!r} matched nothing in this run" for key in own.unused())
    for name, rules in decorators:
        if endings.get(name) == {"returned"}:
            unused = [key for key in rules.unused() if key not in own.patterns]
            yield from (f"tolerance {key!r} matched nothing in {name}" for key in unused)


def _accepted(path: Path, new: Node, text: str) -> Node | None:
    """Return what the snapshot holds: reading YAML is slow, and mostly no byte of it has changed."""
    if not path.exists():
        return None
    accepted = _snapshot.read_text(path)
    if accepted == text:
        return new
    # Nothing but the state is another while a bug is there that nobody has mended yet.
    old: Node = {**new, "state": "recorded failure"}
    if accepted == text.replace(_STATE.format(new["state"]), _STATE.format(old["state"]), 1):
        return old
    return _snapshot.from_text(accepted, path)


_STATE = "\nstate: {}\n"


def _aligned(old: Node | None, new: Node, replayed: Replayed) -> Alignment | None:
    if old is None:
        return None
    return Alignment() if old is new else align(old, new, replayed.rules)


def _accepted_state(old: Node) -> Accepted:
    if old["state"] == "recorded failure":
        return "recorded failure"
    return "stopped" if "stopped" in old["outcome"] else "ended"


def _likeness(alignment: Alignment | None) -> Likeness:
    if alignment is None or not alignment.within:
        return "different"
    return "within" if alignment.moved or alignment.drifted else "equal"


def _ended_badly(replayed: Replayed, old: Node | None, alignment: Alignment | None) -> bool:
    if replayed.timed_out or is_without_calls(replayed):
        return True
    failure = replayed.run.failure
    if failure is None or replayed.frontiers:
        return False
    if failure.kind == "raised":
        injected = any(call.overridden and call.address == failure.address for call in replayed.run.walk())
        return not injected and not _raised_in(old, alignment)
    return not (old is not None and old["state"] == "accepted" and "failed" in old["outcome"])


def is_without_calls(replayed: Replayed) -> bool:
    """Whether the function made no decorated call at all: the replay's own stand-in has no place in time."""
    return replayed.run.root.span == (0, 0)


def _raised_in(old: Node | None, alignment: Alignment | None) -> bool:
    """Whether the accepted run ended with this very exception."""
    return (
        old is not None and old["state"] == "accepted" and alignment is not None and alignment.outcome is None
    )
