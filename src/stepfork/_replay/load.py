"""A recording with the extensions that lie beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepfork._events import ExtensionStarted, decode_line
from stepfork._paths import extension_paths
from stepfork._recording import read_extension, read_run
from stepfork.errors import RecordingMissing

if TYPE_CHECKING:
    from pathlib import Path

    from stepfork._calls import Call, Run


@dataclass(frozen=True)
class Recording:
    """The committed evidence of one run."""

    path: Path
    run: Run
    extensions: list[list[Call]]
    """The calls of each extension, the oldest first: what a newer one holds stands for it."""

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem


def load_recording(path: Path) -> Recording:
    """Read a recording and its extensions; raises the errors of SF301 to SF303."""
    try:
        run = read_run(path)
    except RecordingMissing:
        raise RecordingMissing(
            f"no recording at {path}",
            ways_on=[
                "make one from a failed run: stepfork make-test",
                "the runs that are kept: stepfork runs --failed",
            ],
            path=str(path),
        ) from None
    found = [(read_extension(file, run), file) for file in extension_paths(path)]
    extensions = [calls for calls, _ in sorted(found, key=lambda pair: _made_at(pair[1]))]
    for calls in extensions:
        for call in calls:
            call.extended = True
    return Recording(path, run, extensions)


def _made_at(extension: Path) -> float:
    with extension.open("rb") as file:
        header = decode_line(file.readline())
    return header.at if isinstance(header, ExtensionStarted) else 0.0
