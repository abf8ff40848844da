"""Where the time of a recorded call goes, as a profiler sees it."""

from __future__ import annotations

import cProfile
import pstats

from benchmarks.paired import table
from benchmarks.ways import stepfork_way

_RUNS = 20
_STAGES = {
    "types: that JSON keeps every one": ("encode", "_codec/__init__.py"),
    "secrets: the look for them": ("scan", "_redact/__init__.py"),
    "changes in place: before": ("watch", "_mutation/watch.py"),
    "changes in place: after": ("changes_of", "_mutation/watch.py"),
    "JSON of the two lines": ("encode_line", "_events.py"),
    "two writes to disk": ("write", "_journal.py"),
    "arguments by name": ("bind", "_spec.py"),
}


def _profiled() -> pstats.Stats:
    record = stepfork_way()
    record()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(_RUNS):
        record()
    profiler.disable()
    return pstats.Stats(profiler)


def main() -> None:
    """Print a table of shares; a profiler weighs small functions too heavily, so they are rough."""
    stats = _profiled()
    timings: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = stats.stats  # type: ignore[attr-defined]
    whole = sum(own for _, _, own, _, _ in timings.values())
    shares = {
        stage: sum(
            cumulative / whole
            for (path, _, name), (_, _, _, cumulative, _) in timings.items()
            if name == function and path.endswith(f"stepfork/{file}")
        )
        for stage, (function, file) in _STAGES.items()
    }
    shares["the rest: the wrapper, the tree of calls, opening and closing the run"] = 1 - sum(shares.values())
    rows = [[stage, f"{share:.0%}"] for stage, share in shares.items()]
    print(table("Where the time of a recorded call goes", ["", "share"], rows))


if __name__ == "__main__":
    main()
