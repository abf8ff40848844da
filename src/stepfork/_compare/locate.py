"""Where the tolerance rules apply: JSONPath over a value as its user sees it, answered as Plain paths."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stepfork._plain import elements, fields, is_container
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepfork._calls import Plain

Path: TypeAlias = tuple[str | int, ...]

_NAME: Final = re.compile(r"[^\s.\[\]*?$()@]+")


class Query:
    """One compiled key of a tolerance: a plain name, or a JSONPath (RFC 9535) that begins with ``$``."""

    __slots__ = ("_path", "name", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.name = pattern if _NAME.fullmatch(pattern) else None
        self._path = None if self.name is not None else _compile(pattern)

    @property
    def is_relative(self) -> bool:
        """Whether it looks for its name at any depth, so that it makes sense inside a part of a value."""
        return self.name is not None or self.pattern.startswith("$..")

    def locate(self, view: View) -> Iterable[Path]:
        """Return the places it selects."""
        return view.named(self.name) if self._path is None else view.selected(self._path)


class View:
    """A Plain value seen through its tags, for any number of queries."""

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self._names: dict[str | int, list[Path]] | None = None
        self._tree: Any = None
        self._places: dict[Path, tuple[Path, dict[str | int, tuple[Path, Plain]]]] = {}

    def named(self, name: str | None) -> list[Path]:
        """Return every place with this name, at any depth."""
        if self._names is None:
            self._names = {}
            for field, path in _descendants(self._plain):
                self._names.setdefault(field, []).append(path)
        return self._names.get(name or "", [])

    def selected(self, compiled: Any) -> Iterator[Path]:
        """Yield the places that a compiled JSONPath selects; none in a value too deep to be searched."""
        try:
            if self._tree is None:
                self._tree = _tree(self._plain)
            matches = [match.parts for match in compiled.finditer(self._tree)]
        except RecursionError:
            return
        for parts in matches:
            yield self._place(parts)[0]

    def _place(self, parts: Path) -> tuple[Path, dict[str | int, tuple[Path, Plain]]]:
        if parts not in self._places:
            path, plain = self._step(parts)
            inside = {name: ((*path, *steps), value) for name, steps, value in fields(plain)}
            self._places[parts] = path, inside
        return self._places[parts]

    def _step(self, parts: Path) -> tuple[Path, Plain]:
        if not parts:
            return (), self._plain
        return self._place(parts[:-1])[1][parts[-1]]


def _descendants(plain: Plain) -> Iterator[tuple[str | int, Path]]:
    work: list[tuple[Path, Plain]] = [((), plain)]
    while work:
        path, node = work.pop()
        for name, steps, value in fields(node):
            place = (*path, *steps)
            if isinstance(name, str):
                yield name, place
            if is_container(value):
                work.append((place, value))


def _tree(plain: Plain) -> Any:
    if not is_container(plain):
        return next(iter(plain.values())) if isinstance(plain, dict) else plain
    inside = [(name, _tree(value)) for name, _, value in fields(plain)]
    if elements(plain) is not None:
        return [value for _, value in inside]
    return dict(inside)


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Any:
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    class Environment(JSONPathEnvironment):
        max_recursion_depth = 100_000  # Python's own limit comes first, and is handled

    if not pattern.startswith("$"):
        hint = f"write $.{pattern} for a place, or $..{pattern} for any depth"
        raise OptionError(f"tolerance key {pattern!r} is neither a plain name nor a JSONPath", ways_on=[hint])
    try:
        return Environment(strict=True).compile(pattern)
    except JSONPathError as error:
        reason = str(error).partition("\n")[0]
        raise OptionError(f"tolerance key {pattern!r} is not a JSONPath: {reason}") from error
