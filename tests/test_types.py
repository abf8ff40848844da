"""What type checkers see of a decorated function: the function."""

from __future__ import annotations

import re
import sys
from importlib import resources
from pathlib import Path

import pytest

from project import Project

SOURCE = (Path(__file__).parent / "typing" / "decorators.py").read_text(encoding="utf-8")
CHECKERS = {
    "mypy": ("mypy", "--strict", "--cache-dir=.mypy_cache"),
    "pyright": ("pyright", "--pythonpath", sys.executable),
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_finds_the_wrong_lines_and_no_other(project: Project, checker: str) -> None:
    """Without its ``ignore`` comments each wrong use is an error, and every asserted type holds (B07)."""
    wrong = {number for number, line in enumerate(SOURCE.splitlines(), 1) if "ignore[" in line}
    project.write({"typed.py": re.sub(r"  # (?:type|pyright): ignore.*", "", SOURCE)})

    shown = project.run("python", "-m", *CHECKERS[checker], "typed.py")

    errors = re.findall(r"typed\.py:(\d+)(?::\d+)?(?: -)?:? error", shown.out)
    assert {int(line) for line in errors} == wrong, shown
    assert len(wrong) >= 3


def test_the_package_says_that_it_is_typed() -> None:
    """Without the marker a checker would take everything in it for ``Any`` (B07)."""
    assert resources.files("stepfork").joinpath("py.typed").is_file()
