"""Finds the snapshot of a test that was renamed or moved, so that it is compared and not made anew."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from stepfork._verdict import snapshot as _snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Orphan(NamedTuple):
    """A snapshot of the same recording whose test is gone from its source."""

    path: Path
    test: str
    """``TestShop::test_refund[eu]``"""


def find_orphan(path: Path, recording: str, test: str) -> Path | None:
    """Return the file that should have stood at ``path``, the snapshot of ``test``.

    Where several tests of the recording are gone, the one with the same parameters; else none.
    """
    folder = next((folder for folder in path.parents if folder.name == "snapshots"), None)
    if folder is None or not folder.is_dir():
        return None
    orphans = [
        orphan for orphan in _orphans(folder, recording) if _comparison(orphan.path) == _comparison(path)
    ]
    alike = [orphan for orphan in orphans if _parameters(orphan.test) == _parameters(test)]
    chosen = alike or orphans
    near = [orphan for orphan in chosen if orphan.path.parent == path.parent] or chosen
    return near[0].path if len(near) == 1 else None


def _orphans(folder: Path, recording: str) -> Iterator[Orphan]:
    for path in sorted(folder.rglob("*.yaml")):
        head = _snapshot.read_head(path)
        if head.get("recording") != recording:
            continue
        test = head.get("test", path.stem)
        source = folder.parent / path.parent.relative_to(folder).with_suffix(".py")
        if _is_gone(test, source):
            yield Orphan(path, test)


def _is_gone(test: str, source: Path) -> bool:
    try:
        tree = ast.parse(source.read_text("utf-8"))
    except FileNotFoundError:
        return True
    except (OSError, SyntaxError, ValueError):
        return False
    names = set(_names(tree))
    *classes, function = test.partition("[")[0].split("::")
    return not ({"*", function, *classes} & names)


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield what may be a test here: functions, classes that inherit some, imports and assignments."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name, bases=[_, *_]):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def _parameters(test: str) -> str:
    return test.partition("[")[2]


def _comparison(path: Path) -> str:
    """Return the number of the comparison in its test: names of snapshots have no other dot."""
    return path.name.partition(".")[2]
