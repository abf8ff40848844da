"""What has to be over before a replay is: objects that call a tool when they go, and forked children."""

from __future__ import annotations

import gc
import os
import traceback

from stepfork._replay.stop import chain

_YOUNG = 1
"""Generations to collect: what this replay made. All that pytest holds would take a tenth of a second."""


def let_go(error: BaseException | None) -> None:
    """Let go of what the agent left behind, while its replay still refuses to run a tool.

    A ``__del__`` or a ``finally`` that calls one would otherwise run it in earnest afterwards: the locals
    of an agent that raised live on in the traceback, and what is in a cycle until it is collected.
    """
    for link in chain(error):
        traceback.clear_frames(link.__traceback__)
    gc.collect(_YOUNG)


def end_child(parent: int, error: BaseException | None) -> None:
    """End this process here if it was forked from ``parent`` by the agent.

    It must not come out of the replay as a second pytest.
    """
    if os.getpid() == parent:
        return
    code = error.code if isinstance(error, SystemExit) else int(error is not None)
    os._exit(code if isinstance(code, int) else int(code is not None))
