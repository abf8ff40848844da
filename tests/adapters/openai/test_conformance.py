"""The adapter of the OpenAI SDK keeps what adapters promise, as their authors check it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import openai
import pytest

from adapters.openai_cases import TRUST
from adapters.steady import Steady
from stepfork._frames import PACKAGE
from stepfork.adapters._switch import _named, switched_on
from stepfork.testing import Check, Sample, adapter_checks

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
STEADY = Steady()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> Iterator[None]:
    with STEADY.serving():
        yield


def client() -> openai.OpenAI:
    """Return a client for one call."""
    http_client = openai.DefaultHttpxClient(verify=TRUST)
    return openai.OpenAI(base_url=f"{STEADY.url}/v1", api_key="x", max_retries=0, http_client=http_client)


def async_client() -> openai.AsyncOpenAI:
    """Return an async one."""
    http_client = openai.DefaultAsyncHttpxClient(verify=TRUST)
    return openai.AsyncOpenAI(
        base_url=f"{STEADY.url}/v1", api_key="x", max_retries=0, http_client=http_client
    )


def asked(content: str, **more: Any) -> dict[str, Any]:
    """Return what a chat completion is asked with."""
    return {"model": "gpt-test", "messages": [{"role": "user", "content": content}], **more}


def chat(content: str, **more: Any) -> Any:
    """Ask in one go."""
    with client() as opened:
        return opened.chat.completions.create(**asked(content, **more))


def chat_stream(content: str) -> Iterator[Any]:
    """Read a stream."""
    with client() as opened:
        yield from opened.chat.completions.create(**asked(content, stream=True))


async def achat(content: str) -> Any:
    """Ask in an event loop."""
    async with async_client() as opened:
        return await opened.chat.completions.create(**asked(content))


async def achat_stream(content: str) -> AsyncIterator[Any]:
    """Read a stream there."""
    async with async_client() as opened:
        async for chunk in await opened.chat.completions.create(**asked(content, stream=True)):
            yield chunk


def respond(text: str) -> Any:
    """Ask the newer endpoint."""
    with client() as opened:
        return opened.responses.create(model="gpt-test", input=text)


def embed(text: str) -> Any:
    """Ask for vectors."""
    with client() as opened:
        return opened.embeddings.create(model="e", input=[text])


CHAT, STREAM = ("openai.chat.completions",), ("openai.chat.completions.stream",)
SAMPLES = {
    "a reply": Sample(partial(chat, "a"), CHAT),
    "tools": Sample(partial(chat, "b", tools=[LOOK]), CHAT),
    "an error": Sample(partial(chat, "refused c"), CHAT),
    "a stream": Sample(partial(chat_stream, "d"), STREAM),
    "an async reply": Sample(partial(achat, "e"), CHAT),
    "an async error": Sample(partial(achat, "refused f"), CHAT),
    "an async stream": Sample(partial(achat_stream, "g"), STREAM),
    "a response": Sample(partial(respond, "h"), ("openai.responses",)),
    "an embedding": Sample(partial(embed, "i"), ("openai.embeddings",)),
}
CHECKS = adapter_checks(_named("openai"), SAMPLES, unplugged=STEADY.unplugged)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_adapter_keeps_its_promises(check: Check) -> None:
    """One promise after the other."""
    check()


def test_two_adapters_of_one_sdk_stand_in_a_traceback_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of OpenAI and LiteLLM hook the same functions, and each does its work once."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with switched_on(["openai", "litellm"]):
        with pytest.raises(openai.OpenAIError, match="api_key") as without_key:
            openai.OpenAI()
        with pytest.raises(openai.BadRequestError) as refused:
            chat("refused j")
    assert [ours(each) for each in (without_key, refused)] == [["init"], ["request"]]


def ours(caught: pytest.ExceptionInfo[Exception]) -> list[str]:
    """Return the functions of stepfork that an exception came through."""
    return [entry.name for entry in caught.traceback if str(entry.path).startswith(PACKAGE)]
