"""Processes that multiprocessing starts: the adapters that are on here are on there too.

A child that is not forked begins anew, and code that nobody marked would not load stepfork in it: its calls
would be lost, and in a replay they would be made.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import wrapt

from stepfork._context import adapters_on, child_of_replay, tools_on
from stepfork._processes import starts_with
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@functools.cache
def follow_into_children() -> None:
    """Wrap the place where such processes are started; done once, when the first adapter is switched on."""
    wrapt.register_post_import_hook(_wrap, "multiprocessing.process")


def _wrap(module: Any) -> None:
    wrapt.wrap_function_wrapper(module, "BaseProcess.start", _start)


def _start(
    wrapped: Callable[..., Any], process: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    if not adapters_on:
        return wrapped(*args, **kwargs)
    instead = functools.partial(run_with_adapters, sorted(adapters_on), sorted(tools_on), process.run)
    with starts_with(process, instead):
        return wrapped(*args, **kwargs)


def run_with_adapters(names: list[str], tools: list[str], run: Callable[[], Any]) -> Any:
    """Do the work of a child, with the adapters of its parent; without them where that cannot be."""
    from stepfork.adapters._switch import instrument

    try:
        instrument(*names, tools=tools)
    except Exception as fault:
        if child_of_replay:
            raise  # else its calls would be made
        warn_once(f"stepfork cannot record in this process: {type(fault).__name__}: {fault}")
    return run()
