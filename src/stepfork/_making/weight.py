"""Says what makes a recording large, and how to drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepfork._calls import Run

LARGE_BYTES = 5 * 2**20


def what_weighs(run: Run, size: int) -> str:
    """Return a note on a recording of ``size`` bytes; empty for one that is not large."""
    if size <= LARGE_BYTES:
        return ""
    weights: dict[tuple[str, str, str], int] = {}
    for call in run.walk():
        parts = [(name, value) for name, value in call.input.items()]
        outcome = call.outcome
        parts.append(("", [outcome.value, outcome.items, outcome.changes]))
        for name, value in parts:
            key = call.kind, call.name, name
            weights[key] = weights.get(key, 0) + len(msgspec.json.encode(value))
    (kind, name, argument), weight = max(weights.items(), key=lambda item: item[1])
    share = f"{weight / 2**20:.1f}"
    if argument:
        heavy = f"the argument {argument!r} of {name} {share} of them; "
        way = f'@stepfork.{kind}(ignore=("{argument}",)) leaves it out'
    else:
        heavy, way = f"what {name} gave back {share} of them; ", "a tool that returns less makes it smaller"
    return f"the recording takes {size / 2**20:.1f} MB, {heavy}{way}"
