"""Replays recordings outside pytest and compares every call with what was recorded, without the verdict.

Arguments: MODULE:CALLABLE, then recordings, each with the recorded run that it was made from where
there is one (``RECORDING=RUN``). Prints one line of JSON for each.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import stepfork
from stepfork._calls import Call, Run
from stepfork._codec import canonical
from stepfork._recording import read_run


def main(entry: str, *pairs: str) -> None:
    """Replay each recording once."""
    module, _, name = entry.partition(":")
    function = getattr(importlib.import_module(module), name)
    for pair in pairs:
        recording, _, source = pair.partition("=")
        print(json.dumps(_check(function, recording, source)), flush=True)


def _check(function: Any, recording: str, source: str) -> dict[str, Any]:
    from pathlib import Path

    recorded = read_run(Path(recording))
    replayed = stepfork.replay(recording, function)
    then, now = _calls(recorded), _calls(replayed.run)
    transcript = json.loads(Path(source).read_text("utf-8"))["traj"] if source else replayed.result
    return {
        "recording": recording,
        "calls": len(then),
        "exact": sum(now.get(address) == call for address, call in then.items()),
        "made": len(now),
        "same_order": list(then) == list(now),
        "same_transcript": replayed.result == transcript,
        "stopped": len(replayed.frontiers),
        "stale": len(replayed.stale),
        "unused": len(replayed.unused),
    }


def _calls(run: Run) -> dict[str, bytes]:
    return {call.address: _as_bytes(call) for call in run.walk()}


def _as_bytes(call: Call) -> bytes:
    """Return all that was handed in and came out, except what a tool changed: the next call shows that."""
    outcome = call.outcome
    return canonical([call.kind, call.input, outcome.status, outcome.value, outcome.items])


if __name__ == "__main__":
    main(*sys.argv[1:])
