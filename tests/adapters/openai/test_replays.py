"""What a test may do with the replay of a model that was recorded at its SDK: put a reply in, ask really, go on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

import stepfork
from adapters.provider import Server, provider
from adapters.replies import Script, asks, fails, says
from adapters.wire_cases import KEY, models_in
from stepfork._recording import read_run
from stepfork.adapters._switch import switched_on
from stepfork.testing import replay  # type: ignore[attr-defined]

CHAT = "openai.chat.completions"


def ask(client: openai.OpenAI, *words: str) -> list[str]:
    """Ask for each of these."""
    replies = []
    for word in words:
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": word}])
        replies.append(str(reply.choices[0].message.content))
    return replies


def stream(client: openai.OpenAI, word: str) -> list[str]:
    """Ask for this in pieces."""
    chunks = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": word}], stream=True
    )
    return [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
