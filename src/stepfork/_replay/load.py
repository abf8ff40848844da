"""A recording with the extensions that lie beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepfork._events import ExtensionStarted, decode_line
from stepfork._paths import extension_paths
from stepfork._recording import read_extension, read_run
from stepfork.errors import RecordingMissing

if TYPE_CHECKING:
    from collections.abc import Iterator
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

    @property
    def addresses(self) -> list[str]:
        """Of the tool and model calls that it can answer."""
        return [call.address for call in self._calls() if call.kind != "step"]

    @property
    def names(self) -> set[str]:
        """Of the functions that it holds a call of."""
        return {call.name for call in self._calls()}

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """The position of each call by its address, those of the extensions after all others."""
        spans = {call.address: call.span for call in self.run.walk()}
        for calls in self.extensions:
            end = max((span[1] for span in spans.values()), default=0)
            for call in calls:
                spans.setdefault(call.address, (end + call.span[0], end + call.span[1]))
        return spans

    def _calls(self) -> Iterator[Call]:
        yield from self.run.walk()
        for calls in self.extensions:
            yield from calls


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
