"""Feeds the recorded arguments of the root back to the function as it is now."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

from stepfork.errors import RootArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._calls import Call, Plain

RootArguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


def root_arguments(
    function: Any, recorded: Call, provided: Mapping[str, Any], decode: Callable[[Plain], Any]
) -> RootArguments:
    """Return positional and keyword arguments for ``function``.

    ``provided`` wins over what was recorded. Raises RootArgumentsError where a parameter has
    neither, where something recorded has no parameter any more, or where something provided has none.
    """
    values = {name: decode(value) for name, value in recorded.input.items() if name not in provided}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return (), {**values, **provided}
    return _Fit(function, signature, recorded).arguments(values, dict(provided))


class _Fit:
    def __init__(self, function: Any, signature: inspect.Signature, recorded: Call) -> None:
        self.function = function
        self.signature = signature
        self.recorded = recorded

    def arguments(self, values: dict[str, Any], provided: dict[str, Any]) -> RootArguments:
        parameters = self.signature.parameters
        rest = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
        further = {name: provided.pop(name) for name in list(provided) if name not in parameters}
        if further and rest is None:
            self._refuse_unknown(next(iter(further)))
        values.update(provided)
        gone = [name for name in values if name not in parameters]
        if gone:
            self._refuse_gone(gone)
        if rest is not None:
            values[rest] = {**values.get(rest, {}), **further}
        self._check_complete(values)
        bound = inspect.BoundArguments(self.signature, values)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _check_complete(self, values: Mapping[str, Any]) -> None:
        for name, parameter in self.signature.parameters.items():
            optional = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if name not in values and parameter.default is parameter.empty and not optional:
                raise self._misfit(
                    f"its parameter {name!r} was not recorded and has no default",
                    f"hand it in: replay(..., {self._name}, {name}=...)",
                )

    def _refuse_unknown(self, name: str) -> None:
        raise self._misfit(
            f"it has no parameter {name!r}, and replay(...) no such option",
            "the options are override, live, tolerance and timeout; everything else is an argument",
        )

    def _refuse_gone(self, names: list[str]) -> None:
        raise self._misfit(
            f"it has no parameter {', '.join(map(repr, names))} any more",
            "keep the parameter, or record the run again",
        )

    @property
    def _name(self) -> str:
        return str(getattr(self.function, "__qualname__", None) or type(self.function).__name__)

    def _misfit(self, why: str, way_on: str) -> RootArgumentsError:
        recorded = f"{self.recorded.name}({', '.join(self.recorded.input)})"
        return RootArgumentsError(
            f"{self._name} cannot be called with the recorded arguments: {why}",
            detail=[("recorded", recorded), ("now", f"{self._name}{self.signature}")],
            ways_on=[way_on],
        )
