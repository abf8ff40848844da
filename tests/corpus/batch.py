"""Runs many commands of the command line in one process: a list of argument lists as JSON on standard input.

Prints one line of JSON for each: what it printed, and its exit code.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from stepfork.cli import main


def run_all(commands: list[list[str]]) -> None:
    """Run the commands one after the other."""
    for command in commands:
        printed = io.BytesIO()
        with contextlib.redirect_stdout(io.TextIOWrapper(printed, encoding="utf-8", write_through=True)):
            code = main(command)
            text = printed.getvalue().decode("utf-8")
        print(json.dumps([code, text]), flush=True)


if __name__ == "__main__":
    run_all(json.load(sys.stdin))
