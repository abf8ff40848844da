"""Hooks the Anthropic SDK; its clients can be built without a key, and in a replay none is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepfork.adapters._wire_sdk import hook_client

if TYPE_CHECKING:
    from types import ModuleType

    from stepfork.adapters._patches import Patches


def hook(module: ModuleType, patches: Patches) -> None:
    """Hook the base of its clients."""
    hook_client(module, patches, "anthropic")
