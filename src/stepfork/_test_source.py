"""Writes the source of a test. Recorded text enters it as literals only."""

from __future__ import annotations

import ast
import keyword
import re
from datetime import UTC, datetime
from pathlib import Path

from stepfork._calls import Run
from stepfork._entry import Reach
from stepfork._judge import short_type
from stepfork.errors import OptionError, UnsafeName

_LONGEST_TEXT = 90


def test_name(run: Run) -> str:
    """Return a name for the test and its files, from what failed."""
    what = ""
    if run.failure is not None:
        what = short_type(run.failure.type) if run.failure.type else "failed"
    elif not run.ended:
        what = "killed"
    return identifier(f"{run.name} {what}")


def identifier(text: str) -> str:
    """Return the text as a lower-case Python name."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")[:60]
    return name or "run"


def check_name(name: str) -> str:
    """Return the name if it can be a test's; raises UnsafeName."""
    if not re.fullmatch(r"[A-Za-z0-9_]+", name) or keyword.iskeyword(name):
        raise UnsafeName(
            f"--name {name!r} cannot name a test", ways_on=["letters, digits and underscores only"], name=name
        )
    return name


def describe(run: Run) -> str:
    """Return one line on what the run did: ``handle raised KeyError: 'amount' in decide#1.``"""
    failure = run.failure
    place = f" in {failure.address.rpartition('/')[2]}" if failure and failure.address else ""
    if failure is None:
        what = "ended well" if run.ended else "was killed"
    elif failure.kind == "raised":
        what = f"raised {short_type(failure.type)}{': ' * bool(failure.message)}{failure.message}"
    else:
        what = failure.message
    recorded = datetime.fromtimestamp(run.started, UTC).date().isoformat()
    return f"{_plain(f'{run.name} {what}')}{_plain(place)}. Recorded {recorded}."


def _plain(text: str) -> str:
    """Return printable ASCII that can stand in a docstring, bounded in length."""
    safe = "".join(char if " " <= char <= "~" and char not in '\\"' else "'" if char == '"' else " " for char in text)
    safe = " ".join(safe.split())
    return safe if len(safe) <= _LONGEST_TEXT else safe[: _LONGEST_TEXT - 3] + "..."


def new_file(run: Run, name: str, reach: Reach, *, xfail: bool, is_async_only: bool = False) -> str:
    """Return the whole file of a test."""
    imports = ["import pytest", ""] if xfail else []
    imports.append(f"from {reach.module} import {reach.imported}")
    return "\n".join(
        [f'"""{describe(run)}"""', "", *imports, "", "", *_function(name, reach, xfail=xfail), ""]
    )


def added_to(source: str, run: Run, name: str, reach: Reach, *, xfail: bool, path: Path) -> str:
    """Return an existing file's source with the test added at its end.

    Raises OptionError where the file is not Python, or has a test of this name.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise OptionError(f"--into {path} is no Python file: {error}") from None
    taken = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    if f"test_{name}" in taken:
        raise OptionError(f"{path} has a test_{name} already", ways_on=["give another name: --name NAME"])
    lines = source.rstrip().splitlines()
    wanted = ([] if not xfail else ["import pytest"]) + [f"from {reach.module} import {reach.imported}"]
    position = _after_imports(tree, lines)
    lines[position:position] = [line for line in wanted if line not in lines]
    docstring = f'    """{describe(run)}"""\n'
    head, *body = _function(name, reach, xfail=xfail)
    function = [head, *body]
    where = next(number for number, line in enumerate(function) if line.startswith("def "))
    function.insert(where + 1, docstring.rstrip())
    return "\n".join([*lines, "", "", *function, ""])


def _after_imports(tree: ast.Module, lines: list[str]) -> int:
    ends = [node.end_lineno or 0 for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if ends:
        return max(ends)
    first = tree.body[0] if tree.body else None
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if has_docstring and first is not None:
        lines.insert(first.end_lineno or 0, "")
        return (first.end_lineno or 0) + 1
    return 0


def _function(name: str, reach: Reach, *, xfail: bool) -> list[str]:
    mark = ['@pytest.mark.xfail(reason="recorded failure, not yet fixed", strict=True)'] if xfail else []
    return [
        *mark,
        f"def test_{name}(replay, snapshot):",
        f'    run = replay("{name}", {reach.expression})',
        "",
        "    assert run == snapshot",
    ]
