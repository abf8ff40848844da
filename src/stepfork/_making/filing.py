"""Writes files so that all of them can be taken back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Filing:
    """The files that one command wrote, and what stood there before."""

    def __init__(self) -> None:
        self.files: list[Path] = []
        self._before: dict[Path, bytes | None] = {}
        self._folders: list[Path] = []

    def put(self, path: Path, data: bytes) -> None:
        """Write a file and the folders that it needs."""
        if path not in self._before:
            self._before[path] = path.read_bytes() if path.exists() else None
            self.files.append(path)
        self._make_folder(path.parent)
        path.write_bytes(data)

    def added(self, path: Path) -> bytes:
        """Return the lines of a file that did not stand in it before."""
        before = set((self._before.get(path) or b"").splitlines())
        return b"\n".join(line for line in path.read_bytes().splitlines() if line not in before)

    def _make_folder(self, folder: Path) -> None:
        if folder.exists():
            return
        self._make_folder(folder.parent)
        self._folders.append(folder)
        folder.mkdir(exist_ok=True)

    @contextlib.contextmanager
    def taken_back_on_failure(self) -> Iterator[None]:
        """Leave everything as it was where the block raises, also when it is interrupted."""
        try:
            yield
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        for path, before in self._before.items():
            if before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(before)
        for folder in reversed(self._folders):
            with contextlib.suppress(OSError):  # somebody else has put something in it meanwhile
                folder.rmdir()
