"""The chat models of LangChain that reach no SDK: scripted ones, local ones, one's own.

Those that end in an SDK are recorded there, as those of everybody else: what the provider was sent and what
it sent is the same in ten years, whatever the classes of LangChain look like then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepfork._context import adapters_on, current_frame
from stepfork.adapters._boundary import Boundary, wrapper_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from stepfork.adapters._boundary import Described
    from stepfork.adapters._patches import Patches


def hook_chat(module: ModuleType, patches: Patches) -> None:
    """Make calls of the models that ask no SDK, in ``langchain_core.language_models.chat_models``."""
    _hook_models(module.BaseChatModel, patches)


def hook_text(module: ModuleType, patches: Patches) -> None:
    """Do the same for those that take a text, in ``langchain_core.language_models.llms``."""
    _hook_models(module.BaseLLM, patches)


_LEAVES = (
    "_generate",
    "_agenerate",
    "_stream",
    "_astream",
    "_stream_chat_model_events",
    "_astream_chat_model_events",
)

_IN_AN_SDK = {
    "langchain_openai": "openai",
    "langchain_azure_ai": "openai",
    "langchain_deepseek": "openai",
    "langchain_xai": "openai",
    "langchain_perplexity": "openai",
    "langchain_anthropic": "anthropic",
    "langchain_groq": "httpx",
    "langchain_litellm": "httpx",
    "langchain_mistralai": "httpx",
    "langchain_ollama": "httpx",
}
"""Packages whose models are asked through what another adapter records."""


def _hook_models(base: type, patches: Patches) -> None:
    for name in _LEAVES:
        is_stream = "stream" in name
        patches.family(base, (name,), lambda raw, is_stream=is_stream: _model_wrapper(raw, is_stream))  # type: ignore[misc]


def _model_wrapper(raw: Any, is_stream: bool) -> Any:
    def describe(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Described | None:
        if _is_recorded_elsewhere(raw):
            return None
        name = type(model).__name__
        return f"{name}.stream" if is_stream else name, _asked(model, args, kwargs)

    return wrapper_for(Boundary("model", describe), raw)


def _is_recorded_elsewhere(method: Any) -> bool:
    """Whether another adapter, in a replay one of when it was recorded, sees what this method asks.

    A class below one of these may answer by itself, without asking anybody: its own method is the call.
    """
    frame = current_frame()
    session: Any = None if frame is None else frame.session
    on = session.recording.run.adapters if session is not None and session.is_replay else adapters_on
    package = str(getattr(method, "__module__", "")).partition(".")[0]
    return _IN_AN_SDK.get(package) in on


def _asked(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = ("messages", "stop", "run_manager")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    given.pop("run_manager", None)
    prompts: Any = next((given.pop(name) for name in _PROMPTS if name in given), [])
    each_prompt = [prompts] if isinstance(prompts, str) else prompts
    asked: dict[str, Any] = {"messages": [_told(each) for each in each_prompt]}
    chosen = getattr(model, "model_name", None) or getattr(model, "model", None)
    if isinstance(chosen, str):
        asked["model"] = chosen
    asked.update({name: _declared(value) for name, value in given.items() if value is not None})
    return asked


_PROMPTS = ("messages", "prompts", "prompt")
"""What the first parameter is called: of chat models, of those that take texts, of the latter's streams."""

_TOLD = ("name", "tool_calls", "invalid_tool_calls", "tool_call_id", "additional_kwargs")


def _told(message: Any) -> Any:
    """Return what a message says to a model: no ids and no accounts of earlier answers."""
    if isinstance(message, str):
        return message
    told: dict[str, Any] = {"type": message.type, "content": message.content}
    for name in _TOLD:
        value = getattr(message, name, None)
        if value:
            told[name] = value
    if getattr(message, "status", "success") != "success":
        told["status"] = message.status
    return told


def _declared(value: Any) -> Any:
    """Return tools that are handed over as objects by what a model is told of them."""
    if isinstance(value, (list, tuple)):
        return [_declared(each) for each in value]
    if hasattr(value, "tool_call_schema"):
        return {"name": value.name, "description": value.description, "args": value.args}
    return value
