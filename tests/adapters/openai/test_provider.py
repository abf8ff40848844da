"""The provider of these tests is one to the SDK: what it says arrives as the SDK's own objects."""

from __future__ import annotations

import openai
import pytest

from adapters.provider import provider
from adapters.replies import Script, Usage, asks, fails, garbled, says

ASKED = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}]}


def test_words_tool_calls_and_usage_arrive_as_objects() -> None:
    """An answer in one piece is read as the SDK reads those of the real one."""
    with provider([asks(("find", {"order": "A-17"}), text="one moment", usage=Usage(30, 4, 20))]) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-") as client:
            reply = client.chat.completions.create(**ASKED)
    (choice,) = reply.choices
    (call,) = choice.message.tool_calls
    assert (choice.message.content, choice.finish_reason) == ("one moment", "tool_calls")
    assert (call.function.name, call.function.arguments) == ("find", '{"order": "A-17"}')
    assert (reply.usage.total_tokens, reply.usage.prompt_tokens_details.cached_tokens) == (34, 20)
