"""The adapter of the Anthropic SDK keeps what adapters promise, as their authors check it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import anthropic
import pytest

from adapters.anthropic_cases import TRUST
from adapters.steady import Steady
from stepfork.adapters._switch import _named
from stepfork.testing import Check, Sample, adapter_checks

LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
STEADY = Steady()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> Iterator[None]:
    with STEADY.serving():
        yield


def client() -> anthropic.Anthropic:
    """Return a client for one call."""
    http_client = anthropic.DefaultHttpxClient(verify=TRUST)
    return anthropic.Anthropic(base_url=STEADY.url, api_key="x", max_retries=0, http_client=http_client)


def async_client() -> anthropic.AsyncAnthropic:
    """Return an async one."""
    http_client = anthropic.DefaultAsyncHttpxClient(verify=TRUST)
    return anthropic.AsyncAnthropic(base_url=STEADY.url, api_key="x", max_retries=0, http_client=http_client)


def asked(content: str, **more: Any) -> dict[str, Any]:
    """Return what is asked."""
    messages = [{"role": "user", "content": content}]
    return {"model": "claude-test", "max_tokens": 100, "messages": messages, **more}


def ask(content: str, **more: Any) -> Any:
    """Ask in one go."""
    with client() as opened:
        return opened.messages.create(**asked(content, **more))


def stream(content: str) -> Iterator[Any]:
    """Read a stream."""
    with client() as opened:
        yield from opened.messages.create(**asked(content, stream=True))


def helper(content: str) -> Any:
    """Have the SDK put a stream together."""
    with client() as opened, opened.messages.stream(**asked(content)) as events:
        return [[event.type for event in events], events.get_final_message()]


async def aask(content: str) -> Any:
    """Ask in an event loop."""
    async with async_client() as opened:
        return await opened.messages.create(**asked(content))


async def astream(content: str) -> AsyncIterator[Any]:
    """Read a stream there."""
    async with async_client() as opened:
        async for event in await opened.messages.create(**asked(content, stream=True)):
            yield event


ASK, STREAM = ("anthropic.messages",), ("anthropic.messages.stream",)
SAMPLES = {
    "a reply": Sample(partial(ask, "a"), ASK),
    "tools": Sample(partial(ask, "b", tools=[LOOK]), ASK),
    "an error": Sample(partial(ask, "refused c"), ASK),
    "a stream": Sample(partial(stream, "d"), STREAM),
    "a helper": Sample(partial(helper, "e"), STREAM),
    "an async reply": Sample(partial(aask, "f"), ASK),
    "an async error": Sample(partial(aask, "refused g"), ASK),
    "an async stream": Sample(partial(astream, "h"), STREAM),
}
CHECKS = adapter_checks(_named("anthropic"), SAMPLES, unplugged=STEADY.unplugged)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_adapter_keeps_its_promises(check: Check) -> None:
    """One promise after the other."""
    check()
