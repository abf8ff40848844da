"""What is asked with litellm: through the OpenAI SDK, and through litellm's own HTTP clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import litellm

from adapters.replies import asks, fails, says
from adapters.wire_cases import Case, aread, read

ADAPTERS = ()
WORDS = "Grüße, this is a reply that comes in a few pieces"
HELLO = [{"role": "user", "content": "hello"}]
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}

litellm.suppress_debug_info = True
litellm.telemetry = False


def to(url: str, provider: str) -> dict[str, Any]:
    """Return what says where a model is asked."""
    base = {"openai": f"{url}/v1", "anthropic": url, "mistral": f"{url}/v1"}[provider]
    return {"model": f"{provider}/some-model", "api_base": base, "messages": HELLO, "num_retries": 0}


def told(response: Any) -> Any:
    """Return a reply without what litellm makes anew each time."""
    fields = response.model_dump() if hasattr(response, "model_dump") else response
    if isinstance(fields, dict):
        return {name: part for name, part in fields.items() if name not in ("created", "id")}
    return fields


def streamed(url: str, provider: str) -> Any:
    return [told(part) for part in read(litellm.completion(**to(url, provider), stream=True))]


async def astreamed(url: str, provider: str) -> Any:
    return [told(part) for part in await aread(await litellm.acompletion(**to(url, provider), stream=True))]


async def later(url: str, provider: str) -> Any:
    return told(await litellm.acompletion(**to(url, provider)))


CASES: dict[str, Case] = {}


def add(name: str, observe: Callable[..., Any], *script: Any, **options: Any) -> None:
    CASES[name] = Case(lambda url: observe(url, **options), script)


def now(url: str, provider: str, **options: Any) -> Any:
    return told(litellm.completion(**to(url, provider), **options))


def embedded(url: str) -> Any:
    return told(litellm.embedding(model="openai/e", input=["one", "two"], api_base=f"{url}/v1"))


for provider in ("openai", "anthropic"):
    add(f"{provider}-sync", now, says(WORDS), provider=provider)
    add(f"{provider}-async", later, says(WORDS), provider=provider)
    add(f"{provider}-stream", streamed, says(WORDS), provider=provider)
    add(f"{provider}-astream", astreamed, says(WORDS), provider=provider)
    add(f"{provider}-limited", now, fails(429), provider=provider, max_retries=0)
    add(f"{provider}-unauthorised", now, fails(401), provider=provider)
    add(f"{provider}-alimited", later, fails(400), provider=provider)
    add(f"{provider}-tools", now, asks(("look", {})), provider=provider, tools=[LOOK])
    add(f"{provider}-cut-later", streamed, says(WORDS, cut_after=3), provider=provider)
add("mistral-sync", now, says(WORDS), provider="mistral")
add("embedding", embedded, says(""))
