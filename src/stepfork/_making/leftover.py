"""A last look at what was written: no secret that is known by now, and nothing that was to be scrubbed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepfork._redact import Redactor
from stepfork.errors import NotRedacted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stepfork._making.scrub import Personal


class Look(NamedTuple):
    """What was written to a file."""

    path: Path
    data: bytes
    is_text: bool
    """Written for people: a rule of shapes that finds something in it is right."""


def check_nothing_left(looks: list[Look], environ: Mapping[str, str], scrub: Personal | None) -> None:
    """Raise NotRedacted where a secret, or personal data that ``scrub`` was to replace, is left.

    In a recording only the values of secrets are looked for: rules of names and shapes were applied to
    each value in it, and may find anything in JSON as a whole.
    """
    for path, data, is_text in looks:
        redactor = Redactor(environ=environ)
        redactor.content(data)
        kinds = ("environment", "shape") if is_text else ("environment",)
        left = [label for label, kind in redactor.found.items() if kind in kinds]
        if scrub is not None:
            text = data.decode("utf-8", "replace")
            left += sorted({found.kind for found in scrub.find(text)})
        if left:
            raise NotRedacted(
                f"{', '.join(left)} would stand in {path.name}, where it cannot be replaced",
                ways_on=["give what bears it as a name (the run, a step, a test) a constant one"],
                path=str(path),
                left=left,
            )
