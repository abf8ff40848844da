"""The provider of these tests is a provider to the SDK: what it says arrives as the SDK's own objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import pytest

from adapters.provider import Server, provider
from adapters.replies import Script, Usage, asks, fails, says

ASKED: dict[str, Any] = {
    "model": "test-model",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello"}],
}


@contextmanager
def serving(script: Script) -> Iterator[tuple[anthropic.Anthropic, Server]]:
    """Start a provider, and a client of it."""
    with provider(script) as server, anthropic.Anthropic(base_url=server.url, api_key="-") as client:
        yield client, server


def test_words_tool_calls_and_usage_arrive_as_objects() -> None:
    """An answer in one piece is read as one of the real provider."""
    call = ("find", {"order": "A-17"})
    with serving([asks(call, text="one moment", usage=Usage(30, 4, cached=20))]) as (client, _):
        reply = client.messages.create(**ASKED)
    words, asked = reply.content
    assert (words.text, asked.name, asked.input) == ("one moment", "find", {"order": "A-17"})
    assert reply.stop_reason == "tool_use"
    assert (reply.usage.input_tokens, reply.usage.cache_read_input_tokens) == (10, 20)


def test_a_stream_is_put_together_by_the_sdk() -> None:
    """The SDK finds the whole text, the whole arguments and the usage in the pieces."""
    script = [asks(("find", {"order": "A-17"}), text="one moment please", usage=Usage(30, 4))]
    with serving(script) as (client, _), client.messages.stream(**ASKED) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_message()
    assert min(kinds.count("text"), kinds.count("input_json")) > 1
    assert (whole.content[0].text, whole.content[1].input) == ("one moment please", {"order": "A-17"})
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (30, 4)


def test_the_sdk_tries_again_after_a_limit_and_an_overload() -> None:
    """What the SDK does not show to its caller has been asked for all the same."""
    with serving([fails(429), fails(529), says("two errors")]) as (client, server):
        assert client.messages.create(**ASKED).content[0].text == "two errors"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("reply", "error"),
    [(fails(400), anthropic.BadRequestError), (says("hello", fails_after=2), anthropic.APIStatusError)],
    ids=["400", "broken stream"],
)
def test_what_goes_wrong_is_the_sdks_own_exception(reply: Any, error: type[Exception]) -> None:
    """Errors arrive as the real ones do, in the middle of a stream too."""
    with serving([reply]) as (client, _), pytest.raises(error):
        list(client.messages.create(**ASKED, stream=reply.fails_after is not None))
