"""What the SDK's own objects tell of tokens, returned by functions that are decorated and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

import stepfork
from adapters.provider import provider
from adapters.replies import Usage, says
from stepfork._calls import Usage as Told
from stepfork._recording import read_run

ASKED: dict[str, Any] = {
    "model": "test-model",
    "max_tokens": 99,
    "messages": [{"role": "user", "content": "hello"}],
}


@stepfork.model
def ask(request: Callable[[], Any]) -> Any:
    return request()


def texts(client: anthropic.Anthropic) -> None:
    """Read the text of a stream of the SDK's own kind, and ask for the message then."""
    with ask(lambda: client.messages.stream(**ASKED)) as stream:
        list(stream.text_stream)
        stream.get_final_message()


def events(client: anthropic.Anthropic) -> None:
    """Read the events of such a stream."""
    with ask(lambda: client.messages.stream(**ASKED)) as stream:
        list(stream)


WAYS: dict[str, Callable[[anthropic.Anthropic], object]] = {
    "reply": lambda client: ask(lambda: client.messages.create(**ASKED)),
    "dict": lambda client: ask(lambda: client.messages.create(**ASKED).model_dump()),
    "raw": lambda client: ask(lambda: client.messages.with_raw_response.create(**ASKED).http_response),
    "stream": lambda client: list(ask(lambda: client.messages.create(**ASKED, stream=True))),
    "events": events,
    "texts": texts,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_tokens_of_a_call_are_found(tmp_path: Path, way: str) -> None:
    """Whatever of the SDK the function hands on."""
    told = record(tmp_path / "run.jsonl", WAYS[way])
    assert told == Told(120, 7, 64)


def test_a_stream_that_was_left_tells_its_input(tmp_path: Path) -> None:
    """It comes with the first event; the output is what was counted by then."""

    def agent(client: anthropic.Anthropic) -> None:
        stream = ask(lambda: client.messages.create(**ASKED, stream=True))
        next(stream)
        stream.close()

    assert record(tmp_path / "run.jsonl", agent) == Told(120, 1, 64)


def record(path: Path, agent: Callable[[anthropic.Anthropic], object]) -> Told | None:
    """Run an agent against a provider; returns what its one model call told."""
    with (
        provider([says("hello", usage=Usage(120, 7, cached=64))]) as server,
        anthropic.Anthropic(base_url=server.url, api_key="-") as client,
        stepfork.run("agent", path=path),
    ):
        agent(client)
    run = read_run(path)
    (model,) = (call for call in run.walk() if call.kind == "model")
    assert run.usage == model.outcome.usage
    return model.outcome.usage
