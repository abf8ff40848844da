"""Bound methods: written as the object and the name of the method, if the object can be written."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from stepfork._codec.standin import Opaque
from stepfork._codec.types import may_be_named, type_name

if TYPE_CHECKING:
    from stepfork._calls import Plain
    from stepfork._codec.base import Reader, Walk

_KINDS = {"builtins:method": types.MethodType, "builtins:builtin_function_or_method": types.BuiltinMethodType}


def write_method(value: Any, walk: Walk) -> Plain:
    """Write a bound method; a placeholder where a part of its object cannot be written."""
    owner, name = value.__self__, value.__name__
    if not _is(_bound(owner, name), value):
        return walk.opaque(value)
    was_lossy, walk.lossy = walk.lossy, False
    plain = walk.element(owner)
    is_whole, walk.lossy = not walk.lossy, was_lossy
    if not is_whole:
        return walk.opaque(value)
    return {"$object": type_name(type(value)), "of": "method", "self": plain, "name": name}


def _is(found: Any, value: Any) -> bool:
    return type(found) is type(value) and (
        found.__func__ is value.__func__ if type(value) is types.MethodType else True
    )


def _bound(owner: Any, name: str) -> Any:
    """Return the method of that name, found without code of the class; None if there is none to be named."""
    cls = type(owner)
    for layer in type.mro(owner) if issubclass(cls, type) else []:
        if name in vars(layer) and may_be_named(type_name(layer)):
            member = vars(layer)[name]
            is_method = type(member) in (classmethod, types.ClassMethodDescriptorType)
            return member.__get__(None, owner) if is_method else None
    for layer in cls.__mro__:
        if name in vars(layer) and may_be_named(type_name(layer)):
            member = vars(layer)[name]
            is_method = type(member) in (types.FunctionType, types.MethodDescriptorType)
            return member.__get__(owner) if is_method else None
    return None


def read_method(plain: dict[str, Plain], reader: Reader) -> Any:
    """Return the bound method of a new object."""
    owner = reader.whole(plain["self"])
    if type(owner) is Opaque:
        return reader.stand_in(plain, "its object cannot be rebuilt")
    method = _bound(owner, plain["name"])
    if type(method) is not _KINDS.get(plain["$object"]):
        return reader.stand_in(plain, "its object has no method of this name")
    return method
