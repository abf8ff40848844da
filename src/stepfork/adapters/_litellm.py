"""Hooks litellm where it wants a key; what it asks goes through the OpenAI SDK or through httpx."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from stepfork._environment import PLACEHOLDER
from stepfork.adapters._keys import may_be_missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from stepfork.adapters._patches import Patches, Wrapper


def hook_configs(module: ModuleType, patches: Patches) -> None:
    """Hook what makes the headers of a request, of each provider."""
    patches.family(module.BaseConfig, ("validate_environment",), _without_key)


def hook_infos(module: ModuleType, patches: Patches) -> None:
    """Hook it where a provider shares it among its endpoints."""
    patches.family(module.BaseLLMModelInfo, ("validate_environment",), _without_key)


def _without_key(raw: Any) -> Wrapper:
    """Return what gives it a key where it has none and nothing will be asked."""
    parameters = list(inspect.signature(getattr(raw, "__func__", raw)).parameters)
    own = 0 if isinstance(raw, staticmethod) else 1
    place = parameters.index("api_key") - own if "api_key" in parameters else None

    def call(wrapped: Any, _instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if place is None or not may_be_missing():
            return wrapped(*args, **kwargs)
        given = args[place] if len(args) > place else kwargs.get("api_key")
        if given:
            return wrapped(*args, **kwargs)
        try:
            return wrapped(*args, **kwargs)
        except Exception:
            if len(args) > place:
                return wrapped(*args[:place], PLACEHOLDER, *args[place + 1 :], **kwargs)
            return wrapped(*args, **{**kwargs, "api_key": PLACEHOLDER})

    return call
