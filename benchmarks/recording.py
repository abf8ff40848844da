"""The cost of a recorded call, against what it cannot be below, a naive log, and other tools."""

from __future__ import annotations

from benchmarks.paired import Measured, in_turns, table
from benchmarks.ways import dumps_and_flush, floor, installed_peers, stepfork_way

_FLOOR = "floor: 2 msgspec encodes, 2 writes"
_NAIVE = "json.dumps + write + flush"


def main() -> None:
    """Print a table: microseconds of one call, and how many times the naive log and stepfork that is."""
    ways = [(_FLOOR, floor), (_NAIVE, dumps_and_flush), ("stepfork", stepfork_way()), *installed_peers()]
    measured = in_turns(ways)
    naive, ours = measured[_NAIVE], measured["stepfork"]
    rows = [_row(each, naive, ours) for each in measured.values()]
    print(table("A recorded call, 1 KB in and 1 KB out", ["", "us", "x json.dumps", "x stepfork"], rows))
    print(f"\nstepfork / floor: {ours.ratio(measured[_FLOOR]):.1f}")


def _row(each: Measured, naive: Measured, ours: Measured) -> list[str]:
    return [each.name, f"{each.microseconds:.1f}", f"{each.ratio(naive):.2f}", f"{each.ratio(ours):.2f}"]


if __name__ == "__main__":
    main()
