"""How many examples a property is tried with: fewer in the quick tests, all with the slow ones."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

_EVERYTHING = 100
"""The number of examples in hypothesis' own default, which the thorough profile keeps."""


def thoroughly(examples: int, **options: Any) -> settings:
    """Return settings for ``examples`` examples, scaled down as far as the profile is."""
    scaled = examples * settings.default.max_examples // _EVERYTHING  # type: ignore[union-attr]
    return settings(max_examples=max(10, scaled), **options)
