"""The fields that a class declares, by the library that it is made with, and their defaults."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    Default: TypeAlias = Callable[[Any], Any]
    """Instance -> the default of a field; only those of attrs look at the instance."""

_FIELDS_SET, _EXTRA, _PRIVATE = "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"


class Declared(NamedTuple):
    """What a class says about its instances."""

    fields: dict[str, Default | None]
    """Field -> its default; None for one that must be given."""
    allocate: Callable[[type], Any] | None = None
    """Returns an instance without state, where ``object.__new__`` cannot."""
    pydantic: bool = False

    def drop_usual(self, extra: dict[str, object], fields: dict[str, object]) -> None:
        """Take out of the further state what it would be anyway."""
        if self.pydantic:
            if extra.get(_FIELDS_SET) == set(fields):
                del extra[_FIELDS_SET]
            for name in (_EXTRA, _PRIVATE):
                if not extra.get(name):
                    extra.pop(name, None)

    def add_usual(self, cls: Any, fields: dict[str, object], extra: dict[str, object]) -> None:
        """Undo :meth:`drop_usual`, and fill private attributes that are new."""
        if self.pydantic:
            extra.setdefault(_FIELDS_SET, set(fields))
            extra.setdefault(_EXTRA, {} if cls.model_config.get("extra") == "allow" else None)
            extra[_PRIVATE] = _private_attributes(cls, extra.get(_PRIVATE))


def declared_fields(cls: type) -> Declared | None:
    """Return what a dataclass, an attrs class, a Struct or a pydantic model declares; None for others."""
    anything: Any = cls
    try:
        if _has(cls, "__pydantic_fields_set__") and isinstance(vars(cls).get("__pydantic_fields__"), dict):
            return Declared(_of_pydantic(anything), pydantic=True)
        if issubclass(cls, msgspec.Struct):
            return Declared(_of_struct(anything), allocate=_struct_allocator(anything))
        if _has(cls, "__dataclass_fields__"):
            return Declared({field.name: _of_dataclass(field) for field in dataclasses.fields(anything)})
        if _has(cls, "__attrs_attrs__"):
            return Declared({field.name: _of_attrs(field) for field in anything.__attrs_attrs__})
    except Exception:
        return None
    return None


def _has(cls: type, name: str) -> bool:
    """Whether a class or one of its bases has the attribute; its metaclass is not asked."""
    return any(name in vars(layer) for layer in cls.__mro__)


def _of_dataclass(field: dataclasses.Field[Any]) -> Default | None:
    if field.default_factory is not dataclasses.MISSING:
        factory = field.default_factory
        return lambda owner: factory()
    return None if field.default is dataclasses.MISSING else _constant(field.default)


def _constant(value: object) -> Default:
    return lambda owner: value


def _of_attrs(field: Any) -> Default | None:
    default = field.default
    if default is sys.modules["attr"].NOTHING:
        return None
    if not isinstance(default, sys.modules["attr"].Factory):
        return _constant(default)
    factory = default.factory
    return factory if default.takes_self else lambda owner: factory()


def _of_pydantic(cls: Any) -> dict[str, Default | None]:
    return {
        name: None if field.is_required() else _pydantic_default(field)
        for name, field in cls.__pydantic_fields__.items()
    }


def _pydantic_default(field: Any) -> Default:
    return lambda owner: field.get_default(call_default_factory=True, validated_data={})


def _private_attributes(cls: Any, recorded: Any) -> dict[str, object] | None:
    if not cls.__private_attributes__:
        return recorded  # type: ignore[no-any-return]
    defaults = {name: attribute.get_default() for name, attribute in cls.__private_attributes__.items()}
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    return {name: value for name, value in defaults.items() if value is not undefined} | dict(recorded or {})


def _of_struct(cls: Any) -> dict[str, Default | None]:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    required = len(names) - len(defaults)
    return dict.fromkeys(names[:required]) | {
        name: _struct_default(default) for name, default in zip(names[required:], defaults, strict=True)
    }


def _struct_default(default: Any) -> Default | None:
    if default is msgspec.NODEFAULT:
        return None
    factory = getattr(default, "factory", None) if type(default).__module__.startswith("msgspec") else None
    return _constant(default) if factory is None else lambda owner: factory()


def _struct_allocator(cls: Any) -> Callable[[type], Any] | None:
    """Return how to make an instance without ``__post_init__``; None where there is no way.

    A Struct is only made by its constructor. So a derived class whose ``__post_init__`` does
    nothing makes it, and the instance is given its own class afterwards.
    """
    maker = cls
    if "__post_init__" in {name for layer in cls.__mro__ for name in vars(layer)}:
        if "__init_subclass__" in {name for layer in cls.__mro__[:-2] for name in vars(layer)}:
            return None  # deriving would run it
        frozen = cls.__struct_config__.frozen
        quiet = {"__post_init__": lambda self: None}
        maker = msgspec.defstruct(cls.__name__, [], bases=(cls,), namespace=quiet, frozen=frozen)

    def allocate(cls: type) -> Any:
        made = maker(**dict.fromkeys(maker.__struct_fields__))
        object.__dict__["__class__"].__set__(made, cls)
        return made

    return allocate
