"""Hooks the OpenAI SDK, versions 1 to 3."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepfork.adapters._keys import PLACEHOLDER
from stepfork.adapters._wire_sdk import hook_client, without_key

if TYPE_CHECKING:
    from types import ModuleType

    from stepfork.adapters._patches import Patches


def hook(module: ModuleType, patches: Patches) -> None:
    """Hook the base of its clients."""
    hook_client(module, patches, "openai")


def hook_clients(module: ModuleType, patches: Patches) -> None:
    """Hook how its clients are built."""
    init = without_key(_error, {"api_key": PLACEHOLDER})
    patches.wrap(module.OpenAI, "__init__", init)
    patches.wrap(module.AsyncOpenAI, "__init__", init)


def hook_azure(module: ModuleType, patches: Patches) -> None:
    """Hook how its clients for Azure are built."""
    missing = {"api_key": PLACEHOLDER, "api_version": "none", "azure_endpoint": "http://replay.invalid"}
    init = without_key(_error, missing)
    patches.wrap(module.AzureOpenAI, "__init__", init)
    patches.wrap(module.AsyncAzureOpenAI, "__init__", init)


def _error() -> type[Exception]:
    error: type[Exception] = sys.modules["openai"].OpenAIError
    return error
