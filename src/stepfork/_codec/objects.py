"""Instances of classes: dataclasses, attrs, msgspec, pydantic, and plain ones.

What is written is the state: the contents of ``__dict__`` and slots, and the value of a built-in
base class. Reading puts it back. No ``__init__``, ``__post_init__``, validator, ``__reduce__`` or
``__setstate__`` runs either way, and no class is touched that would do something when it is deleted.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork._codec.base import Reader, Walk, changed, escape_key, unescape_key
from stepfork._codec.bases import Base, base_of
from stepfork._codec.fields import Declared, declared_fields
from stepfork._codec.standin import Opaque
from stepfork._codec.types import may_be_named, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Plain

_RESOURCE_MODULES = frozenset(
    {
        "_io",
        "_queue",
        "_socket",
        "_ssl",
        "_thread",
        "anyio",
        "asyncio",
        "concurrent",
        "contextlib",
        "contextvars",
        "ctypes",
        "io",
        "logging",
        "mmap",
        "multiprocessing",
        "queue",
        "selectors",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "unittest",
        "weakref",
    }
)
"""What lives here stands for something outside the value: a lock, a file, a task, a test double."""

_NO_STATE = frozenset({"__dict__", "__weakref__"})
_CACHED_HASH = "_attrs_cached_hash"
"""Where attrs keeps a hash, which is another in each process; None has it computed anew."""


class Shape(NamedTuple):
    """Where the instances of a class keep their state."""

    name: str
    """``module:QualName`` of the class."""
    slots: dict[str, Any]
    """Slot name -> its descriptor."""
    contents: Any
    """The descriptor of ``__dict__``, or None."""
    declared: Declared | None
    """The fields that the class itself declares; None for a plain class."""
    base: Base | None
    """The built-in class whose value the instances hold as well."""

    def allocate(self, cls: type, exact: object) -> object:
        """Return a new instance without attributes; ``exact`` is the value of an immutable base."""
        if self.base is not None:
            return self.base.make(cls, exact)
        if self.declared is not None and self.declared.allocate is not None:
            return self.declared.allocate(cls)
        return object.__new__(cls)

    def state_of(self, value: object) -> dict[str, object]:
        """Return the attributes that an instance holds, in order, properties left out."""
        state = {}
        for name, slot in self.slots.items():
            try:
                state[name] = slot.__get__(value)
            except AttributeError:
                continue
        if self.contents is not None:
            state.update(self.contents.__get__(value))
        if _CACHED_HASH in state:
            state[_CACHED_HASH] = None
        return state

    def put(self, value: object, name: str, part: object) -> bool:
        """Set one attribute; False where the class has no room for it."""
        if name in self.slots:
            self.slots[name].__set__(value, part)
        elif self.contents is not None:
            self.contents.__get__(value)[name] = part
        else:
            return False
        return True


_SHAPES: dict[type, Shape] = {}
_MANY_CLASSES = 4096
"""Classes that are made at run time would pile up in the caches."""


def shape_of(cls: type) -> Shape:
    """Return where the instances of a class keep their state."""
    if (shape := _SHAPES.get(cls)) is None:
        if len(_SHAPES) > _MANY_CLASSES:
            _SHAPES.clear()
        base = base_of(cls)
        slots = dict(_slots(cls, base.cls if base else object))
        name = type_name(cls)
        shape = _SHAPES[cls] = Shape(name, slots, _contents(cls), declared_fields(cls), base)
    return shape


def _slots(cls: type, base: type) -> Iterator[tuple[str, Any]]:
    for layer in reversed(cls.__mro__):
        if layer.__flags__ & _MADE_BY_PYTHON and layer not in base.__mro__:
            for name, member in vars(layer).items():
                if isinstance(member, types.MemberDescriptorType) and name not in _NO_STATE:
                    yield name, member


_MADE_BY_PYTHON = 1 << 9
"""Py_TPFLAGS_HEAPTYPE"""


def _contents(cls: type) -> Any:
    members = (vars(layer).get("__dict__") for layer in cls.__mro__)
    kinds = types.GetSetDescriptorType | types.MemberDescriptorType
    return next((member for member in members if isinstance(member, kinds)), None)


def can_be_rebuilt(cls: type) -> bool:
    """Whether an instance is its state and nothing else, and can be made without its own code."""
    if (answer := _REBUILT.get(cls)) is None:
        if len(_REBUILT) > _MANY_CLASSES:
            _REBUILT.clear()
        answer = _REBUILT[cls] = _is_only_state(cls)
    return answer


_REBUILT: dict[type, bool] = {}


def _is_only_state(cls: type) -> bool:
    shape = shape_of(cls)
    if any("__del__" in vars(layer) for layer in cls.__mro__):
        return False
    if shape.declared is None and shape.base is None and _is_resource(cls):
        return False
    try:
        shape.allocate(cls, shape.base.sample if shape.base else None)
    except Exception:
        return False
    return True


def _is_resource(cls: type) -> bool:
    names = {name for layer in cls.__mro__[:-1] for name in vars(layer)}
    return (
        any(layer.__module__.partition(".")[0] in _RESOURCE_MODULES for layer in cls.__mro__)
        or ("close" in names and not names.isdisjoint({"__enter__", "__aenter__"}))
        or "__next__" in names
        or "__anext__" in names
    )


def write_object(value: object, walk: Walk) -> Plain:
    """Write an instance of a class that :func:`can_be_rebuilt`."""
    cls = type(value)
    shape = shape_of(cls)
    state = shape.state_of(value)
    if not state and shape.base is None and (name := name_in_module(value, cls)):
        return {"$global": name}
    walk.spend(512)
    plain: dict[str, Plain] = {"$object": shape.name}
    if shape.base is not None:
        if not shape.base.mutable:
            plain["of"] = shape.base.cls.__name__
        plain["base"] = walk.child(shape.base.exact(value))
    return plain | _write_state(state, shape.declared, walk)


def name_in_module(value: object, cls: type) -> str | None:
    """Return the name of a sentinel, which is compared by identity: ``NOT_GIVEN`` is to come back itself."""
    module = sys.modules.get(cls.__module__)
    if not isinstance(module, types.ModuleType):
        return None
    names = [f"{cls.__module__}:{name}" for name, member in vars(module).copy().items() if member is value]
    return next(filter(may_be_named, names), None)


def _write_state(state: dict[str, object], declared: Declared | None, walk: Walk) -> dict[str, Plain]:
    if declared is None:
        return {"state": _write_fields(state, walk)}
    fields = {name: state.pop(name) for name in declared.fields if name in state}
    declared.drop_usual(state, fields)
    plain: dict[str, Plain] = {"state": _write_fields(fields, walk)}
    if len(fields) < len(declared.fields):
        plain["unset"] = [name for name in declared.fields if name not in fields]
    if state:
        plain["extra"] = _write_fields(state, walk)
    return plain


def _write_fields(fields: dict[str, object], walk: Walk) -> dict[str, Plain]:
    child = walk.child
    return {_KEYS.get(name) or _key(name): child(part) for name, part in fields.items()}


_KEYS: dict[object, str] = {}
"""Name of an attribute -> how it stands in a recording."""


def _key(name: object) -> str:
    key = escape_key(name)
    if len(_KEYS) < _MANY_CLASSES:
        _KEYS[name] = key
    return key


def begin_object(plain: dict[str, Plain], reader: Reader) -> object:
    """Return the instance before it has attributes, or a stand-in where the class is not to be had."""
    cls = reader.classes.find(plain["$object"])
    if cls is None:
        return reader.stand_in(plain, "its class is not loaded")
    if not can_be_rebuilt(cls):
        return reader.stand_in(plain, "an instance of its class cannot be made without running its code")
    shape = shape_of(cls)
    if (shape.base is not None) != ("base" in plain):
        raise changed(type_name(cls), "base", "is another built-in class now")
    exact = None
    if shape.base is not None and not shape.base.mutable:
        exact = reader.child(plain["base"])
        if isinstance(exact, Opaque):
            return reader.stand_in(plain, "a part of it cannot be rebuilt")
    return shape.allocate(cls, exact)


def finish_object(value: object, plain: dict[str, Plain], reader: Reader) -> None:
    """Give the instance that :func:`begin_object` returned its attributes."""
    if isinstance(value, Opaque):
        return
    cls = type(value)
    shape = shape_of(cls)
    if shape.base is not None and shape.base.mutable:
        shape.base.fill(value, reader.child(plain["base"]))
    state = {unescape_key(name): reader.child(part) for name, part in plain["state"].items()}
    extra = {unescape_key(name): reader.child(part) for name, part in plain.get("extra", {}).items()}
    if shape.declared is not None:
        _fit(cls, shape.declared, state, plain.get("unset", []))
        shape.declared.add_usual(cls, state, extra)
    for name, part in {**state, **extra}.items():
        if not shape.put(value, name, part):
            raise changed(type_name(cls), name, "is gone")
    if shape.declared is not None:
        _add_defaults(value, shape, {*state, *plain.get("unset", [])})


def _fit(cls: type, declared: Declared, state: dict[str, object], unset: list[str]) -> None:
    """Raise ClassChanged where the recorded fields are not those of the class as it is now."""
    for name in (*state, *unset):
        if name not in declared.fields:
            raise changed(type_name(cls), name, "is gone")
    for name, default in declared.fields.items():
        if default is None and name not in state and name not in unset:
            raise changed(type_name(cls), name, "is new and has no default")


def _add_defaults(value: object, shape: Shape, recorded: set[str]) -> None:
    assert shape.declared is not None
    for name, default in shape.declared.fields.items():
        if name not in recorded and default is not None:
            shape.put(value, name, default(value))


def write_namedtuple(value: Any, walk: Walk) -> Plain:
    """Write a named tuple by the names of its fields."""
    cls = type(value)
    fields = dict(zip(cls._fields, tuple.__iter__(value), strict=True))
    return {"$object": type_name(cls), "of": "namedtuple", "state": _write_fields(fields, walk)}


def read_namedtuple(plain: dict[str, Plain], reader: Reader) -> object:
    """Return the named tuple, new fields filled with their defaults."""
    cls: Any = reader.classes.find(plain["$object"])
    if cls is None or not is_namedtuple(cls):
        return reader.stand_in(plain, "its class is not loaded")
    state = {unescape_key(name): reader.child(part) for name, part in plain["state"].items()}
    for name in state:
        if name not in cls._fields:
            raise changed(type_name(cls), name, "is gone")
    for name in cls._fields:
        if name not in state and name not in cls._field_defaults:
            raise changed(type_name(cls), name, "is new and has no default")
    return tuple.__new__(
        cls, [state[name] if name in state else cls._field_defaults[name] for name in cls._fields]
    )


def is_namedtuple(cls: type) -> bool:
    """Whether the class was made by ``namedtuple`` or ``NamedTuple``."""
    if not issubclass(cls, tuple):
        return False
    return any(isinstance(vars(layer).get("_fields"), tuple) for layer in cls.__mro__)
