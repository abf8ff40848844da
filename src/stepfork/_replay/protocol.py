"""Opens the session of a replay with what the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepfork._open_run import make_redactor
from stepfork._replay.session import Replay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._replay.extension import ExtensionWriter
    from stepfork._replay.load import Recording
    from stepfork._replay.override import Overrides
    from stepfork._settings import Settings
    from stepfork.tolerance import Rule


def new_session(
    recording: Recording,
    chosen: Settings,
    *,
    overrides: Overrides,
    tolerance: Mapping[str, Rule],
    live: frozenset[str] = frozenset(),
    extension: ExtensionWriter | None = None,
    block: bool = False,
) -> Replay:
    """Return a session that answers from ``recording``; ``tolerance`` is what the test itself gave."""
    return Replay(
        recording,
        overrides=overrides,
        redactor=make_redactor(chosen),
        moved=chosen.moved,
        tolerance=tolerance,
        common_tolerance=_rules_of(chosen),
        live=live,
        extension=extension,
        block=block,
    )


def _rules_of(chosen: Settings) -> dict[str, Rule]:
    from stepfork.tolerance import from_text

    return {path: from_text(text) for path, text in chosen.tolerance.items()}
