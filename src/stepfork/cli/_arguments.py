"""What several commands are asked in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_run(parser: argparse.ArgumentParser) -> None:
    """Take the run that a command is about; without one it is the last that failed."""
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="an id, the beginning of one, or a file (default: the last failed run)",
    )
