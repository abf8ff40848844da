"""A project as a value: write it, run it, look at its files, change it, run it again."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

# What would reach into the project from outside: this pytest, this CI, this terminal, somebody's keys.
_FOREIGN = ("PYTEST_", "STEPFORK_", "PYTHON", "HYPOTHESIS_", "OPENAI_", "ANTHROPIC_", "GITHUB_")
_FOREIGN_NAMES = {"CI", "FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "LINES"}

MINIMAL = {"pyproject.toml": '[project]\nname = "shop"\nversion = "0"\n'}
"""What makes a folder a project."""


class Result(NamedTuple):
    """How a process ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as one JSON document."""
        return msgspec.json.decode(self.out)

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


def clean_environment(root: Path) -> dict[str, str]:
    """Return the environment of processes in the project at ``root``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN_NAMES and not name.startswith(_FOREIGN)
    }
    ours = {"PYTHONPATH": str(root), "NO_COLOR": "1", "COLUMNS": "160"}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return kept | ours | {"PATH": path}


class Project:
    """A folder with files in it, and processes run there in a clean environment."""

    def __init__(self, root: Path, files: Mapping[str, str | bytes] = MINIMAL) -> None:
        self.root = root
        self._last_stamp = 0
        self.root.mkdir(parents=True, exist_ok=True)
        self.write(files)

    def write(self, files: Mapping[str, str | bytes]) -> Project:
        """Write files by relative path; texts are dedented."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                content = textwrap.dedent(content).lstrip("\n").encode("utf-8")
            path.write_bytes(content)
            self._stamp(path)
        return self

    def _stamp(self, path: Path) -> None:
        """Give each version of a file a second of its own: by that Python tells whether bytecode is old."""
        self._last_stamp = max(int(time.time()), self._last_stamp + 1)
        os.utime(path, (self._last_stamp, self._last_stamp))

    def replace(self, name: str, old: str, new: str) -> Project:
        """Put ``new`` for the one place where ``old`` stands in a file."""
        text = self.read(name)
        if text.count(old) != 1:
            raise AssertionError(f"{old!r} stands {text.count(old)} times in {name}:\n{text}")
        return self.write({name: text.replace(old, new).encode("utf-8")})

    def read(self, name: str) -> str:
        """Return the text of a file, line ends untouched."""
        return (self.root / name).read_bytes().decode("utf-8")

    def files(self, under: str = ".") -> dict[str, bytes]:
        """Return every file by its path relative to the root, to be compared byte for byte."""
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in self._walk(under)}

    def _walk(self, under: str) -> Iterator[Path]:
        for path in sorted((self.root / under).rglob("*")):
            if path.is_file() and not {"__pycache__", ".git"}.intersection(path.parts):
                yield path

    def run(
        self,
        *command: str,
        env: Mapping[str, str | None] | None = None,
        cwd: str = ".",
        stdin: str = "",
        timeout: float = 120,
    ) -> Result:
        """Run a command in the project; ``python``, ``pytest`` and ``stepfork`` are those of this process.

        ``env`` is added to a clean environment; None takes a variable away.
        """
        changed = {**clean_environment(self.root), **(env or {})}
        done = subprocess.run(
            _command(command),
            cwd=self.root / cwd,
            env={name: value for name, value in changed.items() if value is not None},
            input=stdin,
            timeout=timeout,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def pytest(self, *arguments: str, env: Mapping[str, str | None] | None = None, cwd: str = ".") -> Result:
        """Run pytest in the project; plug-ins that take half of its start are not needed there."""
        options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
        return self.run("pytest", *options, *arguments, env=env, cwd=cwd)

    def stepfork(
        self, *arguments: str, env: Mapping[str, str | None] | None = None, cwd: str = ".", stdin: str = ""
    ) -> Result:
        """Run the command line in the project."""
        return self.run("stepfork", *arguments, env=env, cwd=cwd, stdin=stdin)


def _command(command: tuple[str, ...]) -> list[str]:
    name, *arguments = command
    if name == "python":
        return [sys.executable, *arguments]
    if name in ("pytest", "stepfork"):
        return [sys.executable, "-m", name, *arguments]
    return [name, *arguments]
