"""Classes by name, and names by class.

A recording names classes as ``module:QualName``. Reading one must not import anything, so a name
leads to a class only where its module is loaded already, or where the class is reachable from the
annotations of the recorded function.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MAX_HINT_CLASSES = 1000
"""Annotations lead from class to class; beyond this many the rest is left out."""


def type_name(cls: type) -> str:
    """Return ``module:QualName`` of a class, whatever its metaclass says."""
    return f"{_own_text(cls, '__module__')}:{_own_text(cls, '__qualname__')}"


def _own_text(cls: type, attribute: str) -> str:
    try:
        text = type.__getattribute__(cls, attribute)
    except Exception:
        text = None
    if not isinstance(text, str):
        return "?"
    return str.__str__(text).encode("utf-8", "backslashreplace").decode()


def look_up(name: str) -> object | None:
    """Return what ``module:QualName`` stands for in the modules that are loaded, else None.

    Goes through ``vars`` alone, for a module's or a class's ``__getattr__`` may import.
    """
    if name.endswith("]"):
        return _parametrised(name)
    if name in _WITHOUT_A_NAME:
        return _WITHOUT_A_NAME[name]
    module_name, _, qualname = name.partition(":")
    module = sys.modules.get(module_name)
    found: object | None = module if isinstance(module, types.ModuleType) else None
    for part in qualname.split("."):
        found = _member(found, part)
    return found


_WITHOUT_A_NAME: dict[str, type] = {
    type_name(cls): cls for cls in (types.NoneType, types.EllipsisType, types.NotImplementedType)
}
"""Built-in classes that ``builtins`` does not hold under the name that they have."""


def _member(holder: object | None, name: str) -> object | None:
    if not isinstance(holder, types.ModuleType | type):
        return None
    found = vars(holder).get(name)
    return found.__func__ if isinstance(found, staticmethod) else found


def _parametrised(name: str) -> object | None:
    """Return pydantic's ``Box[int]``, which is a subclass of ``Box`` that no module holds."""
    generic = look_up(name.partition("[")[0])
    if not isinstance(generic, type):
        return None
    derived: list[type] = type.__subclasses__(generic)
    return next((cls for cls in derived if type_name(cls) == name), None)


_HARMLESS_MODULES = frozenset(
    {
        "abc",
        "builtins",
        "collections",
        "collections.abc",
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "ipaddress",
        "math",
        "numbers",
        "typing",
        "uuid",
    }
)
_HARMFUL_BUILTINS = frozenset(
    {
        "__import__",
        "breakpoint",
        "compile",
        "delattr",
        "eval",
        "exec",
        "exit",
        "getattr",
        "globals",
        "input",
        "open",
        "quit",
        "setattr",
        "vars",
    }
)


def global_name(value: object) -> str | None:
    """Return ``module:QualName`` where looking that up gives this very object, else None."""
    try:
        name = _name_of(value, type(value))
        name.encode()
        return name if may_be_named(name) and look_up(name) is value else None
    except Exception:
        return None


def _name_of(value: Any, cls: type) -> str:
    if issubclass(cls, type):  # isinstance would ask the object for its __class__
        return type_name(value)
    if issubclass(cls, types.MethodDescriptorType | types.WrapperDescriptorType):
        return f"{type_name(value.__objclass__)}.{value.__name__}"
    return f"{value.__module__}:{getattr(value, '__qualname__', None) or value.__name__}"


def may_be_named(name: str) -> bool:
    """Whether a recording may refer to this object of a module.

    The standard library holds functions and classes that act on the machine as soon as they are
    called, so that a recording from a stranger could plant one where the agent calls what it was
    given. Of it only what makes and computes values is let through.
    """
    module, _, qualname = name.partition(":")
    if module == "builtins":
        return qualname not in _HARMFUL_BUILTINS
    return module in _HARMLESS_MODULES or module.partition(".")[0] not in sys.stdlib_module_names


class Classes:
    """Finds the class that a recorded name stands for, for one decoding."""

    def __init__(self, hints: Sequence[object] = (), aliases: Mapping[str, str] | None = None) -> None:
        self._hints = hints
        self._aliases = aliases or {}

    def current(self, name: str) -> str:
        """Return the name under which a moved class is known now."""
        return self._aliases.get(name, name)

    def find(self, name: str) -> type | None:
        """Return the class, or None where it is neither loaded nor hinted at."""
        name = self.current(name)
        found = look_up(name)
        return found if isinstance(found, type) else self._hinted.get(name)

    @cached_property
    def _hinted(self) -> dict[str, type]:
        return {type_name(cls): cls for cls in reversed(list(classes_in(self._hints)))}


def collect_hint_classes(function: Callable[..., Any]) -> list[type]:
    """Return the classes that the annotations of a callable lead to, nearest first; never raises."""
    try:
        return list(classes_in(_annotations(function)))
    except Exception:
        return []


def classes_in(hints: Iterable[object]) -> Iterator[type]:
    """Yield the classes in annotations: inside generics, unions, ``Annotated``, and fields of classes."""
    seen: set[int] = set()
    waiting = list(hints)
    classes = 0
    for hint in waiting:  # grows while it is walked
        if id(hint) in seen:
            continue
        seen.add(id(hint))
        waiting.extend(_inside(hint))
        if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
            yield hint
            classes += 1
            if classes >= MAX_HINT_CLASSES:
                return


def _inside(hint: object) -> list[object]:
    """Return the annotations that an annotation is made of."""
    try:
        if isinstance(hint, list | tuple):  # the parameters of a Callable
            return list(hint)
        if isinstance(hint, TypeVar):
            return [hint.__bound__, *hint.__constraints__]
        if isinstance(hint, typing.NewType):
            return [hint.__supertype__]
        if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
            return _fields_of(hint)
        origin = typing.get_origin(hint)
        value = getattr(hint, "__value__", None)  # a `type X = ...` alias
        return [part for part in (origin, value, *get_args(hint)) if part is not None]
    except Exception:
        return []


def _fields_of(cls: type) -> list[object]:
    """Return the annotations of a class and its bases; of libraries' own classes nothing."""
    root = cls.__module__.partition(".")[0]
    if root in sys.stdlib_module_names or root in ("attr", "attrs", "msgspec", "pydantic"):
        return []
    return [*_one_by_one(cls), *cls.__bases__, *_parts_of_generic(cls)]


def _parts_of_generic(cls: Any) -> list[object]:
    metadata = vars(cls).get("__pydantic_generic_metadata__") or {}
    return list(metadata.get("args", ()))


def _annotations(function: Any) -> list[object]:
    """Return the annotations of a callable, those that cannot be evaluated left out."""
    function = _plain_function(function)
    try:
        return list(typing.get_type_hints(function, include_extras=True).values())
    except Exception:
        return [*_one_by_one(function)]


def _plain_function(function: Any) -> Any:
    function = inspect.unwrap(getattr(function, "func", function))
    if isinstance(function, types.FunctionType | types.MethodType):
        return function
    calls = (vars(cls).get("__call__") for cls in type(function).__mro__)
    return next(filter(None, calls), function)


def _one_by_one(holder: Any) -> Iterator[object]:
    scope = _scope_of(holder)
    for hint in inspect.get_annotations(getattr(holder, "__func__", holder)).values():
        if not isinstance(hint, str):
            yield hint
            continue
        try:
            # The text is the source of the user's own annotation, which Python evaluates just so.
            yield eval(hint, scope)
        except Exception:
            continue


def _scope_of(holder: Any) -> dict[str, Any]:
    if isinstance(holder, type):
        module = sys.modules.get(holder.__module__)
        return {**vars(module), **vars(holder)} if module else {}
    function = getattr(holder, "__func__", holder)
    scope = dict(getattr(function, "__globals__", {}))
    try:
        scope.update(inspect.getclosurevars(function).nonlocals)
    except Exception:
        return scope
    return scope
