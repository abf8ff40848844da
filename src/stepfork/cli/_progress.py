"""Shows that something long is going on: one changing line on a terminal, nothing where it is piped."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepfork.cli._terminal import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that says what is being done now."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    try:
        from rich.console import Console
    except ImportError:
        yield lambda text: print(f"  {clean(text)} ...", file=sys.stderr)
        return
    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(clean(text))
