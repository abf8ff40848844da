"""Hooks the OpenAI SDK, versions 1 to 3."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stepfork._environment import NOWHERE, PLACEHOLDER
from stepfork.adapters import _keys
from stepfork.adapters._wire_sdk import hook_client, without_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from stepfork.adapters._patches import Patches


def hook(module: ModuleType, patches: Patches) -> None:
    """Hook the base of its clients."""
    hook_client(module, patches, "openai")


def hook_clients(module: ModuleType, patches: Patches) -> None:
    """Hook how its clients are built."""
    patches.wrap(module.OpenAI, "__init__", _without_key)
    patches.wrap(module.AsyncOpenAI, "__init__", _without_key)


def hook_azure(module: ModuleType, patches: Patches) -> None:
    """Hook how its clients for Azure are built."""
    patches.wrap(module.AzureOpenAI, "__init__", _without_azure)
    patches.wrap(module.AsyncAzureOpenAI, "__init__", _without_azure)


def hook_langchain(module: ModuleType, patches: Patches) -> None:
    """Hook how LangChain's models are built: without a key, it gives them no client at all."""
    for name in ("BaseChatOpenAI", "BaseOpenAI", "OpenAIEmbeddings"):
        if name in vars(module):
            patches.wrap(vars(module)[name], "__init__", _with_client)


def _with_client(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if not _keys.may_be_missing():
        return wrapped(*args, **kwargs)
    with_key = {**kwargs, "api_key": PLACEHOLDER}
    try:
        wrapped(*args, **kwargs)
    except ValueError:  # those of some providers are not built without one
        if kwargs.get("api_key") is not None:
            raise
        return wrapped(*args, **with_key)
    # A client for Azure may have a token instead, and is built without either.
    if instance.openai_api_key is None and not hasattr(instance, "azure_endpoint"):
        wrapped(*args, **with_key)
    return None


def _error() -> type[Exception]:
    error: type[Exception] = sys.modules["openai"].OpenAIError
    return error


_without_key = without_key(_error, {"api_key": PLACEHOLDER})
_without_azure = without_key(
    _error, {"api_key": PLACEHOLDER, "api_version": "none", "azure_endpoint": NOWHERE}
)
