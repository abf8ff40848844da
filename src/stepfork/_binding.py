"""Binds the arguments of a call to parameter names: the same, however the call is spelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Mapping

Binder: TypeAlias = "Callable[[tuple[Any, ...], Mapping[str, Any]], dict[str, Any]]"

_NO_DEFAULT: Any = object()


def binder(signature: inspect.Signature, left_out: tuple[str, ...]) -> Binder:
    """Return what binds a call, without the parameters ``left_out``; TypeError for a call that misfits."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    by_signature = _by_signature(signature, left_out)
    first = next(iter(signature.parameters.values()), None)
    if first is None or {first.VAR_POSITIONAL, first.VAR_KEYWORD} & kinds:
        return by_signature
    return _of_named(signature, left_out)


def _by_signature(signature: inspect.Signature, left_out: tuple[str, ...]) -> Binder:
    def bind(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        for name in left_out:
            arguments.pop(name, None)
        return arguments

    return bind


def _of_named(signature: inspect.Signature, left_out: tuple[str, ...]) -> Binder:
    """Do what ``Signature.bind`` does in ten times the time, where each parameter has a name of its own."""
    parameters = list(signature.parameters.values())
    defaults = [
        (each.name, _NO_DEFAULT if each.default is each.empty else each.default) for each in parameters
    ]
    positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
    by_keyword = {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}

    def bind(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        given = len(args)
        if given > len(positional):
            raise TypeError("too many positional arguments")
        arguments = dict(zip(positional, args, strict=False))
        for name in kwargs:
            if name in arguments or name not in by_keyword:
                raise TypeError(f"unexpected keyword argument {name!r}")
        for name, default in defaults[given:]:
            value = kwargs.get(name, default)
            if value is _NO_DEFAULT:
                raise TypeError(f"missing argument {name!r}")
            arguments[name] = value
        for name in left_out:
            arguments.pop(name, None)
        return arguments

    return bind
