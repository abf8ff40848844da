"""LangGraph: an invocation of a graph is a step, also of one that is a node of another.

It opens a run where none is open. The graph's own code is executed again in a replay. A graph that a tool
asks is no step: it is served with the tool.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from stepfork._context import current_frame
from stepfork._frames import is_users
from stepfork._home import entry_of_bound
from stepfork._invoke import begin
from stepfork._spec import hooked
from stepfork._warn import warn_once
from stepfork._watch import async_generated, executed, executed_later, generated
from stepfork.adapters._boundary import if_it_fits
from stepfork.adapters._langgraph_threads import aload, load, watch_savers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from types import ModuleType

    from stepfork._calls import Entry
    from stepfork._context import Frame
    from stepfork._spec import Spec
    from stepfork.adapters._patches import Patches

    Given = Mapping[str, Any]


def hook(module: ModuleType, patches: Patches) -> None:
    """Make steps of the invocations of graphs, in ``langgraph.pregel.main``."""
    graph = module.Pregel
    patches.wrap(graph, "invoke", _invoke)
    patches.wrap(graph, "ainvoke", _ainvoke)
    patches.wrap(graph, "stream", _stream)
    patches.wrap(graph, "astream", _astream)
    watch_savers(graph, patches)


def _invoke(wrapped: Any, graph: Any, args: tuple[Any, ...], kwargs: Given) -> Any:
    frame = _begun(wrapped, graph, "invoke", args, kwargs)
    if frame is None:
        return wrapped(*args, **kwargs)
    result = executed(frame, wrapped, *args, **kwargs)  # it asks ``stream``, which looks into the thread
    frame.returned(result, "value")
    return result


async def _ainvoke(wrapped: Any, graph: Any, args: tuple[Any, ...], kwargs: Given) -> Any:
    frame = _begun(wrapped, graph, "ainvoke", args, kwargs)
    if frame is None:
        return await wrapped(*args, **kwargs)
    result = await executed_later(frame, wrapped, *args, **kwargs)
    frame.returned(result, "value")
    return result


def _stream(wrapped: Any, graph: Any, args: tuple[Any, ...], kwargs: Given) -> Any:
    def chunks() -> Iterator[Any]:
        load(graph, _config_of(args, kwargs))
        yield from wrapped(*args, **kwargs)

    return generated(lambda: (_begun(wrapped, graph, "stream", args, kwargs), chunks()))


def _astream(wrapped: Any, graph: Any, args: tuple[Any, ...], kwargs: Given) -> Any:
    async def chunks() -> AsyncIterator[Any]:
        await aload(graph, _config_of(args, kwargs))
        async with aclosing(wrapped(*args, **kwargs)) as stream:
            async for chunk in stream:
                yield chunk

    return async_generated(lambda: (_begun(wrapped, graph, "astream", args, kwargs), chunks()))


# -- the step

_steps: dict[int, tuple[Spec, WeakSet[Any]]] = {}
"""By its id each spec of graphs, held so that it stays its own, and the graphs that it is of."""


def _begun(wrapped: Any, graph: Any, method: str, args: tuple[Any, ...], kwargs: Given) -> Frame | None:
    """Return the frame of an invocation; None for one of a tool, and where it is under way already."""
    outer: Any = current_frame(may_open_run=True)
    outer_spec = getattr(outer, "spec", None)
    if outer_spec is not None and outer_spec.kind != "step":
        return None
    around = _steps.get(id(outer_spec))
    if around is not None and graph in around[1]:
        return None
    try:
        arguments = if_it_fits(lambda: _named(wrapped, args, kwargs), wrapped, args, kwargs)
        if arguments is None:
            return None
        spec = _spec_of(graph, method)
        if around is not None:  # the rest is what the graph around it hands on
            arguments = {"input": arguments["input"]}
    except Exception as fault:
        if outer is None:
            warn_once(f"stepfork cannot record a graph: {type(fault).__name__}: {fault}")
        else:
            outer.session.give_up(fault)
        return None
    return begin(spec, (), arguments)


def _spec_of(graph: Any, method: str) -> Spec:
    entry = entry_of_bound(graph, method)
    spec = hooked("step", _name_of(graph, entry), file=_file_of(entry), entry=entry)
    _steps.setdefault(id(spec), (spec, WeakSet()))[1].add(graph)
    return spec


def _name_of(graph: Any, entry: Entry | None) -> str:
    """Return the graph's name; that of its variable where nobody gave it one."""
    name = getattr(graph, "name", None)
    if isinstance(name, str) and name and name != "LangGraph":
        return name
    return entry.qualname.partition(".")[0] if entry is not None else "LangGraph"


def _file_of(entry: Entry | None) -> str | None:
    """Return the file of the user's code that holds the graph, or else that asks it."""
    if entry is not None:
        return getattr(sys.modules.get(entry.module), "__file__", None)
    frame = sys._getframe()
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else frame.f_code.co_filename


# -- arguments

_NOT_RECORDED = frozenset({"control", "print_mode", "debug"})
_CONFIG = ("configurable", "recursion_limit", "tags", "metadata", "run_name", "max_concurrency")


def _named(wrapped: Any, args: tuple[Any, ...], kwargs: Given) -> dict[str, Any]:
    """Return what was handed in, by the names under which a replay hands it in again."""
    signature = inspect.signature(wrapped)
    given = signature.bind(*args, **kwargs).arguments
    named = {
        name: value
        for name, value in given.items()
        if name not in _NOT_RECORDED and value is not signature.parameters[name].default
    }
    named.setdefault("input", None)
    config = _recorded_config(named.pop("config", None))
    return {**named, "config": config} if config else named


def _recorded_config(config: Any) -> dict[str, Any]:
    """Return of a config what the agent chose: no callbacks, and nothing of LangGraph's own."""
    if not isinstance(config, dict):
        return {}
    chosen = {name: config[name] for name in _CONFIG if config.get(name)}
    conf = chosen.get("configurable")
    if isinstance(conf, dict):
        chosen["configurable"] = {k: v for k, v in conf.items() if not str(k).startswith("__pregel")}
    return {name: value for name, value in chosen.items() if value}


def _config_of(args: tuple[Any, ...], kwargs: Given) -> Any:
    return args[1] if len(args) > 1 else kwargs.get("config")
