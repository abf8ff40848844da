"""What is asked of the OpenAI SDK, in every way that it has, and what may go wrong with it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import openai
from pydantic import BaseModel

from adapters.replies import Reply, asks, fails, garbled, says
from adapters.wire_cases import REFUSED, Case, aread, asome, partly, read, some

ADAPTERS = ("openai",)
WORDS = "Grüße, this is a reply that comes in a few pieces"
CHAT: dict[str, Any] = {"model": "gpt-test", "messages": [{"role": "user", "content": "hello"}]}
ASKED: dict[str, Any] = {"model": "gpt-test", "input": "hello"}
STATED = '{"city": "Trier", "people": 110000}'

TRUST = ssl.create_default_context()
"""Of all clients: to read the certificates takes longer than a case."""


class City(BaseModel):
    city: str
    people: int


def sync(url: str, **options: Any) -> openai.OpenAI:
    """Return a client; in a replay there is no key that it could have."""
    return openai.OpenAI(base_url=f"{url}/v1", http_client=openai.DefaultHttpxClient(verify=TRUST), **options)


def later(url: str, **options: Any) -> openai.AsyncOpenAI:
    """Return an async one."""
    http_client = openai.DefaultAsyncHttpxClient(verify=TRUST)
    return openai.AsyncOpenAI(base_url=f"{url}/v1", http_client=http_client, **options)


def helper(manager: Any) -> list[Any]:
    with manager as stream:
        seen = [type(event).__name__ for event in stream]
        return [seen, final_of(stream)]


def final_of(stream: Any) -> Any:
    if hasattr(stream, "get_final_completion"):
        return stream.get_final_completion()
    return stream.get_final_response()


def streamed_raw(manager: Any) -> list[Any]:
    with manager as response:
        return [response.status_code, response.headers.get("x-request-id"), list(response.iter_lines())]


def raw(response: Any) -> list[Any]:
    return [response.status_code, response.headers["content-type"], response.parse(), response.text]


SYNC: dict[str, Callable[[openai.OpenAI], Any]] = {
    "chat": lambda client: client.chat.completions.create(**CHAT),
    "chat-stream": lambda client: read(client.chat.completions.create(**CHAT, stream=True)),
    "responses": lambda client: client.responses.create(**ASKED),
    "responses-stream": lambda client: read(client.responses.create(**ASKED, stream=True)),
    "embeddings": lambda client: client.embeddings.create(model="e", input=["one", "two"]),
    "raw": lambda client: raw(client.chat.completions.with_raw_response.create(**CHAT)),
    "streaming": lambda client: streamed_raw(client.chat.completions.with_streaming_response.create(**CHAT)),
    "helper": lambda client: helper(chat_helper(client)),
    "responses-helper": lambda client: helper(client.responses.stream(**ASKED)),
}
PARSED: dict[str, Callable[[openai.OpenAI], Any]] = {
    "parse": lambda client: chat_parse(client)(**CHAT, response_format=City),
    "responses-parse": lambda client: client.responses.parse(**ASKED, text_format=City),
}


def chat_helper(client: Any) -> Any:
    chat = (
        client.chat.completions
        if hasattr(client.chat.completions, "stream")
        else client.beta.chat.completions
    )
    return chat.stream(**CHAT)


def chat_parse(client: Any) -> Any:
    chat = (
        client.chat.completions if hasattr(client.chat.completions, "parse") else client.beta.chat.completions
    )
    return chat.parse


async def ahelper(manager: Any) -> list[Any]:
    async with manager as stream:
        seen = [type(event).__name__ async for event in stream]
        return [seen, await final_of(stream)]


async def astreamed_raw(manager: Any) -> list[Any]:
    async with manager as response:
        return [response.status_code, [line async for line in response.iter_lines()]]


async def achat_stream(client: openai.AsyncOpenAI) -> Any:
    return await aread(await client.chat.completions.create(**CHAT, stream=True))


async def aresponses_stream(client: openai.AsyncOpenAI) -> Any:
    return await aread(await client.responses.create(**ASKED, stream=True))


async def araw(client: openai.AsyncOpenAI) -> Any:
    response = await client.chat.completions.with_raw_response.create(**CHAT)
    return raw(response)


async def aleft(client: openai.AsyncOpenAI) -> Any:
    return await asome(await client.chat.completions.create(**CHAT, stream=True))


async def cancelled(client: openai.AsyncOpenAI) -> Any:
    try:
        async with asyncio.timeout(0.2):
            await client.chat.completions.create(**CHAT)
    except TimeoutError as error:
        return error


async def cancelled_stream(client: openai.AsyncOpenAI) -> Any:
    seen = []
    try:
        async with asyncio.timeout(0.5):
            async for part in await client.chat.completions.create(**CHAT, stream=True):
                seen.append(part)
    except TimeoutError as error:
        seen.append(error)
    return seen


async def together(client: openai.AsyncOpenAI) -> Any:
    asked = [
        client.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": str(number)}])
        for number in range(4)
    ]
    return await asyncio.gather(*asked)


ASYNC: dict[str, Callable[[openai.AsyncOpenAI], Awaitable[Any]]] = {
    "chat": lambda client: client.chat.completions.create(**CHAT),
    "chat-stream": achat_stream,
    "responses": lambda client: client.responses.create(**ASKED),
    "responses-stream": aresponses_stream,
    "embeddings": lambda client: client.embeddings.create(model="e", input=["one", "two"]),
    "raw": araw,
    "streaming": lambda client: astreamed_raw(client.chat.completions.with_streaming_response.create(**CHAT)),
    "helper": lambda client: ahelper(chat_helper(client)),
    "responses-helper": lambda client: ahelper(client.responses.stream(**ASKED)),
}
APARSED: dict[str, Callable[[openai.AsyncOpenAI], Awaitable[Any]]] = {
    "parse": lambda client: chat_parse(client)(**CHAT, response_format=City),
    "responses-parse": lambda client: client.responses.parse(**ASKED, text_format=City),
}

CASES: dict[str, Case] = {}


def add(name: str, ask: Any, script: Any, *, calls: int = 1, refused: bool = False, **options: Any) -> None:
    """Add a case for a sync or an async client, which its name begins with."""

    def observe(url: str) -> Any:
        return ask(sync(REFUSED if refused else url, **options))

    async def aobserve(url: str) -> Any:
        async with later(REFUSED if refused else url, **options) as client:
            return await ask(client)

    CASES[name] = Case(aobserve if name.startswith("async") else observe, script, calls)


HTML = Reply(body="<html>nothing here</html>", headers={"content-type": "text/html"})

for kind, ways, parsed in (("sync", SYNC, PARSED), ("async", ASYNC, APARSED)):
    for way, ask in ways.items():
        add(f"{kind}-{way}-ok", ask, [says(WORDS)])
        add(f"{kind}-{way}-retried", ask, [fails(429), fails(500), says(WORDS)])
        add(f"{kind}-{way}-limited", ask, [fails(429)] * 2, max_retries=1)
        add(f"{kind}-{way}-cut", ask, [says(WORDS, cut_after=0)], max_retries=0)
    for way in ("chat", "chat-stream", "responses", "streaming"):
        ask = ways[way]
        add(f"{kind}-{way}-broken", ask, [fails(500)], max_retries=0)
        add(f"{kind}-{way}-garbled", ask, [garbled()], max_retries=0)
        add(f"{kind}-{way}-html", ask, [HTML], max_retries=0)
        add(f"{kind}-{way}-refused", ask, [], max_retries=0, refused=True)
        add(f"{kind}-{way}-slow", ask, [says(WORDS, delay=0.5)], max_retries=0, timeout=0.1)
    for way, ask in parsed.items():
        add(f"{kind}-{way}-ok", ask, [says(STATED)])
        add(f"{kind}-{way}-bad", ask, [says('{"city": 1}')])
        add(f"{kind}-{way}-limited", ask, [fails(429)], max_retries=0)
    for way in ("chat-stream", "responses-stream"):
        add(f"{kind}-{way}-cut-later", ways[way], [says(WORDS, cut_after=4)], max_retries=0)
        add(f"{kind}-{way}-gives-up", ways[way], [says(WORDS, fails_after=4)], max_retries=0)
        add(f"{kind}-{way}-stalls", ways[way], [says(WORDS, pause=0.5)], max_retries=0, timeout=0.1)
    add(f"{kind}-tools", ways["chat"], [asks(("look", {"id": 1}), ("find", '{"x'))])

add("sync-left", lambda client: some(client.chat.completions.create(**CHAT, stream=True)), [says(WORDS)])
add("sync-raises", lambda client: partly(client.chat.completions.create(**CHAT, stream=True)), [says(WORDS)])
add(
    "sync-dropped",
    lambda client: str(type(client.chat.completions.create(**CHAT, stream=True))),
    [says(WORDS)],
)
add("async-left", aleft, [says(WORDS)])
add("async-cancelled", cancelled, [says(WORDS, delay=1.0)])
add("async-cancelled-stream", cancelled_stream, [says(WORDS, pause=0.2)])
add("async-together", together, lambda request: says(request.text), calls=4)
