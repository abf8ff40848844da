"""stepfork turns a failed run of an AI agent into an ordinary pytest test.

Decorate the agent's logic with :func:`step`, what crosses into the outside world with :func:`tool`
and :func:`model`. A run that fails is kept; ``stepfork make-test`` makes a test of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepfork._version import __version__

if TYPE_CHECKING:
    from stepfork._archive import export
    from stepfork._codec import register_type
    from stepfork._decorators import model, step, tool
    from stepfork._program import program
    from stepfork._replay.block import replaying
    from stepfork._replay.conduct import areplay, replay
    from stepfork._run import fail, run
    from stepfork._settings import configure
    from stepfork.adapters._switch import instrument
    from stepfork.errors import StepforkError, StillFailing

__all__ = [
    "StepforkError",
    "StillFailing",
    "__version__",
    "areplay",
    "configure",
    "export",
    "fail",
    "instrument",
    "model",
    "program",
    "register_type",
    "replay",
    "replaying",
    "run",
    "step",
    "tool",
]

_HOME = {
    "StepforkError": "errors",
    "StillFailing": "errors",
    "configure": "_settings",
    "export": "_archive",
    "fail": "_run",
    "instrument": "adapters._switch",
    "model": "_decorators",
    "program": "_program",
    "register_type": "_codec",
    "areplay": "_replay.conduct",
    "replay": "_replay.conduct",
    "replaying": "_replay.block",
    "run": "_run",
    "step": "_decorators",
    "tool": "_decorators",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(f"stepfork.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in ("adapters", "errors", "testing", "tolerance"):
        return importlib.import_module(f"stepfork.{name}")
    raise AttributeError(f"module 'stepfork' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
