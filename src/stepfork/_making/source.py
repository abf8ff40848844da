"""Writes the source of a test, formatted as ``ruff format`` would. Recorded text enters it as data only."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepfork._verdict.criterion import told as in_words
from stepfork._verdict.judge import short_type
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from stepfork._calls import Run
    from stepfork._making.entry import Reach

_OURS = "import stepfork"
_LONGEST_NAME = 50
_LONGEST_TEXT = 90
_LINE = 88
_RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")
"""Devices on Windows."""


def name_of_test(run: Run) -> str:
    """Return a name for the test and its files, from what failed."""
    what = ""
    if run.failure is not None:
        what = short_type(run.failure.type).rpartition(".")[2] if run.failure.type else "failed"
    elif not run.ended:
        what = "killed"
    return identifier(f"{run.name} {what}")


def identifier(text: str) -> str:
    """Return the text as a lower-case name of letters, digits and underscores."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")[:_LONGEST_NAME].strip("_")
    return f"{name}_run" if _RESERVED.fullmatch(name) else name or "run"


def describe(run: Run) -> list[str]:
    """Return the lines of a docstring: ``handle raised KeyError: 'amount' in decide#1. Recorded ...``."""
    failure = run.failure
    place = f" in {failure.address.rpartition('/')[2]}" if failure and failure.address else ""
    if failure is None:
        what = "ended well" if run.ended else "was killed"
    elif failure.kind == "raised":
        what = f"raised {short_type(failure.type)}{': ' * bool(failure.message)}{failure.message}"
    else:
        what = failure.message
    recorded = datetime.fromtimestamp(run.started, UTC).date().isoformat()
    told = f"{harmless(f'{run.name} {what}')}{harmless(place, keep_start=True)}"
    first = f"{told}. Recorded {recorded}.".lstrip()
    if not run.criterion:
        return [first]
    return [first, "", *(f"Right is: {harmless(text)}." for text in in_words(run.criterion))]


def harmless(text: str, *, keep_start: bool = False) -> str:
    """Return printable text that can stand in a docstring whatever it is, bounded in length."""
    kept = "".join(_in_docstring(char) for char in text)
    words = " ".join(kept.split())
    words = f" {words}" if keep_start and kept[:1] == " " else words
    return words if len(words) <= _LONGEST_TEXT else f"{words[: _LONGEST_TEXT - 3].rstrip()}..."


def _in_docstring(char: str) -> str:
    if char == '"':
        return "'"
    return char if char.isprintable() and char != "\\" else " "


def new_file(run: Run, name: str, reach: Reach, *, xfail: bool) -> str:
    """Return the whole file of a test."""
    own = _import(reach.module, reach.imported)
    imports = ["import pytest", *([] if own == [_OURS] else [_OURS]), ""] if xfail else []
    imports += own
    function = _function(name, reach.expression, reach, xfail=xfail)
    return "\n".join([*_docstring(describe(run)), "", *imports, "", "", *function, ""])


def functions_in(path: Path) -> set[str]:
    """Return the names of the functions of a file; raises OptionError where it is not Python."""
    return _functions(_parsed(path.read_bytes(), path))


def _functions(tree: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _parsed(data: bytes, path: Path) -> ast.Module:
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError) as error:
        raise OptionError(f"--into {path} is no Python file: {error}") from None


def added_to(data: bytes, run: Run, name: str, reach: Reach, *, xfail: bool, path: Path) -> bytes:
    """Return an existing file with the test added at its end; nothing else of it changes.

    Raises OptionError where the file is not Python in UTF-8, or has a test of this name.
    """
    tree = _parsed(data, path)
    if f"test_{name}" in _functions(tree):
        raise OptionError(f"{path} has a test_{name} already", ways_on=["give another name: --name NAME"])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"--into {path} is not in UTF-8: {error}") from None
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    local = _free_for_import(tree, reach)
    wanted = [*(["import pytest", _OURS] if xfail else []), *_import(reach.module, reach.imported, local)]
    wanted = list(dict.fromkeys(wanted))
    missing = [] if all(line in lines for line in wanted) else [line for line in wanted if line not in lines]
    lines = _with_imports(lines, tree, missing)
    expression = f"{local}{reach.expression.removeprefix(reach.imported)}"
    head, *body = _function(name, expression, reach, xfail=xfail, docstring=describe(run))
    return newline.join([*lines, "", "", head, *body, ""]).encode("utf-8")


def _free_for_import(tree: ast.Module, reach: Reach) -> str:
    """Return the name under which the file can import the agent without losing one of its own."""
    if not reach.imported:
        return ""
    bound: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.ImportFrom():
                bound.update(
                    {alias.asname or alias.name: f"{node.module}:{alias.name}" for alias in node.names}
                )
            case ast.Import():
                bound.update({(alias.asname or alias.name).partition(".")[0]: "" for alias in node.names})
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound[node.name] = ""
            case _:
                names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
                bound.update({each.id: "" for each in names if isinstance(each.ctx, ast.Store)})
    if bound.get(reach.imported, f"{reach.module}:{reach.imported}") == f"{reach.module}:{reach.imported}":
        return reach.imported
    return f"{reach.module.replace('.', '_')}_{reach.imported}"


def _with_imports(lines: list[str], tree: ast.Module, wanted: list[str]) -> list[str]:
    """Return the lines with imports added after those that are there."""
    if not wanted:
        return lines
    ends = [node.end_lineno or 0 for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if ends:
        return [*lines[: max(ends)], *wanted, *lines[max(ends) :]]
    first = tree.body[0] if tree.body else None
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    position = (first.end_lineno or 0) if has_docstring and first is not None else 0
    before = [*lines[:position], ""] if position else []
    rest = lines[position:]
    while rest and not rest[0].strip():
        rest = rest[1:]
    return [*before, *wanted, *(["", ""] if rest else []), *rest]


def _docstring(lines: list[str], indent: str = "") -> list[str]:
    first, *rest = lines
    if not rest:
        return [f'{indent}"""{first}"""']
    return [f'{indent}"""{first}', *(f"{indent}{line}".rstrip() for line in rest), f'{indent}"""']


def _import(module: str, imported: str, local: str | None = None) -> list[str]:
    if not imported:
        return [f"import {module}"]
    what = imported if local in (None, imported) else f"{imported} as {local}"
    line = f"from {module} import {what}"
    return [line] if len(line) <= _LINE else [f"from {module} import (", f"    {what},", ")"]


def _function(
    name: str, expression: str, reach: Reach, *, xfail: bool, docstring: list[str] | None = None
) -> list[str]:
    mark = ["raises=stepfork.StillFailing", "strict=True", 'reason="recorded failure, not fixed yet"']
    call = [f'"{name}"', expression, *(f"{missing}=None" for missing in reach.missing)]
    return [
        *(_wrapped("@pytest.mark.xfail(", mark, ")") if xfail else []),
        *_wrapped(f"def test_{name}(", ["replay", "snapshot"], "):"),
        *(_docstring(docstring, "    ") if docstring else []),
        *_wrapped("    run = replay(", call, ")"),
        "",
        "    assert run == snapshot",
    ]


def _wrapped(head: str, parts: list[str], tail: str) -> list[str]:
    """Return a call or a signature in one line, in three, or with a line for each part."""
    indent = " " * (len(head) - len(head.lstrip()))
    inside = ", ".join(parts)
    if len(f"{head}{inside}{tail}") <= _LINE:
        return [f"{head}{inside}{tail}"]
    if len(f"{indent}    {inside}") <= _LINE:
        return [head, f"{indent}    {inside}", f"{indent}{tail}"]
    return [head, *(f"{indent}    {part}," for part in parts), f"{indent}{tail}"]
