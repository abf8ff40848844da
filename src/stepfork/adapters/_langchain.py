"""The tools of LangChain.

A tool is one call from ``run`` to its end, but only its body stands for the outside world: in a replay
LangChain's own code around it runs again, so that callbacks fire, bad arguments are refused and the
message carries the id of the call that it answers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from stepfork._context import busy
from stepfork._served import served, served_later
from stepfork._watch import consumed, executed, executed_later, watched
from stepfork.adapters._boundary import frame_of, if_it_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from stepfork._context import Frame
    from stepfork.adapters._boundary import Described
    from stepfork.adapters._patches import Patches

    Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def hook_tools(module: ModuleType, patches: Patches) -> None:
    """Make calls of the tools, in ``langchain_core.tools.base``."""
    base = module.BaseTool
    patches.wrap(base, "run", _run)
    patches.wrap(base, "arun", _arun)
    patches.wrap(base, "_parse_input", _parse_input)
    patches.family(base, ("_run",), lambda _: _body)
    patches.family(base, ("_arun",), lambda _: _abody)


@dataclasses.dataclass(slots=True, eq=False)
class _ToolCall:
    """One call of a tool, from ``run`` to its end."""

    tool: Any
    frame: Frame
    tool_call_id: str | None
    write: Callable[[Any], None] | None = None
    """Where the tool's own chunks go while it works."""
    is_in_body: bool = False
    is_refused: bool = False


_under_way: ContextVar[_ToolCall | None] = ContextVar("stepfork_langchain_tool", default=None)


def _run(wrapped: Any, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    call = _begun(wrapped, tool, args, kwargs) if busy else None
    if call is None:
        return wrapped(*args, **kwargs)
    args, kwargs = _heard(call, args, kwargs)
    token = _under_way.set(call)
    try:
        result = wrapped(*args, **kwargs)
    except BaseException as error:
        _left(token, call, error=error)
        raise
    _left(token, call, result)
    return result


async def _arun(wrapped: Any, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    call = _begun(wrapped, tool, args, kwargs) if busy else None
    if call is None:
        return await wrapped(*args, **kwargs)
    args, kwargs = _heard(call, args, kwargs)
    token = _under_way.set(call)
    try:
        result = await wrapped(*args, **kwargs)
    except BaseException as error:
        _left(token, call, error=error)
        raise
    _left(token, call, result)
    return result


def _begun(wrapped: Any, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _ToolCall | None:
    def described() -> Described:
        return str(tool.name), _named(tool, args[0] if args else kwargs["tool_input"])

    frame = frame_of("tool", lambda: if_it_fits(described, wrapped, args, kwargs))
    return None if frame is None else _ToolCall(tool, frame, kwargs.get("tool_call_id"))


def _left(token: Any, call: _ToolCall, result: Any = None, error: BaseException | None = None) -> None:
    """End a call whose body was never reached: what came of it then is LangChain's own doing."""
    with contextlib.suppress(ValueError):  # a coroutine that was dropped is closed in a foreign context
        _under_way.reset(token)
    if call.is_in_body or call.is_refused:
        return
    if error is not None:
        call.frame.raised(error, "value")
    elif call.frame.answer is None:
        call.frame.returned(result, "value")


def _parse_input(wrapped: Any, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Let arguments that are refused be the call's end, also where the tool makes a message of that."""
    call = _under_way.get()
    if call is None or call.tool is not tool or call.is_in_body:
        return wrapped(*args, **kwargs)
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        call.is_refused = True
        call.frame.raised(error, "value")
        raise


def _body(wrapped: Any, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    call = _call_of_body(tool, args, kwargs)
    if call is None:
        return wrapped(*args, **kwargs)
    frame = call.frame
    if frame.answer is not None:
        _write_again(call)
        try:
            return _addressed(served(frame.answer), call.tool_call_id)
        except Exception as error:
            _stop_if_refused(call, error)
            raise
    return watched(frame, executed(frame, wrapped, *args, **kwargs))


async def _abody(wrapped: Any, tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    call = _call_of_body(tool, args, kwargs)
    if call is None:
        return await wrapped(*args, **kwargs)
    frame = call.frame
    if frame.answer is not None:
        _write_again(call)
        try:
            return _addressed(await served_later(frame.answer), call.tool_call_id)
        except Exception as error:
            _stop_if_refused(call, error)
            raise
    return consumed(frame, await executed_later(frame, wrapped, *args, **kwargs), "value")


def _call_of_body(tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _ToolCall | None:
    """Return the call whose body begins; None where it is to run as it is."""
    if not busy:
        return None
    call = _under_way.get()
    if call is None or call.tool is not tool:  # called by itself, without LangChain's code around it
        frame = frame_of("tool", lambda: (str(tool.name), _spelled(tool, args, kwargs)))
        if frame is None:
            return None
        call = _ToolCall(tool, frame, None)
    elif call.is_in_body:
        return None
    call.is_in_body = True
    return call


def _stop_if_refused(call: _ToolCall, error: Exception) -> None:
    """Stop at an exception that refused the arguments when it was recorded: a body does not raise it."""
    title = getattr(error, "title", None)
    if title is not None and title == getattr(call.tool.args_schema, "__name__", None):
        answer = call.frame.answer
        assert answer is not None
        raise answer.stop("its arguments were refused when it was recorded, and are not any more") from None


# -- arguments


def _named(tool: Any, given: Any) -> Mapping[str, Any]:
    """Return what the model chose, without what is injected beside it."""
    if isinstance(given, str):
        return {next(iter(tool.args), "tool_input"): given}
    if not isinstance(given, dict):  # which LangChain refuses
        return {"tool_input": given}
    filtered: Callable[[Any], dict[str, Any]] | None = getattr(tool, "_filter_injected_args", None)
    return filtered(given) if filtered is not None else _without_injected(tool, given)


def _spelled(tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    rest = {name: value for name, value in kwargs.items() if name not in ("config", "run_manager")}
    return {**({"args": list(args)} if args else {}), **_named(tool, rest)}


def _without_injected(tool: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Do what tools of langchain-core 1 do themselves."""
    module = sys.modules["langchain_core.tools.base"]
    schema = tool.args_schema
    hints: Mapping[str, Any] = {}
    if isinstance(schema, type):
        hints = module.get_all_basemodel_annotations(schema)
    injected = {name for name, hint in hints.items() if module._is_injected_arg_type(hint)}
    return {name: value for name, value in given.items() if name not in {*injected, *module.FILTERED_ARGS}}


# -- what a tool says while it works


def _heard(call: _ToolCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """Return the arguments so that what the tool writes into the graph's stream is recorded on its way."""
    try:
        return _listened_to(call, args, kwargs)
    except Exception as fault:  # another version's runtime, for example
        call.frame.session.give_up(fault)
        return args, kwargs


def _listened_to(call: _ToolCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    runtime = _runtime_of(kwargs.get("config"))
    write = getattr(runtime, "stream_writer", None)
    if write is None:
        return args, kwargs
    call.write = write
    if call.frame.answer is not None:
        return args, kwargs

    def write_and_tell(chunk: Any) -> None:
        if not call.frame.is_ended:
            call.frame.item(chunk)
        write(chunk)

    def listening(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and hasattr(value, "stream_writer"):
            return dataclasses.replace(value, stream_writer=write_and_tell)  # type: ignore[type-var]
        return value

    config = kwargs["config"]
    conf = {**config["configurable"], _RUNTIME: listening(runtime)}
    kwargs = {**kwargs, "config": {**config, "configurable": conf}}
    if args and isinstance(args[0], dict):
        args = ({name: listening(value) for name, value in args[0].items()}, *args[1:])
    return args, kwargs


def _runtime_of(config: Any) -> Any:
    conf = config.get("configurable") if isinstance(config, dict) else None
    return conf.get(_RUNTIME) if isinstance(conf, dict) else None


_RUNTIME = "__pregel_runtime"


def _write_again(call: _ToolCall) -> None:
    recorded = getattr(call.frame.answer, "call", None)
    if call.write is not None and recorded is not None and recorded.outcome.items:
        for chunk in call.frame.answer.items():  # type: ignore[union-attr]
            call.write(chunk)


# -- what a tool returned


def _addressed(result: Any, tool_call_id: str | None) -> Any:
    """Return a recorded result as the answer to the call of now, whose id may be another one."""
    if tool_call_id is None:
        return result
    for command in _parts(result):
        if getattr(command, "graph", None) == "__parent__":
            object.__setattr__(command, "graph", type(command).PARENT)  # LangGraph asks whether it is this
    messages = list(_messages(result))
    if len({message.tool_call_id for message in messages}) == 1:
        for message in messages:
            message.tool_call_id = tool_call_id
    return result


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _messages(result: Any) -> Iterator[Any]:
    """Yield the tool messages in it, those that a command adds to the state too."""
    for part in _parts(result):
        if type(part).__name__ == "ToolMessage":
            yield part
        update = getattr(part, "update", None)
        values = update.values() if isinstance(update, dict) else [update]
        for value in values:
            if isinstance(value, (list, tuple)):
                yield from _messages(value)
