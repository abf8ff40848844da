"""What a process is made to be like while it replays a run: as the one that was recorded began."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepfork._redact.in_use import in_use
from stepfork.adapters._keys import stand_ins
from stepfork.adapters._switch import switched_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Run


@contextmanager
def surroundings_of(run: Run, *, asks_somebody: bool = False) -> Iterator[None]:
    """Have the run's adapters, tools and variables there while the block replays it.

    What was a tool at any time of the run is one from the start: no body of it is to run.
    ``asks_somebody``: calls may run live, so what a key is made of has to be the key.
    """
    variables = () if asks_somebody else run.variables
    with (
        in_use.without_those_of_other_runs(),
        stand_ins(variables, run.adapters),
        switched_on(run.adapters, run.tools + run.found),
    ):
        yield
