"""Tools that are named, as ``module:function``, because no request names the functions that run them.

The module may be imported later, or run as the program itself.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork._as_main import when_defined
from stepfork._context import replay_is_open, tools_on
from stepfork._spec import name_of
from stepfork._warn import warn_once
from stepfork.adapters import _plain_tools_turn as turn
from stepfork.adapters._plain_tools_functions import is_decorated, targets
from stepfork.adapters._plain_tools_members import (
    Gone,
    is_users_namespace,
    member,
    namespace_of,
    own,
    text_of,
)
from stepfork.errors import DecorationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType

_WILD = frozenset("*?[")


class Entry(NamedTuple):
    """``module:qualname``, where the last part may be a pattern, or ``module:qualname=tool``."""

    module: str
    qualname: str
    tool: str

    @classmethod
    def of(cls, text: str) -> Entry:
        """Read it; what is no such text names nothing."""
        where, _, tool = text.partition("=")
        module, _, qualname = where.partition(":")
        return cls(module, qualname, tool)


waiting: set[Entry] = set()
"""Those of modules that were not there yet."""
_all: set[Entry] = set()
"""All of them: a program may run again, and define a name twice."""


def name_tools(tools: Iterable[Any]) -> None:
    """Make tools of these functions, or of those that ``module:qualname`` names, once they are there.

    Raises DecorationError for what is no function of Python's.
    """
    for tool in tools:
        text = text_of(tool)
        if text is None:
            _turn(tool, "")
        else:
            _name_tool(text)


def apply_to(namespaces: Iterable[Mapping[str, Any]]) -> None:
    """Make tools of the functions that are waited for and stand in one of these modules."""
    if not waiting:
        return
    for names in namespaces:
        for entry in [each for each in waiting if _is_of(each, names)]:
            if _apply(entry, names):
                waiting.discard(entry)


def forget() -> None:
    """Wait for nothing any more."""
    waiting.clear()
    _all.clear()
    if _defined in when_defined:
        when_defined.remove(_defined)


def main_names() -> Mapping[str, Any]:
    """Return the names of the program that runs."""
    module = sys.modules.get("__main__")
    return namespace_of(module) if module is not None else {}


def _name_tool(text: str) -> None:
    import wrapt

    entry = Entry.of(text)
    tools_on.add(text)
    waiting.add(entry)
    _all.add(entry)
    if _defined not in when_defined:
        when_defined.append(_defined)
    apply_to(
        [
            namespace_of(module)
            for name, module in sys.modules.copy().items()
            if name in ("__main__", entry.module) or name.endswith(f".{entry.module}")
        ]
    )
    if entry in waiting:
        wrapt.register_post_import_hook(_imported, entry.module)


def _defined(names: dict[str, Any], name: str) -> None:
    """Make a tool of what a line of the program has defined just now: the next may call it."""
    if not callable(names[name]):
        return
    try:
        for entry in [each for each in _all if fnmatchcase(name, each.qualname.partition(".")[0])]:
            if _is_of(entry, names):
                _apply(entry, names)
    except Exception as fault:  # in the midst of the user's program
        if replay_is_open():
            raise
        warn_once(f"stepfork cannot make a tool of {name}: {type(fault).__name__}: {fault}")


def _imported(module: ModuleType) -> None:
    try:
        apply_to([namespace_of(module)])
    except Exception as fault:  # in the midst of the user's import
        if replay_is_open():
            raise  # else they would run
        warn_once(f"stepfork cannot find the tools of {module.__name__}: {type(fault).__name__}: {fault}")


def _is_of(entry: Entry, names: Mapping[str, Any]) -> bool:
    module, file = names.get("__name__"), names.get("__file__")
    if type(module) is not str:
        return False
    if module == "__main__" and type(file) is str:
        return entry.module in ("__main__", turn.main_module(names))
    # What ran as a program may be imported from elsewhere; a library's module may be called so too.
    return module == entry.module or (module.endswith(f".{entry.module}") and is_users_namespace(names))


def _apply(entry: Entry, names: Mapping[str, Any]) -> bool:
    found = list(_found(entry, names))
    for value in found:
        _turn(value, entry.tool)
    return bool(found)


def _found(entry: Entry, names: Mapping[str, Any]) -> Iterator[Any]:
    *path, last = entry.qualname.split(".")
    held: Any = names
    try:
        for part in path:
            held = own(member(held, ("item", part))) if held is names else own(held[part])
    except (Gone, KeyError, TypeError):
        return
    if not _WILD.intersection(last):
        if last in held:
            yield held[last]
        return
    for name, value in held.copy().items():
        is_public = not name.startswith("_") or last.startswith("_")
        if is_public and fnmatchcase(name, last) and _is_own_function(value, names):
            yield value


def _is_own_function(value: Any, names: Mapping[str, Any]) -> bool:
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    return type(value) is FunctionType and value.__module__ == names.get("__name__")


def _turn(value: Any, tool: str) -> None:
    found = targets(value)
    for target in found:
        function = target.function
        if is_decorated(function):
            continue
        if type(function) is not FunctionType:
            break
        turn.turn_into_tool(function, tool or name_of(function), is_method=target.is_method)
    else:
        if found:
            return
    raise DecorationError(
        f"{value!r:.100} is no function of Python's, and cannot be made a tool in its place",
        ways_on=["stepfork.tool(function, name=...) makes one that you can put there"],
    )
