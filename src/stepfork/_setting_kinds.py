"""The kinds of values that settings have: how each is checked, and read from text.

``check`` takes a value as pyproject.toml or a keyword gives it, ``parse`` the text of an environment
variable. Both return the value that the settings hold, or raise a ValueError or TypeError that says
what is wrong with it.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")


_NAMED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""``module:function``"""


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """A function that is imported when it is first called, so that reading settings imports nothing.

    What the import raises, the call raises.
    """

    name: str

    def __call__(self, *args: Any) -> Any:
        module, _, attributes = self.name.partition(":")
        function = attrgetter(attributes)(importlib.import_module(module))
        return function(*args)


class Kind(NamedTuple):
    """A kind of value."""

    label: str
    """What is expected, for a person."""
    check: Callable[[Any], Any]
    parse: Callable[[str], Any]


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError(f"it is of type {type(value).__name__}")


def _flag_from_text(text: str) -> bool:
    word = text.lower()
    if word not in _ON + _OFF:
        raise ValueError("it is neither of the two")
    return word in _ON


def _path(value: object) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"it is of type {type(value).__name__}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError("it is no path")
    return Path(text).expanduser()


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes | dict):
        raise TypeError(f"it is of type {type(value).__name__}")
    texts = tuple(value)  # type: ignore[var-annotated, arg-type]  # what cannot be walked is a TypeError too
    for text in texts:
        if not isinstance(text, str) or not text:
            raise ValueError(f"{text!r} is no text")
    return texts


def _patterns(value: object) -> tuple[str, ...]:
    patterns = _texts(value)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return patterns


def _list_from_text(separator: str) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        return [part.strip() for part in text.split(separator) if part.strip()]

    return split


_TOOL = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[\w.*?\[\]!-]+(=.+)?")
"""``module:function``, where the function may be a pattern, and ``=tool`` may follow"""


def as_tools(value: Any) -> tuple[Any, ...]:
    """Return what names functions that are tools; raises TypeError or ValueError for anything else."""
    if isinstance(value, str | bytes | dict):
        raise TypeError(f"it is of type {type(value).__name__}")
    tools = tuple(value)
    for tool in tools:
        if not callable(tool) and not (isinstance(tool, str) and _TOOL.fullmatch(tool)):
            raise ValueError(f"{tool!r} is neither a function nor of the form module:function")
    return tools


def _reference(value: object) -> Callable[..., object]:
    if callable(value):
        return value
    if isinstance(value, str) and _NAMED.fullmatch(value):
        return NamedFunction(value)
    raise ValueError("it is neither a function nor the name of one")


def _function(value: object) -> Callable[..., object]:
    if callable(value):
        return value
    raise TypeError(f"it is of type {type(value).__name__}, which cannot be called")


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) and key for key in value):
        raise TypeError("its keys are not all texts" if isinstance(value, dict) else "it is no table")
    return dict(value)


def _name_table(value: object) -> dict[str, str]:
    table = _table(value)
    for name in (*table, *table.values()):
        if not isinstance(name, str) or ":" not in name:
            raise ValueError(f"{name!r} is not of the form module:Class")
    return table


def _json(text: str) -> Any:
    import msgspec

    return msgspec.json.decode(text)


def _number(low: float, high: float, *, above: bool = False) -> Callable[[object], float]:
    def number(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"it is of type {type(value).__name__}")
        if not math.isfinite(value) or not low <= value <= high or (above and value == low):
            raise ValueError("it is out of range")
        return float(value)

    return number


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"it is of type {type(value).__name__}")
    if value < 0:
        raise ValueError("it is negative")
    return value


def _kind(label: str, check: Callable[[Any], Any], read: Callable[[str], Any]) -> Kind:
    return Kind(label, check, lambda text: check(read(text)))


FLAG = Kind("true or false; in the environment on or off", _flag, _flag_from_text)
PATH = _kind("a path", _path, str)
NAMES = _kind("a list of texts", _texts, _list_from_text(","))
TOOLS = _kind("a list of functions by name, module:function", as_tools, _list_from_text(","))
PATTERNS = _kind("a list of regular expressions", _patterns, _list_from_text("\n"))
FUNCTION = _kind("a function, or its name as module:function", _reference, str)
CALLABLE = _kind("a function", _function, str)
TABLE = _kind("a table with texts as keys", _table, _json)
NAME_TABLE = _kind("a table from module:Class to module:Class", _name_table, _json)
SECONDS = _kind("a number of seconds above 0", _number(0, math.inf, above=True), float)
DAYS = _kind("a number of days above 0", _number(0, math.inf, above=True), float)
SHARE = _kind("a number from 0 to 1", _number(0, 1), float)
BYTES = _kind("a whole number of bytes, 0 or more", _whole, int)
