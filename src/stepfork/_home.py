"""Where the code of a run lives: its source file, its project. Looked up once, for it does not move."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import sysconfig
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stepfork._calls import Entry
from stepfork._frames import is_users
from stepfork._paths import marked_root

_INSIDE = ("__wrapped__", "func", "__func__")
"""Where decorators, partials and bound methods keep what they stand for."""

_LAYERS = 50
"""How deep that may go; an object that answers to every name goes on for ever."""

_LOOK_AGAIN = 1.0
"""Seconds after which a folder that is in no project is looked at again."""


class Home(NamedTuple):
    """The source file of a run's root, where there is one, and the project around it."""

    source: Path | None
    root: Path


_in_a_project: dict[str, Home] = {}
_elsewhere: dict[tuple[str, str], tuple[float, Home]] = {}


def home_of(file: str | None) -> Home:
    """Return where code of this file lives; its name need not be that of a file."""
    name = file or ""
    found = _in_a_project.get(name)
    if found is not None:
        return found
    # Both what is around it and the working directory may be another later.
    key = (name, os.getcwd())  # noqa: PTH109 - for speed
    until, found = _elsewhere.get(key, (0.0, None))
    if found is not None and time.monotonic() < until:
        return found
    return _look_up(name, key)


def _look_up(name: str, key: tuple[str, str]) -> Home:
    source = Path(name) if name and Path(name).exists() else None
    root = marked_root(source.parent) if source else None
    found = Home(source, root or marked_root(Path(key[1])) or Path(key[1]))
    if root is not None:
        _in_a_project[name] = found
    else:
        _elsewhere[key] = (time.monotonic() + _LOOK_AGAIN, found)
    return found


def file_of(function: Any) -> str | None:
    """Return the name of the file that a function was written in, below whatever wraps it."""
    code = getattr(innermost(function), "__code__", None)
    return None if code is None else str(code.co_filename)


def innermost(function: Any) -> Any:
    """Return what decorators, partials and bound methods stand for."""
    for _ in range(_LAYERS):
        inner = next((getattr(function, name, None) for name in _INSIDE if hasattr(function, name)), None)
        if inner is None:
            break
        function = inner
    return function


def entry_of(function: Any) -> Entry | None:
    """Return where a test finds the function again; None for what has no name."""
    inner = innermost(function)
    module, qualname = getattr(inner, "__module__", None), getattr(inner, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or not module or not qualname:
        return None
    source = home_of(file_of(inner)).source
    if module == "__mp_main__":  # what a process that was spawned calls the main module of its parent
        module = "__main__"
    return Entry(module, qualname, _relative_to_root(source) if source else "")


def entry_of_program(module: str, file: str | None) -> Entry:
    """Return where a test finds a program again: an entry without a name in its module.

    The command of an installed package has no file: it is none of a project.
    """
    if file is None or _is_installed(Path(file)):
        return Entry(module, "")
    return Entry(module, "", _relative_to_root(Path(file)))


def _is_installed(file: Path) -> bool:
    return file.absolute().parent in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts")))


_bound: dict[int, tuple[str, str]] = {}
"""By its id, the module and the name under which an object was found last."""


def entry_of_bound(instance: object, method: str) -> Entry | None:
    """Return where a test finds a method of an object that a module of the user holds under a name.

    None where no module does. Nothing of the object is asked, and no code of the user runs.
    """
    module, name = _bound.get(id(instance), ("", ""))
    if _held(module, name) is not instance:
        module, name = _name_of_object(instance)
        if not name:
            return None
        _bound[id(instance)] = (module, name)
    file = _own_file(sys.modules[module])
    return Entry(module, f"{name}.{method}", _relative_to_root(Path(file)) if file else "")


def _held(module: str, name: str) -> object:
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


def _name_of_object(instance: object) -> tuple[str, str]:
    """Return the module that most likely made it, and its name there; empty where there is none.

    That is the first one: what a module imports is loaded before it is. ``__main__`` stands before them all.
    """
    found = ("", "")
    for module_name, module in sys.modules.copy().items():
        file = _own_file(module)
        if file is None or not is_users(file):
            continue
        name = next((name for name, value in vars(module).copy().items() if value is instance), "")
        if name.isidentifier():
            if module_name not in _MAINS:
                return module_name, name
            found = ("__main__", name)
    return found


_MAINS = ("__main__", "__mp_main__")


def _own_file(module: object) -> str | None:
    """Return the file of a module, of a real one only: others may run code when they are asked."""
    if type(module) is not ModuleType:
        return None
    file = vars(module).get("__file__")
    return file if isinstance(file, str) else None


@functools.lru_cache(maxsize=1000)
def _relative_to_root(source: Path) -> str:
    resolved = source.resolve()
    root = marked_root(resolved.parent) or Path.cwd()
    with contextlib.suppress(ValueError):
        return resolved.relative_to(root).as_posix()
    return resolved.name
