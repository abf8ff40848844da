"""Finds the functions that carry out the tools of a request, from where the request is made.

The search goes from the local and global names of the user's code on the stack through what they hold:
tables, lists, objects, modules, closures.
"""

from __future__ import annotations

import collections
import inspect
import re
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from stepfork._spec import spec_of
from stepfork.adapters._plain_tools_functions import Target, is_callable, is_decorated, targets
from stepfork.adapters._plain_tools_members import (
    Gone,
    Step,
    is_table,
    is_users_class,
    is_users_function,
    is_users_namespace,
    member,
    members,
    namespace_of,
    own,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

Root: TypeAlias = "types.CodeType | dict[str, Any]"
"""Where a path begins: the locals of the nearest frame with this code, or the names of a module."""

MOST_VALUES = 20_000
"""How many values one search looks at."""

_DEEPEST = 5

_ATOMS = frozenset({str, int, float, bool, bytes, type(None), complex, range, bytearray, slice})

_NAMES = ("name", "tool_name", "tool", "function_name", "__tool_name__")
"""Where an entry of a table, or an object, says which tool it is."""


class Path(NamedTuple):
    """How to come to a value again when the same code is at work, with other objects."""

    root: Root
    steps: tuple[Step, ...]

    def beyond(self, step: Step) -> Path:
        """Return the path to a member of what stands there."""
        return Path(self.root, (*self.steps, step))

    @property
    def key(self) -> Hashable:
        """Equal for equal paths; keys that may bring code of their own are told apart by identity."""
        return id(self.root), tuple(
            (how, key if type(key) in (str, int) else id(key)) for how, key in self.steps
        )

    @property
    def holder(self) -> Path | None:
        """The path to what holds the value; None where that is a function's locals."""
        above = Path(self.root, self.steps[:-1])
        return None if isinstance(self.root, types.CodeType) and not above.steps else above

    def value(self, view: View) -> Any:
        """Return what stands there now; raises Gone where nothing does."""
        value: Any = view.locals_of(self.root) if isinstance(self.root, types.CodeType) else self.root
        for step in self.steps:
            value = member(value, step)
        return value


class View:
    """The frames from which functions are looked for."""

    def __init__(self, frames: Sequence[types.FrameType]) -> None:
        self.frames = frames
        self.codes = tuple(frame.f_code for frame in frames)
        self._locals: dict[int, dict[str, Any]] = {}

    def locals_of(self, code: types.CodeType) -> dict[str, Any]:
        """Return the local names of the nearest frame with this code; raises Gone where there is none."""
        key = id(code)
        if key not in self._locals:
            frame = next((each for each in self.frames if each.f_code is code), None)
            if frame is None:
                raise Gone
            self._locals[key] = _locals_of(frame)
        return self._locals[key]


def _locals_of(frame: types.FrameType) -> dict[str, Any]:
    """Return the local names of a frame, and leave it as it was.

    Up to Python 3.12 a function has a single dictionary for them. Whoever reads it brings it up to date, also
    for those that ``locals()`` gave it to, and it holds the values even of names that are deleted then.
    """
    code = frame.f_code
    if sys.version_info >= (3, 13) or not code.co_flags & inspect.CO_OPTIMIZED:
        return dict(frame.f_locals)
    if not _HOLDING.isdisjoint(code.co_names):
        return {}
    names = frame.f_locals
    found = dict(names)
    if sys.gettrace() is None and _EVALUATING.isdisjoint(code.co_names):  # a debugger may hold it too
        names.clear()
    return found


_HOLDING = frozenset({"locals", "vars", "f_locals"})
"""The names in code that may keep the dictionary of its local names."""

_EVALUATING = frozenset({"exec", "eval"})
"""And of what keeps names of its own in it."""


class Found(NamedTuple):
    """A place where what carries out a tool stands."""

    name: str
    path: Path
    targets: tuple[Target, ...]


def find(names: Iterable[str], view: View) -> list[Found]:
    """Return the places where the functions of these tools stand, seen from there.

    They are called like the tool, or stand under its name or next to it. Where there is none for a name,
    functions are taken that are called nearly so (``tool_refund``).
    """
    wanted = {name: name for name in names}
    found = _Search(wanted).run(view)
    seen = {each.name for each in found}
    nearly = {alias: name for name in wanted if name not in seen for alias in _aliases(name)}
    return found + (_Search(nearly).run(view) if nearly else [])


_PREFIXES = (
    "tool_",
    "_tool_",
    "_",
    "do_",
    "_do_",
    "handle_",
    "_handle_",
    "run_",
    "_run_",
    "execute_",
    "call_",
)
_SUFFIXES = ("_tool", "_impl", "_handler", "_fn", "_func")


def _aliases(name: str) -> Iterator[str]:
    plain = re.sub(r"\W", "_", name)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
    for each in dict.fromkeys((plain, snake, re.split(r"\W", name)[-1])):
        if each:
            yield each
            yield from (prefix + each for prefix in _PREFIXES)
            yield from (each + suffix for suffix in _SUFFIXES)


class _Search:
    """One search, breadth first: what is near the request is found where there is too much to see all."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self._wanted = wanted
        self._found: dict[tuple[str, int], Found] = {}
        self._waiting: collections.deque[tuple[Any, Path, int]] = collections.deque()
        self._seen: dict[int, object] = {}
        """What was looked at, held so that no identity is used twice."""

    def run(self, view: View) -> list[Found]:
        for frame in view.frames:
            is_of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
            if is_of_function or frame.f_locals is not frame.f_globals:
                self._look_into_members(view.locals_of(frame.f_code), Path(frame.f_code, ()), 0)
        for frame in view.frames:
            self._look_into_names(frame.f_globals, 0)
        while self._waiting and len(self._seen) < MOST_VALUES:
            value, path, depth = self._waiting.popleft()
            self._look_into(value, path, depth)
        return list(self._found.values())

    def _look_into(self, value: Any, path: Path, depth: int) -> None:
        """Look at what a value holds, and whether it is an entry that names a tool."""
        kind = type(value)
        if is_decorated(value):
            spec = spec_of(value)
            if spec is not None:
                self._note(self._wanted.get(spec.name), path, value)
                if type(spec.function) is types.FunctionType:
                    self._look_into_module_with(spec.function, depth)
            return
        if kind is types.FunctionType:
            self._look_into_module_with(value, depth)
            name = self._wanted.get(text_of(value.__name__) or "")
            self._note(name or self._named_in(vars(value).items()), path, value)
        elif issubclass(kind, types.ModuleType):
            if is_users_namespace(namespace_of(value)):
                self._look_into_names(namespace_of(value), depth)
            return
        elif issubclass(kind, type):
            if not is_users_class(value):
                return
            self._look_into_module_of(value, depth)
            self._note(self._named_in((step[1], each) for step, each in members(value)), path, value)
        elif not is_table(value) and kind is not types.MethodType:
            self._look_into_object(value, path, depth)
            return
        self._look_into_members(value, path, depth)

    def _look_into_names(self, names: dict[str, Any], depth: int) -> None:
        if id(names) not in self._seen:
            self._seen[id(names)] = names
            self._look_into_members(names, Path(names, ()), depth)

    def _look_into_module_with(self, function: types.FunctionType, depth: int) -> None:
        if is_users_function(function):
            self._look_into_names(function.__globals__, depth)

    def _look_into_module_of(self, cls: type, depth: int) -> None:
        module = sys.modules.get(text_of(own(cls).get("__module__")) or "")
        if module is not None:
            self._look_into_names(namespace_of(module), depth)

    def _look_into_object(self, value: Any, path: Path, depth: int) -> None:
        """Look into one of the user's; a library's at most says which tool it is, as a small record does."""
        held = [(step[1], each) for step, each in members(value)]
        cls = type(value)
        if is_users_class(cls):
            self._meet(cls, path.beyond(("class", None)), None, depth)
            self._look_into_members(value, path, depth)
            inherited = {step[1]: each for step, each in members(cls)}
            held = list((inherited | dict(held)).items())
        elif issubclass(cls, types.SimpleNamespace):
            self._look_into_members(value, path, depth)
        else:
            held = [each for each in held if each[0] in _NAMES]
        self._note(self._named_in(held), path, value)

    def _look_into_members(self, value: Any, path: Path, depth: int) -> None:
        held = list(members(value))
        callables = 0
        for step, each in held:
            if type(each) not in _ATOMS:
                self._meet(each, path.beyond(step), step[1], depth)
                callables += is_callable(each)
        if callables and path.steps and is_table(value):  # local and global names are no entry
            self._note(self._named_in((step[1], each) for step, each in held), path, value)

    def _meet(self, value: Any, path: Path, key: object, depth: int) -> None:
        text = text_of(key)
        if text is not None and text in self._wanted:
            self._note(self._wanted[text], path, value)
        if depth < _DEEPEST and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._waiting.append((value, path, depth + 1))

    def _note(self, name: str | None, path: Path, value: Any) -> None:
        if name is None:
            return
        found = tuple(targets(value))
        for target in found:
            self._found.setdefault((name, id(target.function)), Found(name, path, found))

    def _named_in(self, held: Iterable[tuple[object, Any]]) -> str | None:
        """Return the one tool that is named there; what names several is no entry."""
        names = {name for name in _names_in(held, 0) if name in self._wanted}
        return self._wanted[names.pop()] if len(names) == 1 else None


def _names_in(held: Iterable[tuple[object, Any]], depth: int) -> Iterator[str]:
    """Yield what may be the name of a tool: that of the entry itself, or of the schema in it."""
    for key, value in held:
        text = text_of(value)
        if text is not None:
            if type(key) is int or text_of(key) in _NAMES:
                yield text
        elif depth < 2 and type(value) is dict:
            yield from _names_in(list(value.items())[:50], depth + 1)
