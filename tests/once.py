"""What is costly and the same for many tests, made once, also where several processes run them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder that the workers of one test run share."""
    base = factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / name


def once(folder: Path, make: Callable[[Path], object], *, seconds: float = 240) -> Path:
    """Return ``folder``, filled by ``make`` in the first process that asks for it."""
    deadline = time.monotonic() + seconds
    done = folder.with_name(f"{folder.name}.done")
    while not done.exists():
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if time.monotonic() > deadline:
                pytest.fail(f"another worker did not finish {folder}")
            time.sleep(0.1)
            continue
        try:
            make(folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
        done.touch()
    return folder
