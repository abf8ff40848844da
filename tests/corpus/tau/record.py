"""Runs the agent once for each recorded run that is named on the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import crashes, script
from .agent import solve


def main(paths: list[str]) -> None:
    """Solve each task; what a run raises ends that run only, as in a worker that takes many."""
    for path in paths:
        os.environ["TAU_RUN"] = path
        run = script.load(path)
        if run["traj"]:
            name = f"{Path(path).parent.name.removeprefix('taubench-')}_{Path(path).stem.rpartition('_')[0]}"
            solve(name, run["traj"][0]["content"])
        else:
            try:
                crashes.solve_crashing(run["task_id"])
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
