"""Says what makes a recording large, and how to drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepfork._events import CallEnded, CallStarted, ItemYielded, decode_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Plain
    from stepfork._making.transcribe import Transcript

LARGE_BYTES = 5 * 2**20
LARGE_ARGUMENT = 2**20

_Part = tuple[str, str, str]
"""Kind and name of a call, and the name of an argument; an empty one for what it gave back."""


def what_weighs(recording: Transcript) -> str:
    """Return a note on a recording, or on an argument in it, that is large; empty if none is.

    A payload that stands in the recording once weighs once, however many calls had it.
    """
    size = len(recording.lines) + sum(map(len, recording.blobs.values()))
    weights: dict[_Part, int] = {}
    largest: dict[_Part, int] = {}
    met: set[str] = set()
    for part, value in _parts(recording.lines):
        digest = value.get("$blob") if isinstance(value, dict) else None
        weight = len(msgspec.json.encode(value)) if digest is None else value["bytes"]
        weights[part] = weights.get(part, 0) + (0 if digest in met else weight)
        met.update([digest] if digest else [])
        largest[part] = max(largest.get(part, 0), weight)
    if size > LARGE_BYTES:
        part = max(weights, key=weights.__getitem__)
        whole = f"the recording takes {_megabytes(size)}"
        return f"{whole}, {_heavy(part)} {_megabytes(weights[part])} of them; {_way(part)}"
    heavy = {part: weight for part, weight in largest.items() if part[2] and weight > LARGE_ARGUMENT}
    if not heavy:
        return ""
    part = max(heavy, key=heavy.__getitem__)
    return f"{_heavy(part)} {_megabytes(heavy[part])} in one call; {_way(part)}"


def _parts(lines: bytes) -> Iterator[tuple[_Part, Plain]]:
    """Yield what was recorded of each call, as it stands in the recording."""
    calls: dict[str, tuple[str, str]] = {}
    for line in lines.splitlines():
        event = decode_line(line)
        if isinstance(event, CallStarted):
            calls[event.call] = event.kind, event.call.rpartition("/")[2].rpartition("#")[0]
            for argument, value in event.input.items():
                yield (*calls[event.call], argument), value
        elif isinstance(event, (CallEnded, ItemYielded)):
            yield (*calls[event.call], ""), event.value
            if isinstance(event, CallEnded) and event.changes is not None:
                yield (*calls[event.call], ""), event.changes


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB"


def _heavy(part: _Part) -> str:
    _, name, argument = part
    return f"the argument {argument!r} of {name} takes" if argument else f"what {name} gave back takes"


def _way(part: _Part) -> str:
    kind, _, argument = part
    if not argument:
        return "a tool that returns less makes it smaller"
    return f'@stepfork.{kind}(ignore=("{argument}",)) leaves it out'
