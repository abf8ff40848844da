"""Which exceptions ask to stop or to wait, and so are no failure, and which one a run ended with."""

from __future__ import annotations


def is_control_flow(error: BaseException) -> bool:
    """Whether an exception asks to stop or to wait, and so is no failure."""
    if isinstance(error, SystemExit):
        return error.code in (None, 0)
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return True
    return any(f"{kind.__module__}.{kind.__name__}" in _CONTROL_FLOW for kind in type(error).__mro__)


def at_heart(error: BaseException) -> BaseException:
    """Return the one exception that groups are wrapped around, as a task group wraps what leaves it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


_CONTROL_FLOW = frozenset(
    {
        "asyncio.exceptions.CancelledError",
        "langgraph.errors.GraphBubbleUp",
        "langgraph.errors.GraphInterrupt",
        "workflows.errors.WaitingForEvent",
        "llama_index.core.workflow.errors.WaitingForEvent",
        "workflows.runtime.types.results.WaitingForEvent",
    }
)
