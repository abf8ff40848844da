"""A recording with the extensions that lie beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stepfork._calls import Call, Run
from stepfork._paths import extension_paths
from stepfork._recording import read_extension, read_run
from stepfork.errors import RecordingMissing


@dataclass(frozen=True)
class Recording:
    """The committed evidence of one run."""

    path: Path
    run: Run
    extensions: list[list[Call]]

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
            ways_on=["make one from a failed run: stepfork make-test", "the runs that are kept: stepfork runs --failed"],
            path=str(path),
        ) from None
    extensions = []
    for extension in extension_paths(path):
        calls = read_extension(extension, run)
        for call in calls:
            call.extended = True
        extensions.append(calls)
    return Recording(path, run, extensions)
