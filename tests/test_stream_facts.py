"""What a model says in the pieces of a stream is a fact, wherever the pieces are cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepfork
from replays import made, record
from stepfork._verdict.assess import document_of
from stepfork._verdict.document import Node

ORDER = "5d1f3c9e-6a3b-4f0e-9a52-0c9f7f2a1b3d"
DATE = "2027-05-12"
ARGUMENTS = json.dumps({"order": ORDER, "date": DATE})


def pieces(text: str) -> list[str]:
    """Return the text as a provider streams it, a few letters each time."""
    return [text[at : at + 5] for at in range(0, len(text), 5)]


def event(**document: Any) -> str:
    """Return one event of a stream as it stands on the wire."""
    return f"data: {json.dumps(document)}\n\n"


def deltas(text: str) -> Iterator[str]:
    """Yield the events in which Anthropic streams the arguments of a tool."""
    yield event(type="content_block_start", index=0, content_block={"type": "tool_use", "name": "book"})
    for piece in pieces(text):
        yield event(type="content_block_delta", index=0, delta={"partial_json": piece})


STREAMS: dict[str, list[Any]] = {
    "text": pieces(ARGUMENTS),
    "chunks": [{"id": "c1", "parts": [{"text": piece}]} for piece in pieces(ARGUMENTS)],
    "wire": [{"status": 200, "headers": {}}, *deltas(ARGUMENTS)],
}


@stepfork.model
def stream(form: str) -> Iterator[Any]:
    """Yield what the model says."""
    yield from STREAMS[form]


@stepfork.tool
def book(order: str, date: str) -> str:
    """Book what was asked for."""
    return "booked"


def agent(date: str = DATE, order: str = ORDER) -> Callable[[str], str]:
    """Return an agent that books for this day, which it has from the model."""

    def handle(form: str) -> str:
        list(stream(form))
        return book(order, date)

    return handle


def shown(path: Path, now: Callable[[str], str], form: str) -> Node:
    """Return what the snapshot shows of a replay, which is answered to its end."""
    replayed = stepfork.replay(path, now)
    assert [call.name for call in made(replayed)] == ["stream", "book"], form
    node: Node = document_of(replayed, test="test")["calls"][0]["calls"][1]["input"]
    return node


@pytest.mark.parametrize("form", STREAMS)
def test_an_id_and_a_day_that_a_stream_has_cut_in_two_are_facts(tmp_path: Path, form: str) -> None:
    """A tool that is called with them is shown with them, so another day or order is a difference."""
    path = tmp_path / "run.jsonl"
    record(path, agent(), form=form)
    assert shown(path, agent(), form) == {"order": ORDER, "date": DATE}
