"""Hooks the Anthropic SDK; most of its clients can be built without a key, and a replay asks for none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepfork._environment import NOWHERE, PLACEHOLDER
from stepfork.adapters._wire_sdk import hook_client, without_key

if TYPE_CHECKING:
    from types import ModuleType

    from stepfork.adapters._patches import Patches


def hook(module: ModuleType, patches: Patches) -> None:
    """Hook the base of its clients."""
    hook_client(module, patches, "anthropic")


def hook_foundry(module: ModuleType, patches: Patches) -> None:
    """Hook how its clients for Microsoft's cloud are built."""
    patches.wrap(module.AnthropicFoundry, "__init__", _without_foundry)
    patches.wrap(module.AsyncAnthropicFoundry, "__init__", _without_foundry)


def _error() -> type[Exception]:
    error: type[Exception] = sys.modules["anthropic"].AnthropicError
    return error


_without_foundry = without_key(_error, {"api_key": PLACEHOLDER, "base_url": NOWHERE})
