from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from properties import thoroughly
from recorded import Recorded
from secret_samples import LONG, PLANTED, VARIABLES, Planted, b64
from stepfork._redact import Redactor


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into chunks."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def written(redactor: Redactor, chunks: list[Any]) -> list[Any]:
    """Return what stands on disk of the chunks of one stream."""
    stream = redactor.stream()
    return [redactor.redact(stream.item(chunk)) for chunk in chunks]


def shown(planted: Planted, joined: str) -> list[str]:
    """Return the parts of a secret, eight characters long, that a text shows."""
    secret = planted.secret
    parts = [secret[start : start + 8] for start in range(len(secret) - 7)]
    return [part for part in parts if part in joined]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 9, 11, 13, 16])
def test_no_eight_characters_of_a_secret_are_written_however_a_stream_is_cut(size: int) -> None:
    """Of 50 kinds of secret, in pieces of any size, what is on disk tells nothing when it is joined (B43)."""
    for planted in PLANTED:
        chunks = pieces(f"see {planted.text}\n(end)", size)
        joined = "".join(written(Redactor(environ=VARIABLES), chunks))
        assert shown(planted, joined) == [], joined
        assert joined.startswith("see ")
        assert joined.endswith("\n(end)")


@thoroughly(100)
@given(st.sampled_from(PLANTED), st.lists(st.integers(1, 12), min_size=1))
def test_pieces_of_different_sizes_show_no_more(planted: Planted, sizes: list[int]) -> None:
    """A provider's stream is not cut evenly (B43)."""
    text, chunks = f"the key is {planted.text}\nand no other", []
    for size in sizes * len(text):
        chunks.append(text[:size])
        text = text[size:]
    assert shown(planted, "".join(written(Redactor(environ=VARIABLES), chunks))) == []


def test_all_pieces_of_a_secret_have_one_number_and_the_next_secret_has_another() -> None:
    """A reader sees that the pieces belong together."""
    redactor = Redactor(environ={})
    chunks = written(redactor, ["a sk-ant-", "api03-Qm7xV2pLk9R", "tZ4wN8sYb", " and ", "ghp_", LONG, " end"])
    assert chunks == [
        "a sk-ant-",
        "[redacted-1]*****",
        "[redacted-1]",
        " and ",
        "ghp_",
        f"[redacted-2]{'*' * 29}",
        " end",
    ]


def test_what_is_no_secret_is_the_same_object() -> None:
    """A stream without secrets costs no copy, whatever its chunks are."""
    chunks: list[Any] = [
        "The key ",
        "to the door",
        " is sk-",
        "learn",
        {"choices": [{"delta": {"content": "token"}}]},
        {"$bytes": b64(b"\xff1")},
        None,
        3,
        {"$object": "shop:Chunk", "state": {"n": [1, "key="]}},
    ]
    stream = Redactor(environ=VARIABLES).stream()
    for chunk in chunks:
        assert stream.item(chunk) is chunk


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda text: {"choices": [{"index": 0, "delta": {"content": text}}], "id": "chatcmpl-1"},
        lambda text: {"$object": "sdk:Event", "state": {"type": "text_delta", "text": text}},
        lambda text: {"$tuple": ["content", text]},
        lambda text: {"$bytes": b64(text.encode())},
    ],
    ids=["dict", "object", "tuple", "bytes"],
)
def test_a_text_is_followed_where_it_stands_in_the_chunk(wrapped: Any) -> None:
    """A delta deep in a provider's event is read behind the delta of the event before (B43)."""
    secret = VARIABLES["OPENAI_API_KEY"]
    chunks = written(Redactor(environ=VARIABLES), [wrapped(piece) for piece in pieces(f"x {secret} y", 4)])
    hidden = wrapped("[redacted-1]")
    # "x pl", "ain-", "old-", "valu", "e-of", "-77 ", "y"
    assert chunks == [
        wrapped("x pl"),
        wrapped("ain-"),
        hidden,
        hidden,
        hidden,
        wrapped("[redacted-1] "),
        wrapped("y"),
    ]


def test_two_texts_of_one_chunk_are_two_texts() -> None:
    """What stands side by side in a chunk is not read as one text."""
    chunks = [{"a": "sk-ant-", "b": "api03-"}, {"a": "hello world", "b": LONG}]
    assert written(Redactor(environ={}), chunks) == chunks


@pytest.mark.parametrize("is_async", [False, True], ids=["generator", "async generator"])
def test_a_recorded_stream_hides_a_secret_that_comes_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """The agent gets each piece as it was, at once; the file shows none of them (B43)."""
    secret = VARIABLES["OPENAI_API_KEY"]
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    chunks = pieces(secret, 5)

    @stepfork.model
    def ask() -> Iterator[str]:
        yield from chunks

    @stepfork.model
    async def ask_async() -> AsyncIterator[str]:
        for chunk in chunks:
            yield chunk

    async def collect() -> list[str]:
        return [chunk async for chunk in ask_async()]

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded:
        assert (asyncio.run(collect()) if is_async else list(ask())) == chunks
    assert recorded.call("ask_async#1" if is_async else "ask#1").outcome.items == [
        chunks[0],
        *["[redacted-1]"] * (len(chunks) - 1),
    ]
