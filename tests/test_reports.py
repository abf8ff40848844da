"""The table in CONTRIBUTING.md of the public reports that tests hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
REPORT = re.compile(r"\bB\d{2}\b")


def docstrings() -> Iterator[str]:
    """Yield every docstring below this folder."""
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""


def test_each_report_that_a_test_holds_stands_once_in_the_table_and_no_other() -> None:
    """Who meets an id in a docstring finds what it stands for."""
    text = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| B\d", line)]
    listed = [name for row in rows for name in REPORT.findall(row.split("|")[1])]
    cited = {name for docstring in docstrings() for name in REPORT.findall(docstring)}

    assert listed == sorted(cited)
