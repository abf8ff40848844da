"""Measures several ways to do one thing in turns, and compares them pair by pair."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

REPETITIONS = 30


class Measured(NamedTuple):
    """What one way cost."""

    name: str
    seconds: list[float]
    """For one call, of each repetition."""

    @property
    def microseconds(self) -> float:
        """Of one call, in the median."""
        return statistics.median(self.seconds) * 1e6

    def ratio(self, other: Measured) -> float:
        """Return how many times the other it costs: the median of the ratios of each repetition."""
        return statistics.median(
            mine / theirs for mine, theirs in zip(self.seconds, other.seconds, strict=True)
        )


def in_turns(
    ways: Sequence[tuple[str, Callable[[], int]]], repetitions: int = REPETITIONS
) -> dict[str, Measured]:
    """Run each way once per repetition, in an order that shifts; a way returns how many calls it made."""
    measured = {name: Measured(name, []) for name, _ in ways}
    for repetition in range(repetitions + 1):
        shift = repetition % len(ways)
        for name, way in [*ways[shift:], *ways[:shift]]:
            gc.collect()
            began = time.perf_counter()
            calls = way()
            taken = (time.perf_counter() - began) / calls
            if repetition:  # the first one warms up
                measured[name].seconds.append(taken)
        if sys.stderr.isatty():
            print(f"\r{repetition}/{repetitions}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 10 + "\r", end="", file=sys.stderr)
    return measured


def program(statement: str, times: int = 3) -> Callable[[], int]:
    """Return the way that runs a statement in a new interpreter, so many times."""

    def way() -> int:
        for _ in range(times):
            subprocess.run([sys.executable, "-c", statement], check=True)
        return times

    return way


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table under its title."""
    lines = [f"\n{title}\n", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
