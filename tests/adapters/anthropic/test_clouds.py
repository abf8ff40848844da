"""Anthropic's models in other people's clouds: recorded as everywhere, with no credentials in a replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

import stepfork
from adapters.provider import provider
from adapters.replies import says
from adapters.wire_cases import KEY, REFUSED
from replays import record
from stepfork._recording import read_run
from stepfork.adapters._switch import switched_on

CHAT: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hello back"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


def vertex(url: str, token: str | None) -> Any:
    return anthropic.AnthropicVertex(region="eu", project_id="mine", access_token=token, base_url=url)


def bedrock(url: str, token: str | None) -> Any:
    """Return a client that has a token of its own; the one that signs needs a package of AWS."""
    return anthropic.AnthropicBedrock(aws_region="eu-1", api_key=token, base_url=url)


def foundry(url: str, token: str | None) -> Any:
    return anthropic.AnthropicFoundry(api_key=token, base_url=url)


IS_NEW = hasattr(anthropic, "AnthropicFoundry")


@pytest.mark.parametrize("make", [vertex, bedrock, foundry] if IS_NEW else [vertex])
@pytest.mark.scenario
def test_a_cloud_needs_no_credentials_in_a_replay(make: Callable[..., Any], tmp_path: Path) -> None:
    """The request is called what it is everywhere; nothing is signed and no token asked for."""

    def agent(url: str = REFUSED, token: str | None = None) -> str:
        return str(make(url, token).messages.create(**CHAT).content[0].text)

    path = tmp_path / "run.jsonl"
    with switched_on(["anthropic"]), provider([says("", body=MESSAGE)]) as server:
        assert record(path, lambda: agent(server.url, KEY)) == "hello back"
    (call,) = read_run(path).root.children
    assert (call.kind, call.name, call.input) == ("model", "anthropic.messages", CHAT)
    assert KEY not in path.read_text()
    assert stepfork.replay(path, agent).value == "hello back"
