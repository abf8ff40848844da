"""Whether a long run costs more per call than a short one, and what it takes in memory and on disk."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepfork
from benchmarks.paired import in_turns, table
from benchmarks.payload import payload
from benchmarks.ways import answer

_SHORT, _LONG = 1_000, 10_000
_REPETITIONS = 7
_TURNS = 200

_tool = stepfork.tool(answer, name="answer")


def _recorded(calls: int) -> int:
    with tempfile.TemporaryDirectory() as folder, stepfork.run("growth", path=Path(folder) / "run.jsonl"):
        request = payload(7)
        for number in range(calls):
            request["temperature"] = number
            _tool(request)
    return calls


@stepfork.model
def ask(messages: list[dict[str, str]]) -> dict[str, str]:
    """Answer in a sentence of its own."""
    return {
        "role": "assistant",
        "content": f"{len(messages)}: " + payload(len(messages))["messages"][1]["content"],
    }


def _talk(ask: Callable[[list[dict[str, str]]], dict[str, str]]) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": payload(0)["messages"][1]["content"]}]
    for number in range(_TURNS):
        messages.append(ask(messages))
        messages.append(
            {"role": "user", "content": f"{number}: " + payload(number)["messages"][0]["content"]}
        )
    return messages


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _peak(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _space() -> list[list[str]]:
    def recorded(path: Path) -> list[dict[str, str]]:
        with stepfork.run("talk", path=path):
            return _talk(ask)

    with tempfile.TemporaryDirectory() as folder:
        raw = len(json.dumps(recorded(Path(folder) / "disk" / "run.jsonl")))
        on_disk = _bytes_in(Path(folder) / "disk")
        without = _peak(lambda: _talk(ask))
        with_run = _peak(lambda: recorded(Path(folder) / "memory" / "run.jsonl"))
    every_call_whole = sum(raw * turn // _TURNS for turn in range(1, _TURNS + 1))
    return [
        ["on disk / the messages as JSON", f"{on_disk / raw:.2f}"],
        ["every call written whole / the messages as JSON", f"{every_call_whole / raw:.0f}"],
        [
            "memory at its peak, beside what the agent takes / the messages as JSON",
            f"{(with_run - without) / raw:.1f}",
        ],
    ]


def main() -> None:
    """Print a table of ratios."""
    measured = in_turns(
        [("short", lambda: _recorded(_SHORT)), ("long", lambda: _recorded(_LONG))], _REPETITIONS
    )
    growth = measured["long"].ratio(measured["short"])
    rows = [[f"time of a call, in a run of {_LONG:,} calls / of {_SHORT:,}", f"{growth:.2f}"]]
    print(table(f"A long run; a conversation of {2 * _TURNS} messages", ["", "ratio"], [*rows, *_space()]))


if __name__ == "__main__":
    main()
