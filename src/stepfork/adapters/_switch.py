"""Switches adapters on and off: which there are, and what happens when their library is imported."""

from __future__ import annotations

import importlib
import sys
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from stepfork._context import _open, adapters_on
from stepfork._near import did_you_mean, near_names
from stepfork._setting_kinds import TOOLS, as_tools
from stepfork._settings import settings
from stepfork._warn import warn_once
from stepfork.adapters._adapter import Adapter
from stepfork.adapters._child_processes import follow_into_children
from stepfork.errors import AdapterFailed, DecorationError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import ModuleType

    from stepfork.adapters._patches import Patches

GROUP = "stepfork.adapters"
"""The entry points that name the adapters of others."""

BUILT_IN = (
    Adapter(
        "openai",
        {
            "openai._base_client": "stepfork.adapters._openai:hook",
            "openai._client": "stepfork.adapters._openai:hook_clients",
            "openai.lib.azure": "stepfork.adapters._openai:hook_azure",
            "langchain_openai.chat_models.base": "stepfork.adapters._openai:hook_langchain",
            "langchain_openai.embeddings.base": "stepfork.adapters._openai:hook_langchain",
            "langchain_openai.llms.base": "stepfork.adapters._openai:hook_langchain",
            "httpx._client": "stepfork.adapters._httpx:hook_carrier",
            "httpx2._client": "stepfork.adapters._httpx:hook_carrier",
        },
    ),
    Adapter(
        "anthropic",
        {
            "anthropic._base_client": "stepfork.adapters._anthropic:hook",
            "anthropic.lib.foundry": "stepfork.adapters._anthropic:hook_foundry",
            "httpx._client": "stepfork.adapters._httpx:hook_carrier",
            "httpx2._client": "stepfork.adapters._httpx:hook_carrier",
        },
    ),
    Adapter(
        "httpx",
        {
            "httpx._client": "stepfork.adapters._httpx:hook",
            "httpx2._client": "stepfork.adapters._httpx:hook",
        },
    ),
    Adapter(
        "litellm",
        {
            "litellm.llms.base_llm.base_utils": "stepfork.adapters._litellm:hook_infos",
            "litellm.llms.base_llm.chat.transformation": "stepfork.adapters._litellm:hook_configs",
            "openai._base_client": "stepfork.adapters._openai:hook",
            "openai._client": "stepfork.adapters._openai:hook_clients",
            "openai.lib.azure": "stepfork.adapters._openai:hook_azure",
            "httpx._client": "stepfork.adapters._httpx:hook",
            "httpx2._client": "stepfork.adapters._httpx:hook",
        },
    ),
    Adapter(
        "langchain",
        {
            "langchain_core.tools.base": "stepfork.adapters._langchain:hook_tools",
            "langchain_core.language_models.chat_models": "stepfork.adapters._langchain_models:hook_chat",
            "langchain_core.language_models.llms": "stepfork.adapters._langchain_models:hook_text",
        },
    ),
    Adapter("langgraph", {"langgraph.pregel.main": "stepfork.adapters._langgraph:hook"}),
    Adapter(
        "mcp",
        {
            "mcp.client.session": "stepfork.adapters._mcp:hook",
            "mcp.client.stdio": "stepfork.adapters._mcp_transports:hook_stdio",
            "mcp.client.sse": "stepfork.adapters._mcp_transports:hook_sse",
            "mcp.client.streamable_http": "stepfork.adapters._mcp_transports:hook_http",
            "mcp.client.websocket": "stepfork.adapters._mcp_transports:hook_websocket",
            "mcp.client.client": "stepfork.adapters._mcp_in_process:hook_client",
            "mcp.server.lowlevel.server": "stepfork.adapters._mcp_in_process:hook_server",
        },
    ),
)

_lock = threading.RLock()
_patches: dict[str, dict[str, Patches]] = {}
"""Of each adapter that is switched on, what it has wrapped so far, by module."""
_for_good: set[str] = set()
"""The adapters that the program itself has switched on."""
_tools_for_good: list[str | Callable[..., Any]] = []
"""The tools that it has named."""
_needed: Counter[str] = Counter()
"""How many replays that go on need an adapter."""
_misfits: dict[str, str] = {}
"""Of an adapter that is switched on and could not hook its library, why not."""
_watched: set[str] = set()
"""The modules whose import is waited for."""
_others: dict[str, Adapter] = {}


def instrument(*names: str, tools: Iterable[str | Callable[..., Any]] = ()) -> None:
    """Record the libraries that this process uses, as they are: no edit to the agent.

    Names one or more adapters (``"openai"``, ``"langgraph"``); by default all that there are, those of
    installed packages too. It may be called before or after the libraries are imported, and again.
    ``tools``, besides those of the setting, are functions that do the work of tools whose names they do not
    have, a dispatcher for example: themselves, or ``"module:function"``, where the function may be a pattern.
    Raises OptionError for a name that no adapter has and for what cannot name a function, DecorationError for
    a tool that is no function of Python's.
    """
    wanted = [_named(name) for name in names] if names else _all()
    entries = _checked(tools)
    with _lock:
        for adapter in wanted:
            _for_good.add(adapter.name)
            _switch_on(adapter)
    for tool in _tools_of_the_project():
        try:
            _name_for_good([tool])
        except DecorationError as error:
            warn_once(f"stepfork cannot make a tool of {tool}: {error}")
    _name_for_good(entries)


def _name_for_good(tools: list[str | Callable[..., Any]]) -> None:
    _name_tools(tools)
    _tools_for_good.extend(each for each in tools if each not in _tools_for_good)


def _name_tools(tools: Collection[str | Callable[..., Any]]) -> None:
    if tools:
        from stepfork.adapters._plain_tools_named import name_tools

        name_tools(tools)


def _tools_of_the_project() -> tuple[Any, ...]:
    """Return those of the setting; what is wrong with it is not to keep the agent from starting."""
    try:
        return settings().tools
    except OptionError as error:  # told where a run begins, too
        warn_once(f"stepfork cannot read its settings: {error}")
        return ()


def _checked(tools: Iterable[str | Callable[..., Any]]) -> list[str | Callable[..., Any]]:
    try:
        return list(as_tools(tools))
    except (TypeError, ValueError) as error:
        raise OptionError(
            "stepfork.instrument(tools=...) does not fit",
            detail=[("expected", TOOLS.label), ("because", str(error))],
        ) from error


@contextmanager
def switched_on(names: Iterable[str], tools: Collection[str] = ()) -> Iterator[None]:
    """Have these adapters on while a replay goes on; those that were on before stay on after it.

    ``tools`` are the functions that were tools from the start of the recorded run.

    Raises AdapterFailed for one that is not there, or whose library it cannot hook: its calls would run live.
    """
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_needed_on(_for_replay(name)))
        _name_tools(tools)
        yield


@contextmanager
def _needed_on(adapter: Adapter) -> Iterator[None]:
    """Have it on as long as any of the replays that need it goes on."""
    with _lock:
        if not _needed.total() and not _open:
            _turn_tools_back()  # those of other runs and replays are none of this one
            _name_tools(_tools_for_good)
        _needed[adapter.name] += 1
    try:
        _switch_on(adapter)
        yield
    finally:
        with _lock:
            _needed[adapter.name] -= 1
            if not _needed[adapter.name] and adapter.name not in _for_good:
                _switch_off(adapter)


@contextmanager
def tried(adapter: Adapter) -> Iterator[None]:
    """Have an adapter on while the block runs, known or not, as a test of its author's does."""
    with _lock:
        before = _others.get(adapter.name)
        _others[adapter.name] = adapter
    try:
        with _needed_on(adapter):
            yield
    finally:
        with _lock:
            del _others[adapter.name]
            if before is not None:
                _others[adapter.name] = before


def _for_replay(name: str) -> Adapter:
    try:
        return _named(name)
    except OptionError as error:
        raise AdapterFailed(
            f"the recording was made with the adapter {name!r}, which is not installed here",
            detail=error.detail,
            ways_on=error.ways_on,
            adapter=name,
        ) from None


def _switch_on(adapter: Adapter) -> None:
    with _lock:
        if adapter.name in adapters_on:
            _refuse_misfit(adapter)
            return
        follow_into_children()
        adapters_on.add(adapter.name)
        _patches[adapter.name] = {}
        for module in adapter.hooks:
            if module not in _watched:
                _watch(module)
            elif module in sys.modules:
                _hook(adapter, sys.modules[module])


def _switch_off(adapter: Adapter) -> None:
    with _lock:
        adapters_on.discard(adapter.name)
        _misfits.pop(adapter.name, None)
        for patches in reversed(_patches.pop(adapter.name, {}).values()):
            patches.undo()
        if not adapters_on:
            _turn_tools_back()


def _turn_tools_back() -> None:
    if "stepfork.adapters._plain_tools_named" in sys.modules:
        from stepfork.adapters._plain_tools import turn_back

        turn_back()


def _watch(module: str) -> None:
    import wrapt

    _watched.add(module)
    wrapt.register_post_import_hook(_imported, module)


def _imported(module: ModuleType) -> None:
    """Hook a module that was imported just now, or had been."""
    with _lock:
        for adapter in [*BUILT_IN, *_others.values()]:
            if adapter.name in adapters_on and module.__name__ in adapter.hooks:
                _hook(adapter, module)


def _hook(adapter: Adapter, module: ModuleType) -> None:
    """Let the adapter hook it; a fault breaks no import but in a replay, that would reach the world."""
    from stepfork.adapters._patches import Patches

    hooked = _patches[adapter.name]
    if module.__name__ in hooked:
        return
    patches = hooked[module.__name__] = Patches()
    try:
        _function(adapter.hooks[module.__name__])(module, patches)
    except Exception as fault:
        patches.undo()
        what = _misfits[adapter.name] = f"{type(fault).__name__}: {fault} (in {module.__name__})"
        _refuse_misfit(adapter)
        warn_once(f"stepfork cannot record {adapter.name} here: {what}")


def _refuse_misfit(adapter: Adapter) -> None:
    """Raise AdapterFailed where a replay needs an adapter that could not hook its library."""
    if not _needed[adapter.name] or adapter.name not in _misfits:
        return
    raise AdapterFailed(
        f"the adapter {adapter.name!r} does not fit the library as it is installed here",
        detail=[("why", _misfits[adapter.name])],
        ways_on=["install the version of the library that the run was recorded with, or upgrade stepfork"],
        adapter=adapter.name,
    )


def _function(
    hook: str | Callable[[ModuleType, Patches], None],
) -> Callable[[ModuleType, Patches], None]:
    if not isinstance(hook, str):
        return hook
    module, _, name = hook.partition(":")
    function: Callable[[ModuleType, Patches], None] = getattr(importlib.import_module(module), name)
    return function


def _named(name: str) -> Adapter:
    for adapter in (*BUILT_IN, *_others.values()):
        if adapter.name == name:
            return adapter
    adapters = {adapter.name: adapter for adapter in _all()}
    if name not in adapters:
        near = near_names(name, adapters)
        raise OptionError(
            f"there is no adapter {name!r}",
            detail=[("there are", ", ".join(sorted(adapters)))],
            ways_on=did_you_mean(near) or ["install the package that brings it"],
            near=near,
        )
    return adapters[name]


def _all() -> list[Adapter]:
    """Return all adapters; one whose package cannot be loaded is left out with a warning."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            adapter = point.load()
            if not isinstance(adapter, Adapter):
                raise TypeError(f"{point.value} is a {type(adapter).__name__}, not an Adapter")
        except Exception as fault:
            warn_once(f"stepfork cannot load the adapter {point.name}: {type(fault).__name__}: {fault}")
        else:
            _others.setdefault(adapter.name, adapter)
    return [*BUILT_IN, *_others.values()]
