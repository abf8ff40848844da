"""What a journal does not write again: conversations and large arguments that change a little."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import threading
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from documents import PLAINS
from properties import thoroughly
from recorded import Recorded
from stepfork._archive import archive
from stepfork._codec import canonical
from stepfork._events import CallStarted, decode_line, encode_line
from stepfork._recording import read_run
from stepfork._repeats import Expander, Shortener
from stepfork.errors import RecordingDamaged


@stepfork.model
def ask(messages: list[dict[str, str]], **options: Any) -> dict[str, str]:
    """Answer with a text of its own."""
    return {"role": "assistant", "content": f"answer {len(messages)} " + "a" * 300}


@stepfork.tool
def book(db: dict[str, Any], order: str) -> str:
    """Change one order in place."""
    db["orders"][order]["status"] = "booked"
    db["log"].append(order)
    return order


@stepfork.step
def turn(state: dict[str, Any]) -> dict[str, Any]:
    """Take one turn and return the state, with the conversation in it."""
    reply = ask(state["messages"], model="m")
    return {**state, "messages": [*state["messages"], reply, {"role": "user", "content": "b" * 200}]}


def talk(turns: int) -> list[list[dict[str, str]]]:
    """Ask so many times in one conversation, and return what was asked."""
    messages = [{"role": "system", "content": "s" * 2000}]
    asked = []
    for number in range(turns):
        asked.append(copy.deepcopy(messages))
        messages.append(ask(messages))
        messages.append({"role": "user", "content": f"{number} " + "b" * 200})
    return asked


def bytes_of(path: Path) -> int:
    """Return the size of a recording with its blobs."""
    return sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file())


@stepfork.tool
def fill(db: dict[str, Any], number: int, rows: int) -> None:
    """Change much of it in place."""
    db[f"rows {number}"] = [f"row {row} " + "r" * 50 for row in range(rows)]


@pytest.mark.parametrize("rows", [60, 2000])
def test_many_changes_made_in_place_come_back(tmp_path: Path, rows: int) -> None:
    """They are told by those of the call before, or lie in a blob, like any other value (B37)."""
    recording = Recorded(tmp_path / "run.jsonl")
    with recording:
        for number in range(3):
            fill({"a": 1}, number % 2, rows)

    assert recording.path.read_bytes().count(b'"part":"changes"') == 2
    assert [list(call.outcome.changes or {}) for call in recording.run.root.children] == [["db"]] * 3
    first, second, third = (canonical(call.outcome.changes) for call in recording.run.root.children)
    assert first == third
    assert first.replace(b"rows 0", b"rows 1") == second


@pytest.mark.parametrize("in_state", [False, True])
def test_a_conversation_is_stored_once_however_long_it_gets(tmp_path: Path, in_state: bool) -> None:
    """Twice the turns take twice the bytes, also where the messages are in a state that steps hand on."""

    def recorded(turns: int) -> Recorded:
        path = tmp_path / str(turns) / "run.jsonl"
        recording = Recorded(path)
        with recording:
            if in_state:
                state: dict[str, Any] = {"messages": [{"role": "system", "content": "s" * 2000}], "n": 1}
                for _ in range(turns):
                    state = turn(state)
            else:
                talk(turns)
        return recording

    short, long = recorded(100), recorded(200)

    assert bytes_of(long.path) < 2.2 * bytes_of(short.path)
    messages = long.inputs("ask")[-1]["messages"]
    assert len(messages) == 399
    raw = len(json.dumps(messages))
    assert bytes_of(long.path) < raw * (4 if in_state else 2.5)


def test_the_messages_of_every_call_come_back(tmp_path: Path) -> None:
    """What a line refers to is in its place again when the file is read, also from an export."""
    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        asked = talk(40)
    export = tmp_path / "run.stepfork"
    export.write_bytes(archive(recorded.path))

    assert [call["messages"] for call in recorded.inputs("ask")] == asked
    assert [call.input["messages"] for call in read_run(export).root.children] == asked


def test_conversations_that_go_on_side_by_side_are_stored_once_each(tmp_path: Path) -> None:
    """Five agents at once ask one model: each call refers to the call before in its own conversation."""

    @stepfork.model
    async def ask_later(messages: list[str]) -> str:
        await asyncio.sleep(0)
        return f"answer {len(messages)}"

    async def agent(name: str) -> None:
        messages = [f"{name} {number} " + name * 150 for number in range(10)]
        for number in range(40):
            await ask_later(messages)
            messages.append(f"{name} {number} " + name * 150)

    async def all_of_them() -> None:
        async with recorded:
            await asyncio.gather(*map(agent, "abcde"))

    recorded = Recorded(tmp_path / "run.jsonl")
    asyncio.run(all_of_them())

    assert bytes_of(recorded.path) < 4 * 5 * 50 * 160
    assert sorted(len(call["messages"]) for call in recorded.inputs("ask_later")) == sorted(
        [*range(10, 50)] * 5
    )


def test_conversations_that_are_almost_the_same_are_stored_once_each(tmp_path: Path) -> None:
    """Two that differ in a few characters at their start take no more than two with nothing in common."""
    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        pair = [[{"role": "system", "content": f"You are agent {name}. " + "s" * 2000}] for name in "ab"]
        for _ in range(80):
            for messages in pair:
                messages.append(ask(messages))

    raw = len(json.dumps(pair))
    assert bytes_of(recorded.path) < 4 * raw


def test_a_prompt_that_grows_by_a_line_per_call_is_stored_once(tmp_path: Path) -> None:
    """A conversation kept as one text, as agents that reason in prose have it, is no exception."""

    @stepfork.model
    def complete(prompt: str) -> str:
        return f"Thought {len(prompt)}: " + "é" * 100

    prompt, asked = "Question: ä " + "q" * 500, []
    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        for number in range(100):
            asked.append(prompt)
            prompt += f"\n{complete(prompt)}\nObservation {number}: " + "o" * 100

    assert [call["prompt"] for call in recorded.inputs("complete")] == asked
    assert bytes_of(recorded.path) < 4 * len(prompt.encode())


def test_large_chunks_of_a_stream_are_each_their_own(tmp_path: Path) -> None:
    """Chunks have no address: none is told by another, nor is what comes later told by one."""
    chunks = [[f"chunk {number} " + "c" * 3000, *map(str, range(200))] for number in range(5)]

    @stepfork.model
    def stream() -> Iterator[list[str]]:
        yield from chunks

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        assert [chunk for _ in range(2) for chunk in stream()] == chunks * 2
        ask([{"role": "user", "content": text} for text in chunks[4]])

    streams = [call.outcome.items for call in recorded.run.root.children if call.name.endswith("stream")]
    assert streams == [chunks, chunks]
    assert [each["content"] for each in recorded.inputs("ask")[0]["messages"]] == chunks[4]


def test_a_large_argument_that_a_tool_changes_is_stored_once(tmp_path: Path) -> None:
    """Of a database of a megabyte each call writes what changed; and once it is said how to leave it out."""
    orders = {f"A-{number}": {"status": "open", "note": "x" * 1000} for number in range(1200)}
    db: dict[str, Any] = {"orders": orders, "log": [], "users": ["u" * 10] * 1000}
    recorded = Recorded(tmp_path / "run.jsonl")
    with warnings.catch_warnings(record=True) as said, recorded:
        warnings.simplefilter("always")
        for number in range(10):
            book(db, f"A-{number}")

    inputs = recorded.inputs("book")
    assert [len(each["db"]["log"]) for each in inputs] == [*range(10)]
    assert [each["db"]["orders"][f"A-{9}"]["status"] for each in inputs] == ["open"] * 10
    assert inputs[9]["db"]["orders"]["A-8"]["status"] == "booked"
    assert bytes_of(recorded.path) < 1.1 * len(json.dumps(db))
    advice = [str(each.message) for each in said if "ignore=" in str(each.message)]
    assert len(advice) <= 1
    assert all("'db' of" in text for text in advice)


@thoroughly(100)
@given(values=st.lists(PLAINS, min_size=2, max_size=6))
def test_whatever_an_argument_becomes_it_comes_back_to_the_byte(values: list[Any]) -> None:
    """Types, key order and all: where a reference cannot tell it exactly, the value is written whole."""
    page = {"page": [f"line {number} of what stays the same" for number in range(60)]}
    shortener, expander = Shortener(lambda value: value), Expander(Path("nowhere"))
    for number, value in enumerate(values):
        event = CallStarted(f"a#1/t#{number}", "tool", {"p": {**page, "value": value}, "q": [page, value]})
        line = encode_line(event)
        short = shortener.shortened(line)
        shortener.keep()
        assert encode_line(expander.whole(decode_line(short))) == line


@pytest.mark.parametrize(
    "reference",
    [
        b'{"$as in":"test#1/ask#9","part":"input/messages"}',
        b'{"$as in":"test#1/ask#1","part":"input/other"}',
        b'{"$as in":"test#1/ask#1"}',
        b'{"$as in":["test#1/ask#1"],"part":"input/messages"}',
        b'{"$as in":"test#1/ask#1","part":"input/messages","changes":{"gone":["/7000"]}}',
        b'{"$as in":"test#1/ask#1","part":"input/messages","changes":3}',
    ],
)
def test_a_reference_to_what_is_not_there_is_damage(tmp_path: Path, reference: bytes) -> None:
    """(B73) A line that was deleted or edited is told with file and line, never read as something else."""
    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        talk(1)
        ask([{"role": "user", "content": "PLACE"}])
    data = recorded.path.read_bytes().replace(b'[{"role":"user","content":"PLACE"}]', reference)
    recorded.path.write_bytes(data)

    with pytest.raises(RecordingDamaged, match=r"run\.jsonl:5"):
        read_run(recorded.path)


def test_a_run_that_is_over_keeps_nothing_of_the_agent_alive(tmp_path: Path) -> None:
    """A thread that a tool has started lives on, and with it what it knows of its call; no argument does."""

    class Basket:
        """Something that can be referred to weakly."""

    going = threading.Event()

    @stepfork.tool
    def start(basket: Basket, text: str) -> threading.Thread:
        thread = threading.Thread(target=going.wait)
        thread.start()
        return thread

    basket = Basket()
    gone = weakref.ref(basket)
    with Recorded(tmp_path / "run.jsonl"):
        thread = start(basket, "x" * 3000)
    del basket
    gc.collect()
    try:
        assert gone() is None
    finally:
        going.set()
        thread.join()
