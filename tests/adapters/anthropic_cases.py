"""What is asked of the Anthropic SDK, in every way that it has, and what may go wrong with it."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Callable
from typing import Any

import anthropic

from adapters.replies import Reply, asks, fails, garbled, says
from adapters.wire_cases import REFUSED, Case, aread, asome, partly, read, some

ADAPTERS = ("anthropic",)
WORDS = "Grüße, this is a reply that comes in a few pieces"
CHAT: dict[str, Any] = {
    "model": "claude-test",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello"}],
}
TRUST = ssl.create_default_context()
"""Of all clients: to read the certificates takes longer than a case."""


def sync(url: str, **options: Any) -> anthropic.Anthropic:
    """Return a client; in a replay there is no key that it could have."""
    http_client = anthropic.DefaultHttpxClient(verify=TRUST)
    return anthropic.Anthropic(base_url=url, http_client=http_client, **options)


def later(url: str, **options: Any) -> anthropic.AsyncAnthropic:
    """Return an async one."""
    http_client = anthropic.DefaultAsyncHttpxClient(verify=TRUST)
    return anthropic.AsyncAnthropic(base_url=url, http_client=http_client, **options)


def helper(manager: Any) -> list[Any]:
    """Read what the SDK makes of a stream."""
    with manager as stream:
        seen = [event.type for event in stream]
        return [seen, stream.get_final_message()]


def words(manager: Any) -> list[Any]:
    with manager as stream:
        return [list(stream.text_stream), stream.get_final_text()]


def raw(response: Any) -> list[Any]:
    return [response.status_code, response.headers["content-type"], response.parse()]


def streamed_raw(manager: Any) -> list[Any]:
    with manager as response:
        return [response.status_code, list(response.iter_lines())]


async def ahelper(manager: Any) -> list[Any]:
    async with manager as stream:
        seen = [event.type async for event in stream]
        return [seen, await stream.get_final_message()]


async def astreamed_raw(manager: Any) -> list[Any]:
    async with manager as response:
        return [response.status_code, [line async for line in response.iter_lines()]]


async def astream(client: anthropic.AsyncAnthropic) -> Any:
    return await aread(await client.messages.create(**CHAT, stream=True))


async def araw(client: anthropic.AsyncAnthropic) -> Any:
    response: Any = await client.messages.with_raw_response.create(**CHAT)
    parsed = response.parse()
    return [response.status_code, await parsed if inspect.isawaitable(parsed) else parsed]


async def aleft(client: anthropic.AsyncAnthropic) -> Any:
    return await asome(await client.messages.create(**CHAT, stream=True))


async def cancelled(client: anthropic.AsyncAnthropic) -> Any:
    try:
        async with asyncio.timeout(0.2):
            await client.messages.create(**CHAT)
    except TimeoutError as error:
        return error


SYNC: dict[str, Callable[[anthropic.Anthropic], Any]] = {
    "messages": lambda client: client.messages.create(**CHAT),
    "stream": lambda client: read(client.messages.create(**CHAT, stream=True)),
    "helper": lambda client: helper(client.messages.stream(**CHAT)),
    "words": lambda client: words(client.messages.stream(**CHAT)),
    "raw": lambda client: raw(client.messages.with_raw_response.create(**CHAT)),
    "streaming": lambda client: streamed_raw(client.messages.with_streaming_response.create(**CHAT)),
    "beta": lambda client: client.beta.messages.create(**CHAT),
}
ASYNC: dict[str, Callable[[anthropic.AsyncAnthropic], Any]] = {
    "messages": lambda client: client.messages.create(**CHAT),
    "stream": astream,
    "helper": lambda client: ahelper(client.messages.stream(**CHAT)),
    "raw": araw,
    "streaming": lambda client: astreamed_raw(client.messages.with_streaming_response.create(**CHAT)),
    "beta": lambda client: client.beta.messages.create(**CHAT),
}

CASES: dict[str, Case] = {}


def add(name: str, ask: Any, script: Any, *, refused: bool = False, **options: Any) -> None:
    """Add a case for a sync or an async client, which its name begins with."""

    def observe(url: str) -> Any:
        return ask(sync(REFUSED if refused else url, **options))

    async def aobserve(url: str) -> Any:
        async with later(REFUSED if refused else url, **options) as client:
            return await ask(client)

    CASES[name] = Case(aobserve if name.startswith("async") else observe, script)


HTML = Reply(body="<html>nothing here</html>", headers={"content-type": "text/html"})

for kind, ways in (("sync", SYNC), ("async", ASYNC)):
    for way, ask in ways.items():
        add(f"{kind}-{way}-ok", ask, [says(WORDS)])
        add(f"{kind}-{way}-retried", ask, [fails(429), fails(529), says(WORDS)])
        add(f"{kind}-{way}-limited", ask, [fails(429)] * 2, max_retries=1)
        add(f"{kind}-{way}-cut", ask, [says(WORDS, cut_after=0)], max_retries=0)
    for way in ("messages", "stream", "streaming"):
        ask = ways[way]
        add(f"{kind}-{way}-broken", ask, [fails(500)], max_retries=0)
        add(f"{kind}-{way}-garbled", ask, [garbled()], max_retries=0)
        add(f"{kind}-{way}-html", ask, [HTML], max_retries=0)
        add(f"{kind}-{way}-refused", ask, [], max_retries=0, refused=True)
        add(f"{kind}-{way}-slow", ask, [says(WORDS, delay=0.5)], max_retries=0, timeout=0.1)
    for way in ("stream", "helper"):
        ask = ways[way]
        add(f"{kind}-{way}-cut-later", ask, [says(WORDS, cut_after=4)], max_retries=0)
        add(f"{kind}-{way}-gives-up", ask, [says(WORDS, fails_after=4)], max_retries=0)
        add(f"{kind}-{way}-stalls", ask, [says(WORDS, pause=0.5)], max_retries=0, timeout=0.1)
    add(f"{kind}-tools", ways["messages"], [asks(("look", {"id": 1}), text="I look")])

add("sync-left", lambda client: some(client.messages.create(**CHAT, stream=True)), [says(WORDS)])
add("sync-raises", lambda client: partly(client.messages.create(**CHAT, stream=True)), [says(WORDS)])
add("sync-dropped", lambda client: str(type(client.messages.create(**CHAT, stream=True))), [says(WORDS)])
add("async-left", aleft, [says(WORDS)])
add("async-cancelled", cancelled, [says(WORDS, delay=1.0)])
