"""What a new test is called, and where its files go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepfork._making.source import functions_in, name_of_test
from stepfork._paths import blobs_dir, inside, recording_path, snapshot_path
from stepfork.errors import OptionError, UnsafeName

if TYPE_CHECKING:
    from pathlib import Path

    from stepfork._calls import Run
    from stepfork._making.wishes import Wishes


@dataclass(frozen=True)
class Place:
    """The name of a test and where its files go."""

    name: str
    test_file: Path
    is_added: bool
    """The function goes into a file that is there."""

    @classmethod
    def of(cls, run: Run, root: Path, wishes: Wishes) -> Place:
        if wishes.into is not None and not (wishes.into.is_relative_to(root) and wishes.into.suffix == ".py"):
            raise UnsafeName(
                f"--into {wishes.into} is no Python file of the project at {root}",
                ways_on=["name a file below it, such as --into tests/test_refunds.py"],
                path=str(wishes.into),
            )
        name = wishes.name or _free_name(run, root, wishes.into)
        test_file = wishes.into or root / "tests" / f"test_{name}.py"
        place = cls(name, test_file, wishes.into is not None and test_file.exists())
        place.check_free()
        place.check_inside(root)
        return place

    @property
    def recording(self) -> Path:
        return recording_path(self.test_file, self.name)

    @property
    def snapshot(self) -> Path:
        return snapshot_path(self.test_file, f"test_{self.name}")

    def check_free(self) -> None:
        """Raise UnsafeName for a name that is none, OptionError where its files exist."""
        if not self.name.replace("_", "a").isalnum() or not self.name.isascii():
            raise UnsafeName(
                f"--name {self.name!r:.100} cannot name a test",
                ways_on=["letters, digits and underscores only"],
                name=self.name,
            )
        blobs = blobs_dir(self.recording)
        for path in (self.recording, blobs, *([] if self.is_added else [self.test_file])):
            if os.path.lexists(path):
                raise OptionError(f"{path} exists already", ways_on=["give another name: --name NAME"])

    def check_inside(self, root: Path) -> None:
        """Raise UnsafeName where a link leads out of the project."""
        for path in (self.recording, self.test_file):
            inside(root, path)


def _free_name(run: Run, root: Path, into: Path | None) -> str:
    folder = into.parent if into else root / "tests"
    taken = functions_in(into) if into and into.exists() else set()
    first = name = name_of_test(run)
    number = 2
    while (
        os.path.lexists(folder / f"test_{name}.py")
        or os.path.lexists(recording_path(folder / "test.py", name))
        or f"test_{name}" in taken
    ):
        name, number = f"{first}_{number}", number + 1
    return name
