"""Records agents inside a test and reads back what stands in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepfork
from stepfork._calls import Call, Run
from stepfork._codec import decode
from stepfork._recording import read_run


class Recorded:
    """``with recorded: ...`` opens a run named ``test``; afterwards ``recorded.run`` is what was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened = stepfork.run("test", path=path)

    def __enter__(self) -> stepfork.run:
        return self._opened.__enter__()

    def __exit__(self, *exc_info: Any) -> None:
        self._opened.__exit__(*exc_info)

    async def __aenter__(self) -> stepfork.run:
        return self._opened.__enter__()

    async def __aexit__(self, *exc_info: Any) -> None:
        self._opened.__exit__(*exc_info)

    @property
    def run(self) -> Run:
        """The run as the file tells it."""
        return read_run(self.path)

    @property
    def tree(self) -> Any:
        """The calls as nested ``{label: [...]}``."""
        return [_tree(call) for call in self.run.root.children]

    def call(self, label: str) -> Call:
        """The one call with this label."""
        (found,) = (call for call in self.run.walk() if call.label == label)
        return found

    def inputs(self, name: str) -> list[dict[str, Any]]:
        """The decoded arguments of all calls of this name, in order."""
        return [
            {key: decode(value) for key, value in call.input.items()}
            for call in self.run.walk()
            if call.name == name
        ]

    def outputs(self, name: str) -> list[Any]:
        """The decoded results of all calls of this name, in order."""
        return [decode(call.outcome.value) for call in self.run.walk() if call.name == name]


def _tree(call: Call) -> Any:
    return {call.label: [_tree(child) for child in call.children]} if call.children else call.label


def record(path: Path, agent: Callable[[], Any]) -> Recorded:
    """Run an agent in a recorded run."""
    recorded = Recorded(path)
    with recorded:
        agent()
    return recorded
