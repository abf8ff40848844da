"""The way of one failing agent from its crash to a guarded fix, in a project of its own."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from project import MINIMAL, Project, Result

# A stranger has pytest and what stepfork needs, not the plug-ins that happen to be installed here.
STRANGER = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "syrupy,stepfork.pytest_plugin"}

BEGINNING = """
    import asyncio
    from pathlib import Path

    import stepfork

    RAN = Path(__file__).parent.parent / "ran.txt"


    def ran(what):
        with RAN.open("a") as file:
            file.write(f"{what}\\n")
"""
"""What every agent starts with: its tools note here that their bodies ran."""


def as_sync(source: str) -> str:
    """Return the source of an async agent as its author would have written it without asyncio."""
    source = re.sub(r"asyncio\.run\((.*)\)$", r"\1", source, flags=re.MULTILINE)
    return source.replace("async ", "").replace("await ", "").replace("asyncio.sleep", "time.sleep")


class Road:
    """An agent in ``agent.py``, written as async code, and the commands of the road."""

    def __init__(self, folder: Path, agent: str, *, is_async: bool) -> None:
        source = textwrap.dedent(BEGINNING).lstrip() + "\n\n" + textwrap.dedent(agent).strip() + "\n"
        self.is_async = is_async
        self.project = Project(folder / "project", {**MINIMAL, "agent.py": self._written(source)})
        self._ran = folder / "ran.txt"
        self.name = ""

    def _written(self, source: str) -> str:
        return source if self.is_async else as_sync(source)

    def ran(self) -> list[str]:
        """Return what the bodies of tools and models noted, and forget it."""
        lines = self._ran.read_text().splitlines() if self._ran.exists() else []
        self._ran.unlink(missing_ok=True)
        return lines

    def record(self) -> Result:
        """Run the agent; its tools run for real."""
        result = self.project.run("python", "agent.py", env=STRANGER)
        assert self.ran(), result
        return result

    def make(self, *options: str) -> dict[str, Any]:
        """Make the test; returns what the command says."""
        result = self.try_make(*options)
        assert result.code == 0, result
        made: dict[str, Any] = result.json
        self.name = made["name"]
        return made

    def try_make(self, *options: str) -> Result:
        """Ask for the test; nothing runs for real, however it ends."""
        result = self.project.stepfork("make-test", "--json", *options, env=STRANGER)
        assert self.ran() == []
        return result

    def change(self, old: str, new: str) -> None:
        """Edit the agent."""
        self.project.replace("agent.py", self._written(old), self._written(new))

    def pytest(self, *options: str, env: Mapping[str, str] | None = None) -> Result:
        """Run the tests of the project."""
        # The full report is not cut, and shows the user's line and ours.
        return self.project.pytest("-q", "-vv", *options, env={**STRANGER, **(env or {})})

    def test_file(self) -> str:
        """Return where the test stands."""
        return f"tests/test_{self.name}.py"

    def is_red(self, *says: str) -> Result:
        """Check that the test fails, for the reason that is given, and that nothing runs for real."""
        result = self.pytest()
        self._failed(result, says)
        return result

    def _failed(self, result: Result, says: tuple[str, ...]) -> None:
        assert result.code == 1, result
        for text in says:
            assert text in result.out, f"{text!r} is not in\n{result}"
        assert self.ran() == []

    def is_green(self, *says: str) -> Result:
        """Check that the test passes, and that nothing runs for real."""
        result = self.pytest()
        assert result.code == 0, result
        for text in says:
            assert text in result.out, f"{text!r} is not in\n{result}"
        assert self.ran() == []
        return result

    def is_accepted(self, *says: str) -> None:
        """Accept what the test shows now; it is green afterwards."""
        result = self.pytest("--snapshot-update")
        assert result.code == 0, result
        for text in says:
            assert text in result.out, f"{text!r} is not in\n{result}"
        assert self.ran() == []
        self.is_green()

    def refuses_the_bug(self, *says: str) -> None:
        """Check that an update leaves every file as it was: of the test, and of one with a later assert."""
        self.project.write({"tests/test_later.py": self._with_later_assert()})
        before = self.project.files()
        self._failed(self.pytest("--snapshot-update"), says)
        assert self.project.files() == before
        (self.project.root / "tests/test_later.py").unlink()

    def _with_later_assert(self) -> str:
        source = self.project.read(self.test_file())
        return f"{source}    assert run.never('{self.name}') and False\n"

    def refuses_the_renamed_test(self) -> None:
        """Check that an update does not accept the bug under another name of the test."""
        test = self.test_file()
        source = self.project.read(test)
        self.project.write({test: source.replace(f"def test_{self.name}(", "def test_under_another_name(")})
        before = self.project.files()
        self._failed(self.pytest("--snapshot-update"), ())
        assert self.project.files() == before
        self.project.write({test: source})

    def guards(self, bug: str, fix: str, *says: str) -> None:
        """Check that the test is red again with the bug back, under any name; then restore the fix."""
        self.change(fix, bug)
        self.is_red(*says)
        self.refuses_the_renamed_test()
        self.change(bug, fix)
