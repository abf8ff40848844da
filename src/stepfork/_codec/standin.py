"""What stands for a value that cannot be written, or whose class is not there on reading."""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from stepfork._codec.types import type_name
from stepfork.errors import StandInTouched

if TYPE_CHECKING:
    from stepfork._calls import Plain

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Opaque:
    """Stands for a recorded value that cannot be rebuilt here.

    It can be handed on, compared, and recorded again as what it was; anything else raises
    :class:`StandInTouched`, which says what it stands for.
    """

    __slots__ = ("_plain", "_why")

    def __init__(self, plain: dict[str, Plain], why: str) -> None:
        object.__setattr__(self, "_plain", plain)
        object.__setattr__(self, "_why", why)

    def __getattr__(self, name: str) -> Any:
        self._refuse(f"its attribute {name!r} was read")

    def __setattr__(self, name: str, value: object) -> None:
        self._refuse(f"its attribute {name!r} was set")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        self._refuse("it was called")

    def __getitem__(self, key: object) -> Any:
        self._refuse(f"its item {key!r} was read")

    def __iter__(self) -> Any:
        self._refuse("it was iterated over")

    def __len__(self) -> int:
        self._refuse("its length was asked for")

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and plain_of(self) == plain_of(other)

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self._plain, order="sorted"))

    def __repr__(self) -> str:
        return f"<stand-in for {name_of(self)}: {self._why}>"

    def __copy__(self) -> Opaque:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Opaque:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Opaque, (self._plain, self._why)

    def _refuse(self, touched: str) -> NoReturn:
        raise StandInTouched(
            f"{touched}, but this is a stand-in for {name_of(self)}: {self._why}",
            ways_on=(
                "name the class in the annotations of the recorded function, or import its module first",
                'map a class that has moved: [tool.stepfork.moved] "old.module:Name" = "new.module:Name"',
                "keep what cannot be recorded out of it with ignore=(...)",
            ),
            type=name_of(self),
        )


def plain_of(stand_in: Opaque) -> dict[str, Plain]:
    """Return the recorded form that the stand-in was made from."""
    plain: dict[str, Plain] = object.__getattribute__(stand_in, "_plain")
    return plain


def name_of(stand_in: Opaque) -> str:
    """Return ``module:QualName`` of what it stands for."""
    return str(next(iter(plain_of(stand_in).values()), "?"))


def opaque(value: object, note: str = "") -> dict[str, Plain]:
    """Return the placeholder of a value; the value itself is not asked for its repr."""
    text = f"<{_describe(value)}{note}>"
    return {"$opaque": type_name(type(value)), "repr": text.encode("utf-8", "backslashreplace").decode()}


def _describe(value: Any) -> str:
    cls = type(value)  # isinstance would ask the object for its __class__
    if issubclass(cls, types.FunctionType | types.BuiltinFunctionType):
        return f"function {value.__qualname__}"
    if cls is types.MethodType:
        return f"method {_qualname(value.__func__)}"
    if cls is types.ModuleType:
        return f"module {vars(value).get('__name__', '?')}"
    if issubclass(cls, type):
        return f"class {type_name(value).partition(':')[2]}"
    return f"{type_name(cls).partition(':')[2]} object"


def _qualname(function: Any) -> str:
    return function.__qualname__ if type(function) is types.FunctionType else "?"


def without_addresses(text: str) -> str:
    """Return the text with the memory addresses of default reprs taken out: they change from run to run."""
    return _ADDRESS.sub("", text)
