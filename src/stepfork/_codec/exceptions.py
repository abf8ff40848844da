"""Exceptions: written with all that they carry but the traceback, read without running ``__init__``."""

from __future__ import annotations

import sys
import types
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from stepfork._codec.base import Beyond, Reader, Walk, escape_key, unescape_key
from stepfork._codec.http import carried
from stepfork._codec.messages import contents_of, is_validation_error, message_of
from stepfork._codec.objects import shape_of
from stepfork._codec.types import type_name
from stepfork._frames import is_users

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Plain

LONGEST_CHAIN = 10
"""How far ``__cause__`` and ``__context__`` are followed."""

_SKIPPED = frozenset({"_stepfork_seen", "_stepfork_served", "_stepfork_message", "__notes__"})
_NOT_DATA = frozenset({"obj"})
"""``AttributeError.obj`` is the object that was asked, which may be anything, of any size."""


def write_exception(exc: BaseException, walk: Walk) -> Plain:
    """Write an exception; where it was raised, and while handling what, only for what a call raised."""
    cls = type(exc)
    walk.spend(512)
    plain: dict[str, Plain] = {"$exception": type_name(cls)}
    if issubclass(cls, BaseExceptionGroup):  # isinstance would ask the object for its __class__
        plain |= {"of": "group", "group": [walk.child(_own(exc, name)) for name in ("message", "exceptions")]}
    elif is_validation_error(cls):
        plain |= {"of": "validation", "title": walk.child(exc.title), "errors": _validation_errors(exc, walk)}  # type: ignore[attr-defined]
    if "group" not in plain:
        plain["args"] = [_write_carried(arg, walk) for arg in _own(exc, "args")]
    plain["attrs"] = _write_attributes(exc, walk)
    plain["message"] = walk.child(message_of(exc))
    if bases := _bases(cls):
        plain["bases"] = bases
    return plain | _write_chain(exc, walk)


def bare_exception(exc: BaseException) -> Plain:
    """Return the least that can be said of an exception: its type."""
    cls = type(exc)
    return {"$exception": type_name(cls), "args": [], "attrs": {}, "message": "", "bases": _bases(cls)}


def _write_attributes(exc: BaseException, walk: Walk) -> dict[str, Plain]:
    state = {}
    for name, member in _members(type(exc)):
        with suppress(AttributeError):
            if (value := member.__get__(exc)) is not None:
                state[name] = value
    state |= shape_of(type(exc)).state_of(exc)
    return {
        escape_key(name): _write_carried(value, walk) for name, value in state.items() if name not in _SKIPPED
    }


def _write_carried(value: object, walk: Walk) -> Plain:
    try:
        return walk.child(carried(value))
    except Beyond:
        raise
    except Exception:  # of a library that has changed: nothing is better than all of it
        return walk.opaque(value)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield what the built-in bases keep beside ``args``, such as ``errno``, each with its descriptor."""
    for layer in cls.__mro__:
        if layer.__module__ != "builtins" or layer in (BaseException, object, BaseExceptionGroup):
            continue
        for name, member in vars(layer).items():
            is_member = isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType)
            if is_member and name not in _NOT_DATA and not name.startswith("_"):
                yield name, member


def _bases(cls: type) -> list[str]:
    """Return the names of the bases of a class that Python does not have, down to one that it has."""
    recorded = vars(cls).get("_stepfork_bases")
    if isinstance(recorded, list):
        return recorded
    names = []
    for layer in cls.__mro__[1:] if cls.__module__ != "builtins" else ():
        names.append(type_name(layer))
        if layer.__module__ == "builtins":
            break
    return names


def _write_chain(exc: BaseException, walk: Walk) -> dict[str, Plain]:
    plain: dict[str, Plain] = {}
    notes = contents_of(exc).get("__notes__")
    if type(notes) is list and notes:
        plain["notes"] = [walk.child(note) for note in notes]
    if any(link is exc for link in walk.chain):
        raise Beyond
    cause, context, suppress = (_own(exc, f"__{name}__") for name in ("cause", "context", "suppress_context"))
    if len(walk.chain) < LONGEST_CHAIN:
        walk.chain.append(exc)
        if cause is not None:
            plain["cause"] = walk.child(cause)
        elif walk.outcome and context is not None and not suppress:
            plain["context"] = walk.child(context)
        walk.chain.pop()
    if suppress and cause is None:
        plain["suppress"] = True
    if walk.outcome and (place := _place(_own(exc, "__traceback__"))):
        plain["at"] = place
    return plain


def _own(exc: BaseException, name: str) -> Any:
    """Return an attribute that Python gives to every exception or group, past code of the class."""
    holder = BaseException if name in vars(BaseException) else BaseExceptionGroup
    return vars(holder)[name].__get__(exc)


def _place(traceback: types.TracebackType | None) -> str | None:
    """Return ``file.py:12``: the user's line nearest to where it was raised, else the very place."""
    found = None
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if found is None or is_users(filename) or not is_users(found[0]):
            found = filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{PurePath(found[0]).name}:{found[1]}" if found else None


def begin_exception(plain: dict[str, Plain], reader: Reader) -> BaseException:
    """Return the exception before it has attributes, of its own class or one that stands for it."""
    name = plain["$exception"]
    cls = reader.classes.find(name)
    if (
        cls is None
        or not issubclass(cls, BaseException)
        or any("__del__" in vars(layer) for layer in cls.__mro__)
    ):
        cls = _stand_in_class(name, plain, reader)
    if plain.get("of") == "validation" and is_validation_error(cls):
        return _rebuild_validation_error(cls, plain, reader)
    if issubclass(cls, BaseExceptionGroup):
        message, exceptions = plain["group"]
        return BaseExceptionGroup.__new__(cls, reader.child(message), list(reader.child(exceptions)))
    exc: BaseException = _python_base(cls).__new__(cls)
    return exc


def finish_exception(exc: BaseException, plain: dict[str, Plain], reader: Reader) -> None:
    """Give the exception what it carried."""
    shape = shape_of(type(exc))
    members = dict(_members(type(exc)))
    if "args" in plain:
        vars(BaseException)["args"].__set__(exc, tuple(reader.child(arg) for arg in plain["args"]))
    for key, part in plain["attrs"].items():
        name, value = unescape_key(key), reader.child(part)
        if name not in members:
            shape.put(exc, name, value)
            continue
        with suppress(AttributeError, TypeError):  # one that Python derives from another
            members[name].__set__(exc, value)
    if "notes" in plain:
        contents_of(exc)["__notes__"] = [reader.child(note) for note in plain["notes"]]
    if "_stepfork_bases" in vars(type(exc)):
        contents_of(exc)["_stepfork_message"] = reader.child(plain["message"])
    _link(exc, plain, reader)


def _link(exc: BaseException, plain: dict[str, Plain], reader: Reader) -> None:
    for key, attribute in (("cause", "__cause__"), ("context", "__context__")):
        if key in plain:
            linked = reader.child(plain[key])
            if isinstance(linked, BaseException):
                vars(BaseException)[attribute].__set__(exc, linked)
    if "cause" not in plain:
        vars(BaseException)["__suppress_context__"].__set__(exc, bool(plain.get("suppress")))


def _stand_in_class(name: str, plain: dict[str, Plain], reader: Reader) -> type[BaseException]:
    """Return a class of that name, derived from the nearest of its recorded bases that is loaded."""
    bases = plain.get("bases", [])
    found = (reader.classes.find(base) for base in bases)
    base = next((cls for cls in found if cls is not None and issubclass(cls, BaseException)), Exception)
    key = (name, base)
    if key not in _STAND_INS:
        module, _, qualname = name.partition(":")
        _STAND_INS[key] = _derive(base, module, qualname, bases)
    return _STAND_INS[key]


_STAND_INS: dict[tuple[str, type], type[BaseException]] = {}


def _derive(base: type[BaseException], module: str, qualname: str, bases: list[str]) -> type[BaseException]:
    runs_code = "__init_subclass__" in {name for layer in base.__mro__[:-1] for name in vars(layer)}
    if runs_code or type(base) is not type:
        base = _python_base(base)
    contents = {
        "__module__": module,
        "__qualname__": qualname,
        "__doc__": f"Stands for {module}:{qualname}, whose module is not loaded.",
        "__str__": lambda exc: exc.__dict__.get("_stepfork_message", ""),
        "_stepfork_bases": bases,
    }
    return type(qualname.rpartition(".")[2], (base,), contents)


def _python_base(cls: type) -> Any:
    return next(layer for layer in cls.__mro__ if layer.__module__ == "builtins")


def _validation_errors(exc: Any, walk: Walk) -> Plain:
    return walk.child(exc.errors(include_url=False))


def _rebuild_validation_error(cls: Any, plain: dict[str, Plain], reader: Reader) -> BaseException:
    lines = [_line_error(error) for error in reader.child(plain["errors"])]
    exc: BaseException = cls.from_exception_data(reader.child(plain["title"]), lines)
    return exc


def _line_error(error: dict[str, Any]) -> dict[str, Any]:
    core: Any = sys.modules["pydantic_core"]
    line: dict[str, Any] = {key: error[key] for key in ("type", "loc", "input", "ctx") if key in error}
    try:
        core.ValidationError.from_exception_data("", [line])
    except (KeyError, TypeError, ValueError):  # an error type of the user's own, or a ctx that is a stand-in
        line["type"] = core.PydanticCustomError(error["type"], error["msg"], line.pop("ctx", None))
    return line
