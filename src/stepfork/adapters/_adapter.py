"""What an adapter is: a name, and what it hooks of which module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from stepfork.adapters._patches import Patches


@final
@dataclass(frozen=True)
class Adapter:
    """What finds the calls of one library."""

    name: str
    """Written into each recording, so that a replay switches on the same."""
    hooks: Mapping[str, str | Callable[[ModuleType, Patches], None]]
    """By the full name of a module, what hooks it once it has been imported; as ``"module:function"`` it is
    loaded only then. It touches that module alone, since the library's own import may still go on."""
