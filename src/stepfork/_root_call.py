"""Feeds the recorded arguments of the root back to the function as it is now."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stepfork._calls import Call, Plain
from stepfork.errors import RootArgumentsError

RootArguments = tuple[list[Any], dict[str, Any]]


def root_arguments(
    function: Any, recorded: Call, provided: Mapping[str, Any], decode: Callable[[Plain], Any]
) -> RootArguments:
    """Return positional and keyword arguments for ``function``.

    ``provided`` wins over what was recorded. Raises RootArgumentsError where a parameter has
    neither, or where something recorded has no parameter any more.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return [], {**{name: decode(value) for name, value in recorded.input.items()}, **provided}
    unknown = [name for name in provided if name not in parameters and not _takes_any(parameters)]
    if unknown:
        raise _misfit(function, recorded, f"it has no parameter {unknown[0]!r}", "leave it out of replay(...)")
    values = {name: decode(value) for name, value in recorded.input.items() if name not in provided}
    values.update(provided)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            kwargs.update(values.pop(name, {}))
            kwargs.update({key: values.pop(key) for key in provided if key in values})
        elif parameter.kind is parameter.VAR_POSITIONAL:
            args.extend(values.pop(name, ()))
        elif name in values:
            _place(parameter, values.pop(name), args, kwargs)
        elif parameter.default is parameter.empty:
            way = f"hand it in: replay({recorded.name!r}, {_name(function)}, {name}=...)"
            raise _misfit(function, recorded, f"its parameter {name!r} was not recorded and has no default", way)
    if values:
        gone = ", ".join(map(repr, values))
        raise _misfit(
            function, recorded, f"it has no parameter {gone} any more", "record the run again, or accept the argument"
        )
    return args, kwargs


def _place(parameter: inspect.Parameter, value: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    if parameter.kind is parameter.KEYWORD_ONLY or kwargs:
        kwargs[parameter.name] = value
    else:
        args.append(value)


def _takes_any(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def _misfit(function: Any, recorded: Call, why: str, way_on: str) -> RootArgumentsError:
    return RootArgumentsError(
        f"{_name(function)} cannot be called with the recorded arguments: {why}",
        detail=[("recorded", f"{recorded.name}({', '.join(recorded.input)})"), ("now", _shown_signature(function))],
        ways_on=[way_on],
    )


def _shown_signature(function: Any) -> str:
    return f"{_name(function)}{inspect.signature(function)}"
