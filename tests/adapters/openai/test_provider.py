"""The provider of these tests is a provider to the SDK: what it says arrives as the SDK's own objects."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from adapters.provider import Server, provider
from adapters.replies import Request, Script, Usage, asks, fails, garbled, says

ASKED: dict[str, Any] = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}]}


@contextmanager
def serving(script: Script) -> Iterator[tuple[openai.OpenAI, Server]]:
    """Start a provider, and a client of it."""
    with provider(script) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="-") as client:
        yield client, server


def test_words_tool_calls_and_usage_arrive_as_objects() -> None:
    """An answer in one piece is read as one of the real provider."""
    call = ("find", {"order": "A-17"})
    with serving([asks(call, text="one moment", usage=Usage(30, 4, cached=20))]) as (client, _):
        reply = client.chat.completions.create(**ASKED)
    (choice,) = reply.choices
    (asked,) = choice.message.tool_calls
    assert (choice.message.content, choice.finish_reason) == ("one moment", "tool_calls")
    assert (asked.function.name, asked.function.arguments) == ("find", '{"order": "A-17"}')
    assert (reply.usage.total_tokens, reply.usage.prompt_tokens_details.cached_tokens) == (34, 20)


def test_a_stream_is_put_together_by_the_sdk() -> None:
    """The SDK finds the whole text and the whole arguments in the pieces, and the usage where it asked."""
    script = [asks(("find", {"order": "A-17"}), text="one moment please")]
    options = {"stream_options": {"include_usage": True}}
    with serving(script) as (client, _), client.chat.completions.stream(**ASKED, **options) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_completion()
    assert kinds.count("content.delta") > 1
    assert kinds.count("tool_calls.function.arguments.delta") > 1
    assert whole.choices[0].message.content == "one moment please"
    assert whole.choices[0].message.tool_calls[0].function.arguments == '{"order": "A-17"}'
    assert whole.usage.completion_tokens > 0


def test_responses_come_whole_and_as_events() -> None:
    """The events of a streamed response are typed, and end with what comes in one piece otherwise."""
    script = [asks(("find", {"order": "A-17"}), text="one moment please")] * 2
    asked: dict[str, Any] = {"model": "test-model", "input": "hello"}
    with serving(script) as (client, _):
        whole = client.responses.create(**asked)
        with client.responses.stream(**asked) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
    assert whole.output_text == streamed.output_text == "one moment please"
    assert whole.output[1].arguments == streamed.output[1].arguments == '{"order": "A-17"}'
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert {"response.output_text.delta", "response.function_call_arguments.delta"} < set(kinds)


def test_the_same_text_has_the_same_vector() -> None:
    """Embeddings are vectors, however the SDK asks for them to be written."""
    with serving([says("")] * 2) as (client, _):
        first = client.embeddings.create(model="test-model", input=["one", "two", "one"])
        plain = client.embeddings.create(model="test-model", input="two", encoding_format="float")
    one, two, again = (each.embedding for each in first.data)
    assert one == again != two
    assert plain.data[0].embedding == pytest.approx(two)


def test_the_sdk_tries_again_after_a_limit_a_fault_and_a_connection_that_was_cut() -> None:
    """What the SDK does not show to its caller has been asked for all the same."""
    script = [fails(429), fails(500), says("two errors"), says("", cut_after=0), says("one cut")]
    with serving(script) as (client, server):
        texts = [client.chat.completions.create(**ASKED).choices[0].message.content for _ in range(2)]
    assert texts == ["two errors", "one cut"]
    assert len(server.asked) == 5


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (fails(400), openai.BadRequestError),
        (fails(401), openai.AuthenticationError),
        (says("hello", fails_after=2), openai.APIError),
        (garbled(), json.JSONDecodeError),
    ],
    ids=["400", "401", "broken stream", "garbled"],
)
def test_what_goes_wrong_is_the_sdks_own_exception(reply: Any, error: type[Exception]) -> None:
    """Errors of every kind arrive as the real ones do."""
    with serving([reply]) as (client, _), pytest.raises(error):
        list(client.chat.completions.create(**ASKED, stream=reply.fails_after is not None))


def test_a_stream_that_is_cut_ends_in_an_exception_after_its_first_pieces() -> None:
    """A connection that ends in the middle of a stream is no end of the stream."""
    with serving([says("hello there", cut_after=2)]) as (client, _):
        stream = client.chat.completions.create(**ASKED, stream=True)
        pieces = [next(stream).choices[0].delta.content for _ in range(2)]
        with pytest.raises(Exception, match=r"Connection error|peer closed connection"):
            next(stream)
    assert pieces == ["", "hello t"]


def test_a_function_may_choose_the_reply() -> None:
    """Whatever order requests come in, each gets what it asks for."""

    def echo(request: Request) -> Any:
        return says(request.body["messages"][-1]["content"].upper())

    with serving(echo) as (client, _):
        assert client.chat.completions.create(**ASKED).choices[0].message.content == "HELLO"


def test_a_script_that_is_at_its_end_says_so() -> None:
    """More requests than replies are the client's error, which it does not try again, and are kept."""
    with serving([]) as (client, server), pytest.raises(openai.BadRequestError, match="no reply left"):
        client.chat.completions.create(**ASKED)
    assert [request.path for request in server.unscripted] == ["/v1/chat/completions"]


def test_nobody_is_answered_once_it_has_stopped() -> None:
    """Connections that were kept alive end with it."""
    with openai.OpenAI(base_url="http://unused", api_key="-", max_retries=0) as client:
        with provider([says("hello")] * 2) as server:
            client.base_url = f"{server.url}/v1"
            client.chat.completions.create(**ASKED)
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(**ASKED)


def test_it_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    """The replies come from a file, the address from its output, and what it was asked from itself."""
    (tmp_path / "script.json").write_text('[{"calls": [["find", {"order": "A-17"}]]}, {"text": "hello"}]')
    command = [sys.executable, "-m", "adapters.provider", str(tmp_path / "script.json")]
    tests = str(Path(__file__).parents[2])
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env={"PYTHONPATH": tests}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with openai.OpenAI(base_url=f"{url}/v1", api_key="-") as client:
            call = client.chat.completions.create(**ASKED).choices[0].message.tool_calls[0]
            assert call.function.name == "find"
            asked = client.get(f"{url}/asked", cast_to=object)
        process.stdin.close()
        assert process.wait(10) == 0
    assert [each["path"] for each in asked] == ["/v1/chat/completions"]
