"""Judges a replay against its snapshot: what the table says, what would be written, what to tell."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from stepfork import _snapshot
from stepfork._align import Alignment, align, keep_drifted
from stepfork._document import Node, State, document
from stepfork._judge import Judgement, judge
from stepfork._replayed import Replayed
from stepfork._verdict import Accepted, Case, Likeness, Row, decide


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


def assess(replayed: Replayed, path: Path, test_file: Path | None = None) -> Assessment:
    """Judge a replay by the snapshot at ``path``. Raises SnapshotDamaged."""
    old, renamed_from = _accepted(path, replayed.recording.name, test_file)
    new = document_of(replayed, state="accepted")
    judgement = judge(
        replayed.recording.run, replayed.run, stopped=bool(replayed.frontiers), facts=replayed.facts
    )
    alignment = align(old, new, replayed.rules) if old else None
    if old and alignment and alignment.within:
        new = {**keep_drifted(new, alignment), "state": old["state"]}
    elif alignment:
        new = keep_drifted(new, alignment)
    accepted = "nothing" if renamed_from and _is_same(old, new) else _accepted_state(old)
    case = Case(
        stopped=bool(replayed.frontiers),
        finding=judgement.finding,
        stale=bool(replayed.stale),
        accepted=accepted,
        likeness=_likeness(alignment),
        ended_badly=_ended_badly(replayed, old, alignment),
    )
    return Assessment(
        path, replayed, case, decide(case), judgement, alignment, new, _snapshot.to_text(new), renamed_from
    )


def document_of(replayed: Replayed, *, state: State) -> Node:
    """Return the document of a replay."""
    return document(
        replayed.run,
        recording=replayed.recording.name,
        state=state,
        facts=replayed.facts,
        clock=replayed.clock,
        rules=replayed.rules,
    )


def _accepted(path: Path, recording: str, test_file: Path | None) -> tuple[Node | None, Path | None]:
    if path.exists():
        return _snapshot.read(path), None
    orphan = _orphan(path, recording, test_file)
    return (_snapshot.read(orphan), orphan) if orphan else (None, None)


def _orphan(path: Path, recording: str, test_file: Path | None) -> Path | None:
    """Return the snapshot of the same recording whose test function is gone from its source."""
    if test_file is None or not path.parent.is_dir():
        return None
    known = _functions_in(test_file)
    for other in sorted(path.parent.glob("*.yaml")):
        function = other.stem.partition("[")[0].rpartition(".")[2]
        if function in known or not other.read_text("utf-8", "replace").count(f"recording: {recording}\n"):
            continue
        return other
    return None


def _functions_in(source: Path) -> set[str]:
    try:
        tree = ast.parse(source.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return set()
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _is_same(old: Node | None, new: Node) -> bool:
    return old is not None and _snapshot.to_text(old) == _snapshot.to_text(new)


def _accepted_state(old: Node | None) -> Accepted:
    if old is None:
        return "nothing"
    if old["state"] == "recorded failure":
        return "recorded failure"
    return "stopped" if "stopped" in old["outcome"] else "ended"


def _likeness(alignment: Alignment | None) -> Likeness:
    if alignment is None or not alignment.within:
        return "different"
    return "within" if alignment.moved or alignment.drifted else "equal"


def _ended_badly(replayed: Replayed, old: Node | None, alignment: Alignment | None) -> bool:
    if replayed.timed_out or not replayed.run.root.address:
        return True
    failure = replayed.run.failure
    if failure is None or replayed.frontiers:
        return False
    if failure.kind == "raised":
        injected = any(call.overridden and call.address == failure.address for call in replayed.run.walk())
        return not injected and not _raised_in(old, alignment)
    return not (old is not None and old["state"] == "accepted" and "failed" in old["outcome"])


def _raised_in(old: Node | None, alignment: Alignment | None) -> bool:
    """Whether the accepted run ended with this very exception."""
    return old is not None and old["state"] == "accepted" and alignment is not None and alignment.outcome is None
