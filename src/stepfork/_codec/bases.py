"""The built-in classes that people derive from, each with how its value is read and put back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Base(NamedTuple):
    """One built-in class. Only its own methods are called, never those of the derived class."""

    cls: type
    exact: Callable[[Any], Any]
    """Instance of a derived class -> the value it holds, of a class that is written without asking on."""
    sample: Any
    """A value, for trying out whether an instance can be made."""
    make: Callable[[type, Any], Any]
    """Returns a new instance; of a mutable class, an empty one."""
    fill: Callable[[Any, Any], Any] = lambda value, exact: None
    mutable: bool = False


def _of(cls: Any, exact: Callable[[Any], Any], sample: Any) -> Base:
    return Base(cls, exact, sample, lambda derived, value: cls.__new__(derived, value))


def _filled(cls: Any, exact: Callable[[Any], Any], fill: Callable[[Any, Any], Any]) -> Base:
    return Base(cls, exact, None, lambda derived, value: cls.__new__(derived), fill, mutable=True)


def _date(cls: Any, value: Any) -> Any:
    return date.__new__(cls, value.year, value.month, value.day)


def _datetime(cls: Any, value: Any) -> Any:
    fields = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return datetime.__new__(cls, *fields, tzinfo=value.tzinfo, fold=value.fold)


def _time(cls: Any, value: Any) -> Any:
    fields = (value.hour, value.minute, value.second, value.microsecond)
    return time.__new__(cls, *fields, tzinfo=value.tzinfo, fold=value.fold)


def _timedelta(cls: Any, value: Any) -> Any:
    return timedelta.__new__(cls, value.days, value.seconds, value.microseconds)


def _exact_path(value: PurePath) -> PurePath:
    cls = PureWindowsPath if issubclass(type(value), PureWindowsPath) else PurePosixPath
    return cls(PurePath.__str__(value))


def _path(cls: Any, value: PurePath) -> Any:
    path = PurePath.__new__(cls, value)
    if PurePath.__init__ is not object.__init__:  # from Python 3.12 on that is what takes the text
        PurePath.__init__(path, value)  # type: ignore[call-arg]
    return path


def _fill_ordered(value: Any, exact: dict[Any, Any]) -> None:
    for key, part in exact.items():
        OrderedDict.__setitem__(value, key, part)


_factory: Any = vars(defaultdict)["default_factory"]


def _fill_default(value: Any, exact: tuple[Any, dict[Any, Any]]) -> None:
    factory, contents = exact
    _factory.__set__(value, factory)
    dict.update(value, contents)


def _fill_deque(value: Any, exact: tuple[int | None, list[Any]]) -> None:
    deque.__init__(value, exact[1], exact[0])


_BASES = (
    _filled(OrderedDict, lambda value: dict(OrderedDict.items(value)), _fill_ordered),
    _filled(defaultdict, lambda value: (_factory.__get__(value), dict.copy(value)), _fill_default),
    _filled(deque, lambda value: (value.maxlen, list(deque.__iter__(value))), _fill_deque),
    _filled(dict, dict.copy, dict.update),
    _filled(list, lambda value: list(list.__iter__(value)), list.extend),
    _filled(set, lambda value: set.union(set(), value), set.update),
    _filled(SimpleNamespace, lambda value: None, lambda value, exact: None),
    _filled(bytearray, lambda value: bytearray(memoryview(value)), bytearray.extend),
    _of(frozenset, lambda value: frozenset(frozenset.__iter__(value)), frozenset()),
    _of(tuple, lambda value: tuple(tuple.__iter__(value)), ()),
    _of(str, str.__str__, ""),
    _of(bytes, lambda value: bytes(memoryview(value)), b""),
    _of(int, int.__int__, 0),
    _of(float, float.__float__, 0.0),
    _of(complex, complex.__complex__, 0j),
    _of(Decimal, Decimal, Decimal(0)),
    Base(PurePath, _exact_path, PurePosixPath(), _path),
    Base(datetime, lambda value: _datetime(datetime, value), datetime.min, _datetime),
    Base(date, lambda value: _date(date, value), date.min, _date),
    Base(time, lambda value: _time(time, value), time.min, _time),
    Base(timedelta, lambda value: _timedelta(timedelta, value), timedelta(), _timedelta),
)


def base_of(cls: type) -> Base | None:
    """Return the most derived of the built-in classes that a class derives from; None if there is none."""
    known = {base.cls: base for base in _BASES}
    return next((known[layer] for layer in cls.__mro__ if layer in known), None)
