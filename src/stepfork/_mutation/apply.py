"""Putting recorded changes into a live argument; the form of a change is told in ``_mutation``."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from stepfork._calls import Plain

__all__ = ["ChangeMisfit", "apply", "attribute_of"]

Path: TypeAlias = list[Any]


class ChangeMisfit(LookupError):
    """A recorded change has no place in the live argument; the changes that have one were applied."""


def attribute_of(step: Plain) -> str:
    """Return the attribute that a step of a path names; empty for other steps."""
    return str(step.get("attr", "")) if type(step) is dict else ""


def apply(target: object, changes: list[list[Any]], decode: Callable[[Plain], object]) -> None:
    """Change the live ``target`` in place as recorded. What of it is not named stays the object it is.

    ``decode`` turns a plain value into an object. A target in another state gets what fits.
    Raises :class:`ChangeMisfit` at the end for what did not, and whatever ``decode`` raises.
    """
    misfits = []
    for verb, path, value in changes:
        try:
            _APPLIED[verb](target, path, value, decode)
        except _MISFIT as error:
            misfits.append(f"{verb} at {_spelled(path)}: {error}")
    if misfits:
        raise ChangeMisfit(
            f"recorded changes that do not fit a {type(target).__name__}: " + "; ".join(misfits)
        )


_MISFIT = (IndexError, KeyError, TypeError, AttributeError, ValueError)


def _spelled(path: Path) -> str:
    return (
        "".join(f".{attribute_of(step)}" if attribute_of(step) else f"[{step!r}]" for step in path)
        or "the value"
    )


def _reach(live: Any, path: Path, decode: Callable[[Plain], object]) -> Any:
    for step in path:
        live = _attribute(live, name) if (name := attribute_of(step)) else live[_index(live, step, decode)]
    return live


def _index(live: Any, step: Plain, decode: Callable[[Plain], object]) -> Any:
    wanted: type = Sequence if type(step) is int else Mapping
    if not isinstance(live, wanted) or isinstance(live, str):
        raise TypeError(f"{type(live).__name__} is no {wanted.__name__.lower()}")
    return decode(step["key"]) if type(step) is dict else step


def _attribute(live: Any, name: str) -> Any:
    slot = _slot(live, name)
    if slot is not None:
        return slot.__get__(live)
    return getattr(live, name) if isinstance(live, tuple) else _contents(live)[name]


def _slot(live: Any, name: str) -> Any:
    member = inspect.getattr_static(type(live), name, None)
    return member if isinstance(member, MemberDescriptorType) else None


def _contents(live: Any) -> dict[str, Any]:
    # Past properties, validators and frozen classes: what is put back is the state, not an assignment.
    contents: dict[str, Any] = object.__getattribute__(live, "__dict__")
    return contents


def _put(live: Any, name: str, part: object) -> None:
    if (slot := _slot(live, name)) is not None:
        slot.__set__(live, part)
    else:
        _contents(live)[name] = part


def _set(target: Any, path: Path, value: Plain, decode: Callable[[Plain], object]) -> None:
    live, step = _reach(target, path[:-1], decode), path[-1]
    if name := attribute_of(step):
        _put(live, name, decode(value))
    else:
        live[_index(live, step, decode)] = decode(value)


def _del(target: Any, path: Path, value: None, decode: Callable[[Plain], object]) -> None:
    live, step = _reach(target, path[:-1], decode), path[-1]
    if not (name := attribute_of(step)):
        live.pop(_index(live, step, decode), None)
    elif (slot := _slot(live, name)) is not None:
        slot.__delete__(live)
    else:
        _contents(live).pop(name, None)


def _append(target: Any, path: Path, values: list[Plain], decode: Callable[[Plain], object]) -> None:
    _reach(target, path, decode).extend([decode(value) for value in values])


def _splice(target: Any, path: Path, value: list[Any], decode: Callable[[Plain], object]) -> None:
    start, stop, parts = value
    live = _reach(target, path, decode)
    items = list(live)
    new: list[Any] = []
    for part in parts:
        new.extend(items[part[0] : part[1]] if len(part) == 2 else [decode(part[0])])
    live[start:stop] = new


def _order(target: Any, path: Path, steps: list[Plain], decode: Callable[[Plain], object]) -> None:
    live = _reach(target, path, decode)
    for step in steps:
        if (key := _index(live, step, decode)) in live:
            live[key] = live.pop(key)


def _fill(target: Any, path: Path, value: Plain, decode: Callable[[Plain], object]) -> None:
    live, new = _reach(target, path, decode), decode(value)
    if isinstance(live, (MutableMapping, MutableSet, deque)) and isinstance(new, Collection):
        live.clear()
        (live.extend if isinstance(live, deque) else live.update)(new)  # type: ignore[union-attr]
    elif isinstance(live, MutableSequence) and isinstance(new, Collection):
        live[:] = new
    elif hasattr(type(live), "__array_interface__"):
        live[...] = new
    elif isinstance(live, (io.BytesIO, io.StringIO)) and type(live) is type(new):
        live.__setstate__(new.__getstate__())  # type: ignore[union-attr]
    elif type(live) is not type(new):
        raise TypeError(f"the recorded value is a {type(new).__name__}")
    _fill_attributes(live, new)


def _fill_attributes(live: Any, new: Any) -> None:
    if type(live) is not type(new):
        return
    for cls in type(live).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, MemberDescriptorType) and cls.__module__ != "builtins":
                _copy_slot(live, new, name, member)
    if hasattr(new, "__dict__"):
        contents = _contents(live)
        contents.clear()
        contents.update(_contents(new))


def _copy_slot(live: Any, new: Any, name: str, member: MemberDescriptorType) -> None:
    try:
        part = member.__get__(new)
    except AttributeError:
        with contextlib.suppress(AttributeError):
            member.__delete__(live)
    else:
        member.__set__(live, part)


_APPLIED: Final[dict[str, Callable[[Any, Path, Any, Callable[[Plain], object]], None]]] = {
    "set": _set,
    "del": _del,
    "append": _append,
    "splice": _splice,
    "order": _order,
    "fill": _fill,
}
