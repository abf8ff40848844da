"""What the SDK's own objects tell of tokens, returned by functions that are decorated and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import stepfork
from adapters.provider import provider
from adapters.replies import Usage, says
from stepfork._calls import Usage as Told
from stepfork._recording import read_run

CHAT: dict[str, Any] = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}]}
ASKED: dict[str, Any] = {"model": "test-model", "input": "hello"}
WITH_USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


@stepfork.model
def ask(request: Callable[[], Any]) -> Any:
    return request()


@stepfork.model
def ask_in_pieces(request: Callable[[], Any]) -> Iterator[Any]:
    yield from request()


def streamed(client: openai.OpenAI) -> None:
    """Read a stream of the SDK's own kind to its end."""
    with ask(lambda: client.chat.completions.stream(**CHAT, **WITH_USAGE)) as stream:
        for _ in stream:
            pass


def final(client: openai.OpenAI) -> None:
    """Ask such a stream for what it comes to, and for nothing else."""
    with ask(lambda: client.responses.stream(**ASKED)) as stream:
        stream.get_final_response()


WAYS: dict[str, Callable[[openai.OpenAI], object]] = {
    "reply": lambda client: ask(lambda: client.chat.completions.create(**CHAT)),
    "dict": lambda client: ask(lambda: client.chat.completions.create(**CHAT).model_dump()),
    "json": lambda client: ask(lambda: client.chat.completions.create(**CHAT).to_json()),
    "pair": lambda client: ask(lambda: ("hello", client.chat.completions.create(**CHAT))),
    "raw": lambda client: ask(lambda: client.chat.completions.with_raw_response.create(**CHAT).http_response),
    "stream": lambda client: list(
        ask(lambda: client.chat.completions.create(**CHAT, **WITH_USAGE, stream=True))
    ),
    "generator": lambda client: list(
        ask_in_pieces(lambda: client.chat.completions.create(**CHAT, **WITH_USAGE, stream=True))
    ),
    "manager": streamed,
    "response": lambda client: ask(lambda: client.responses.create(**ASKED)),
    "response-events": lambda client: list(ask(lambda: client.responses.create(**ASKED, stream=True))),
    "final-response": final,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_tokens_of_a_call_are_found(tmp_path: Path, way: str) -> None:
    """Whatever of the SDK the function hands on."""
    told = record(tmp_path / "run.jsonl", WAYS[way])
    assert told == Told(120, 7, 64)


def test_a_stream_without_usage_and_a_mere_text_tell_nothing(tmp_path: Path) -> None:
    """A stream tells it only where it was asked for."""
    without = record(
        tmp_path / "a.jsonl",
        lambda client: list(ask(lambda: client.chat.completions.create(**CHAT, stream=True))),
    )
    text = record(
        tmp_path / "b.jsonl",
        lambda client: ask(lambda: client.chat.completions.create(**CHAT).choices[0].message.content),
    )
    assert (without, text) == (None, None)


def record(path: Path, agent: Callable[[openai.OpenAI], object]) -> Told | None:
    """Run an agent against a provider; returns what its one model call told."""
    with (
        provider([says("hello", usage=Usage(120, 7, cached=64))]) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="-") as client,
        stepfork.run("agent", path=path),
    ):
        agent(client)
    run = read_run(path)
    (model,) = (call for call in run.walk() if call.kind == "model")
    assert run.usage == model.outcome.usage
    return model.outcome.usage
