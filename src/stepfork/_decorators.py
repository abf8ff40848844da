"""``step``, ``tool`` and ``model``: one decorator form for everything that can be called."""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, TypeVar, overload

import wrapt

from stepfork._context import replay_is_open
from stepfork._invoke import wrapper_of
from stepfork._spec import Options, Spec, as_names, as_tolerance, make_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepfork._calls import Kind
    from stepfork.tolerance import Rule

    Decoratable = Callable[..., Any] | classmethod[Any, Any, Any] | staticmethod[Any, Any] | property

F = TypeVar("F", bound="Decoratable")


class BoundDecorated(wrapt.BoundFunctionWrapper[..., Any]):
    """A decorated method of an instance or class; pickles as ``getattr(owner, name)``."""

    def __reduce__(self) -> tuple[Any, ...]:
        name = self.__wrapped__.__name__
        return _reduced(name, getattr, (self._self_instance, name))

    __reduce_ex__ = wrapt.CallableObjectProxy.__reduce_ex__

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        return getattr(copy.deepcopy(self._self_instance, memo), self.__wrapped__.__name__)

    def __copy__(self) -> BoundDecorated:
        return self


class Decorated(wrapt.FunctionWrapper[..., Any]):
    """A function whose calls are recorded and replayed; in all else the function itself.

    Like a function it pickles by its qualified name and is its own copy.
    """

    __bound_function_wrapper__ = BoundDecorated

    def __init__(self, wrapped: Any, spec: Spec) -> None:
        super().__init__(wrapped, wrapper_of(spec))
        self._self_spec = spec

    def __reduce__(self) -> tuple[Any, ...] | str:
        if self._found_by_name() is self:
            return _reduced(self._self_spec.name, _by_name, (self.__module__, self.__qualname__))
        return _reduced(self._self_spec.name, Decorated, (self.__wrapped__, self._self_spec))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __copy__(self) -> Decorated:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Decorated:
        return self

    def _found_by_name(self) -> Any:
        try:
            return operator.attrgetter(self.__qualname__)(sys.modules[self.__module__])
        except (AttributeError, KeyError):
            return None


def _reduced(name: str, find: Any, found_by: tuple[Any, ...]) -> tuple[Any, ...]:
    if not replay_is_open():
        return find, found_by
    from stepfork._refusal import refusing_elsewhere

    return refusing_elsewhere(name, find, found_by)


def _by_name(module: str, qualname: str) -> Any:
    import importlib

    return operator.attrgetter(qualname)(importlib.import_module(module))


def _decorate(kind: Kind, function: Any, options: Options) -> Any:
    if isinstance(function, property):
        fget, fset, fdel = (
            f and _decorate(kind, f, options) for f in (function.fget, function.fset, function.fdel)
        )
        return property(fget, fset, fdel, function.__doc__)
    return Decorated(function, make_spec(kind, function, options))


@overload
def step(
    function: F,
    /,
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    tolerance: Mapping[str, Rule] | None = None,
    expected: type[BaseException] | Iterable[type[BaseException]] = (),
) -> F: ...
@overload
def step(
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    tolerance: Mapping[str, Rule] | None = None,
    expected: type[BaseException] | Iterable[type[BaseException]] = (),
) -> Callable[[F], F]: ...
def step(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    tolerance: Mapping[str, Rule] | None = None,
    expected: type[BaseException] | Iterable[type[BaseException]] = (),
) -> Any:
    """Mark a function as the agent's own logic: executed again in a replay, input and output compared.

    The outermost step call opens a run. ``ignore`` names parameters that are not recorded,
    ``tolerance`` maps a JSONPath over ``{"input": ..., "output": ...}`` to a rule, ``expected``
    lists exceptions that are no failure. Raises DecorationError and OptionError.
    """
    options = Options(
        name=name,
        ignore=as_names("ignore", ignore) or (),
        tolerance=as_tolerance(tolerance),
        expected=(expected,) if isinstance(expected, type) else tuple(expected),
    )
    return _apply("step", function, options)


@overload
def tool(
    function: F,
    /,
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    match: Iterable[str] | None = None,
    tolerance: Mapping[str, Rule] | None = None,
    mutates: Iterable[str] | None = None,
    repeats: bool = False,
) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    match: Iterable[str] | None = None,
    tolerance: Mapping[str, Rule] | None = None,
    mutates: Iterable[str] | None = None,
    repeats: bool = False,
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    match: Iterable[str] | None = None,
    tolerance: Mapping[str, Rule] | None = None,
    mutates: Iterable[str] | None = None,
    repeats: bool = False,
) -> Any:
    """Mark a call that crosses into the outside world: never executed in a replay.

    ``ignore`` names parameters that are not recorded, ``match`` those that identify a call (default
    all), ``mutates`` those that the tool changes in place (default: found by itself; ``()`` switches
    the search off). ``repeats`` is for a polled tool: asked more often than recorded, its last
    outcome is served again. Raises DecorationError and OptionError.
    """
    return _apply("tool", function, _tool_options(name, ignore, match, tolerance, mutates, repeats))


@overload
def model(
    function: F,
    /,
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    match: Iterable[str] | None = None,
    tolerance: Mapping[str, Rule] | None = None,
    mutates: Iterable[str] | None = None,
    repeats: bool = False,
) -> F: ...
@overload
def model(
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    match: Iterable[str] | None = None,
    tolerance: Mapping[str, Rule] | None = None,
    mutates: Iterable[str] | None = None,
    repeats: bool = False,
) -> Callable[[F], F]: ...
def model(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    ignore: Iterable[str] = (),
    match: Iterable[str] | None = None,
    tolerance: Mapping[str, Rule] | None = None,
    mutates: Iterable[str] | None = None,
    repeats: bool = False,
) -> Any:
    """Mark a tool that asks a language model; the options are those of :func:`tool`.

    Asked with a changed prompt, a replay serves the next recorded reply and marks it *stale*.
    """
    return _apply("model", function, _tool_options(name, ignore, match, tolerance, mutates, repeats))


def _tool_options(
    name: str | None,
    ignore: Iterable[str],
    match: Iterable[str] | None,
    tolerance: Mapping[str, Rule] | None,
    mutates: Iterable[str] | None,
    repeats: bool,
) -> Options:
    return Options(
        name=name,
        ignore=as_names("ignore", ignore) or (),
        match=as_names("match", match),
        tolerance=as_tolerance(tolerance),
        mutates=as_names("mutates", mutates),
        repeats=repeats,
    )


def _apply(kind: Kind, function: Any, options: Options) -> Any:
    if function is None:
        return lambda function: _decorate(kind, function, options)
    return _decorate(kind, function, options)
