"""Replays recordings outside pytest and compares every call with what was recorded, without the verdict.

Arguments: MODULE:CALLABLE, then ``RECORDING=RUN``, where RUN is the corpus file with the transcript or
nothing. Prints one line of JSON for each.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import stepfork
from stepfork._calls import Call, Plain, Run
from stepfork._codec import canonical
from stepfork._recording import read_run


def main(entry: str, *pairs: str) -> None:
    """Replay each recording once."""
    module, _, name = entry.partition(":")
    function = getattr(importlib.import_module(module), name)
    for pair in pairs:
        recording, _, source = pair.rpartition("=")
        print(json.dumps(_check(function, Path(recording), source)), flush=True)


def _check(function: Any, recording: Path, source: str) -> dict[str, Any]:
    recorded = read_run(recording)
    replayed = stepfork.replay(recording, function)
    then, now = _calls(recorded), _calls(replayed.run)
    return {
        "calls": len(then),
        "exact": sum(now.get(address) == call for address, call in then.items()),
        "made": len(now),
        "same_order": list(then) == list(now),
        "same_transcript": bool(source)
        and replayed.result == json.loads(Path(source).read_text("utf-8"))["traj"],
        "stopped": len(replayed.frontiers),
        "stale": len(replayed.stale),
        "unused": len(replayed.unused),
    }


def _calls(run: Run) -> dict[str, bytes]:
    return {call.address: _as_bytes(call) for call in run.walk()}


def _as_bytes(call: Call) -> bytes:
    """Return all that was handed in and came out, except what a tool changed: the next call shows that."""
    outcome = call.outcome
    return canonical([call.kind, call.input, outcome.status, _anywhere(outcome.value), outcome.items])


def _anywhere(value: Plain) -> Plain:
    """Leave out the line that an exception came from: in a replay, a served one comes from the replay."""
    if isinstance(value, dict):
        return {
            key: _anywhere(item) for key, item in value.items() if key != "at" or "$exception" not in value
        }
    return value


if __name__ == "__main__":
    main(*sys.argv[1:])
