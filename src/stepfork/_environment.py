"""Variables of the environment that a run had and its replay needs no more than to find set.

Only their names are recorded, never what they hold.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stepfork._redact.environ import is_secret_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACEHOLDER = "no-key-in-a-replay"
NOWHERE = "http://replay.invalid"

_ADDRESS = re.compile(r"^(?:OPENAI|AZURE|ANTHROPIC)_(?:.+_)?(?:BASE_URL|ENDPOINT)$|_API_BASE$")


def names_to_note(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables that hold a secret, by their names, or where a model is asked."""
    return tuple(sorted(name for name in environ if may_be_noted(name) and environ.get(name)))


@lru_cache(maxsize=1000)
def may_be_noted(name: str) -> bool:
    """Whether it is one that a replay needs no more than to find set."""
    return is_secret_variable(name) or is_address(name)


def is_address(name: str) -> bool:
    """Whether it says where a model is asked."""
    return _ADDRESS.search(name) is not None


def stand_in(name: str) -> str:
    """Return what a replay has in the place of what the variable held."""
    return NOWHERE if is_address(name) else PLACEHOLDER
