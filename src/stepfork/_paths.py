"""Where things are kept: names of files, and the folders they cannot leave.

The command line and the pytest plug-in ask the same functions, so they always mean the same file.
Names are portable: they can be checked out on Windows and on file systems that ignore case.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from stepfork.errors import UnsafeName

if TYPE_CHECKING:
    from stepfork._settings import Settings

_MARKERS = ("pyproject.toml", ".git")
RUNS = "runs"
"""The folder of the journals, in the one that the settings name."""

_TESTS = ("tests", "test")
_LONGEST = 100
"""Characters of a file name, its ending included."""

_PLAIN = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*")
_HASHED = re.compile(r".*-[0-9a-f]{10}")
_RECORDING = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_LONGEST_NAME = 64
_RESERVED = re.compile(r"con|prn|aux|nul|(?:com|lpt)[0-9]", re.IGNORECASE)
"""Devices on Windows, whatever their ending."""


def project_root(start: Path) -> Path:
    """Return the nearest folder from ``start`` up with pyproject.toml or .git, else the working directory."""
    return marked_root(start) or Path.cwd()


def marked_root(start: Path) -> Path | None:
    """Return the nearest folder from ``start`` up with pyproject.toml or .git."""
    absolute = Path(os.path.abspath(start))  # noqa: PTH100  # resolve() would leave a symlinked project
    for folder in (absolute, *absolute.parents):
        if any((folder / marker).exists() for marker in _MARKERS):
            return folder
    return None


def _above_tests(folder: Path) -> Path:
    """Return what is the project of a test where nothing marks one, and most likely will be marked later."""
    return next((each.parent for each in (folder, *folder.parents) if each.name in _TESTS), folder)


def runs_dir(root: Path, settings: Settings) -> Path:
    """Return the folder of the journals of the project at ``root``."""
    return _joined(root, settings.dir)


@functools.lru_cache(maxsize=100)
def _joined(root: Path, folder: Path) -> Path:
    return root / folder / RUNS


def snapshot_path(test_file: Path, nodename: str, index: int = 0) -> Path:
    """Return the file of a test's snapshot.

    ``nodename`` is what follows the file in the test's node id, ``TestShop::test_refund[eu]``;
    ``index`` counts the comparisons of one test from 0. Different tests never share a file.

    The folder ``snapshots`` stands in the nearest folder with pyproject.toml or .git; without one beside
    the folder ``tests`` that holds the test file, else beside the test file.

    Raises:
        UnsafeName: a link in the snapshot folder leads out of the project.
    """
    test_file = Path(os.path.abspath(test_file))  # noqa: PTH100
    root = marked_root(test_file.parent) or _above_tests(test_file.parent)
    module = test_file.with_suffix("") if test_file.suffix == ".py" else test_file
    number = f".{index + 1}" if index else ""
    name = safe_name(nodename, longest=_LONGEST - len(number) - len(".yaml"))
    return inside(root, root / "snapshots" / module.relative_to(root) / f"{name}{number}.yaml")


def recording_path(test_file: Path, name: str | os.PathLike[str]) -> Path:
    """Return the file of the recording that a test asks for.

    A name means ``recordings/<name>.jsonl`` beside the test file; what ends in ``.jsonl`` is a path,
    from the test file's folder.

    Raises:
        UnsafeName: ``name`` is neither.
    """
    folder = Path(os.path.abspath(test_file)).parent  # noqa: PTH100
    text = os.fspath(name)
    if text.endswith(".jsonl"):
        return folder / text
    if not _RECORDING.fullmatch(text) or _RESERVED.fullmatch(text):
        better = safe_name(text, longest=_LONGEST_NAME)
        raise UnsafeName(
            f"{text!r:.100} cannot be the name of a recording",
            ways_on=[f"use letters, digits, _ and -, like {better!r}", "or a path that ends in .jsonl"],
            name=text,
        )
    return folder / "recordings" / f"{text}.jsonl"


def extension_paths(recording: Path) -> list[Path]:
    """Return the files that extend ``recording``, in the order of their names."""
    start = f"{_stem(recording)}.ext-"
    try:
        files = list(recording.parent.iterdir())
    except FileNotFoundError:
        return []
    return sorted(file for file in files if file.name.startswith(start) and file.suffix == ".jsonl")


def blobs_dir(recording: Path) -> Path:
    """Return the folder of the large payloads of ``recording``."""
    return recording.with_name(f"{_stem(recording)}.blobs")


def _stem(recording: Path) -> str:
    return recording.name.removesuffix(".jsonl")


def safe_name(text: str, *, longest: int = _LONGEST) -> str:
    """Return a portable file name for ``text``, of at most ``longest`` characters and without a dot.

    Lower-case words are kept as they are. All else keeps what it can and gets a hash of the whole
    text, so that different texts get different names, also where case is ignored.
    """
    kept = _PLAIN.fullmatch(text) and not _HASHED.fullmatch(text) and not _RESERVED.fullmatch(text)
    if kept and len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", text)[: longest - len(digest) - 1].strip("-")
    return f"{readable or 'unnamed'}-{digest}"


def inside(root: Path, path: Path) -> Path:
    """Return ``path``; UnsafeName where a link on the way to it leads out of ``root``."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise UnsafeName(
            f"{path} is a link out of {root}",
            ways_on=["put a folder of the project in the place of the link"],
            path=str(path),
            root=str(root),
        )
    return path


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file so that nobody ever finds a part of it: whoever looks finds the old one or the new one.

    ``mode``: who may read and write a file that is new, before the umask. An OSError leaves nothing behind.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def ensure_private_dir(path: Path) -> None:
    """Make ``path`` and what is missing above it, for the user alone and ignored by git.

    The ``.gitignore`` stands in the folder that holds ``runs/``. A folder that already holds
    something is left as it is: it may be anybody's.
    """
    base = path.parent if path.name == RUNS else path
    _make_private(base)
    if not any(base.iterdir()):
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(base / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(b"*\n")
    _make_private(path)


def _make_private(path: Path) -> None:
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        # Another process may be making the same folder just now.
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
