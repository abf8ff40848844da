"""Requests to models with an HTTP client alone, recorded and then replayed with no provider."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from adapters.httpx_cases import CASES, CHAT, FORM, TRUST, WORDS, libraries, pieces
from adapters.provider import provider
from adapters.replies import Reply, Request, says
from adapters.steady import Steady
from adapters.wire_cases import models_in, results
from properties import thoroughly
from stepfork._calls import Usage
from stepfork._codec import decode
from stepfork._recording import read_run
from stepfork.adapters import _wire_body
from stepfork.adapters._switch import _named, switched_on
from stepfork.adapters._wire import Texts
from stepfork.testing import Check, Sample, adapter_checks

httpx = libraries()[0]


@pytest.mark.parametrize("name", CASES)
def test_a_request_comes_to_the_same_without_its_provider(name: str) -> None:
    """Values, chunks and errors are equal, a call is one record, and nothing is even tried."""
    told = results("adapters.httpx_cases")[name]
    assert told["now"] == {"saw": told["then"]["saw"], "attempts": []}
    assert len(models_in(told["recording"])) == 1


def test_what_is_recorded_is_the_body_and_no_key_or_host() -> None:
    """Not in the recording: headers of the request, the query with its key, where the provider is."""
    recordings = results("adapters.httpx_cases")
    gemini = recordings[f"{httpx.__name__}-gemini"]["recording"]
    (call,) = models_in(gemini)
    assert call["call"].endswith("/http.generateContent#1")
    assert call["input"] == {"contents": [{"parts": [{"text": "hello"}]}], "model": "gemini-test"}
    for told in recordings.values():
        text = told["recording"].read_text()
        assert "sk-nobodys" not in text
        assert "AIzaNobodys" not in text


def test_other_requests_are_left_alone(tmp_path: Path) -> None:
    """What asks no model is sent as it is, compression and all, and not recorded."""

    def mirror(request: Request) -> Reply:
        return Reply(body={"headers": dict(request.headers)})

    run = stepfork.run("others", path=tmp_path / "run.jsonl")
    with provider(mirror) as server, switched_on(["httpx"]), run, httpx.Client() as client:
        told = client.post(f"{server.url}/api/chat", json={"text": "our own chat"}).json()
        client.get(f"{server.url}/v1/chat/completions")
        client.post(f"{server.url}/v1/messages/7", json={"model": "x"})
    assert "gzip" in told["headers"]["accept-encoding"]
    assert models_in(tmp_path / "run.jsonl") == []


WAV = {"field": "file", "name": "a.wav", "content": b"RIFF\xff"}
FILES = [
    {"field": "image", "name": "a;b.png", "content": b"\x89PNG\r\n--x\r\n"},
    {"field": "image", "name": "c.png", "content": b"PNG"},
]


@pytest.mark.parametrize(
    ("case", "asked"),
    [
        ("made-while-sent", CHAT),
        ("async-made-while-sent", CHAT),
        ("file", CHAT),
        ("form", {**FORM, "files": FILES}),
        ("upload", {"model": "whisper-test", "files": [WAV]}),
    ],
)
def test_a_body_of_any_kind_is_recorded_by_what_it_says(case: str, asked: dict[str, Any]) -> None:
    """Of a form its fields and files, and not what parts them, which differs each time."""
    (call,) = models_in(results("adapters.httpx_cases")[f"{httpx.__name__}-{case}"]["recording"])
    assert {name: decode(value) for name, value in call["input"].items()} == asked


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_body_that_is_made_while_it_is_sent_reaches_the_provider_once(
    tmp_path: Path, is_recorded: bool
) -> None:
    """In the pieces that it was made in; a client that sends it again has nothing more to send."""
    made: list[bytes] = []

    def body() -> Iterator[bytes]:
        for piece in pieces():
            made.append(piece)
            yield piece

    with provider([says(WORDS)] * 2) as server, switched_on(["httpx"]), ExitStack() as stack:
        if is_recorded:
            stack.enter_context(stepfork.run("made", path=tmp_path / "run.jsonl"))
        client = stack.enter_context(httpx.Client())
        request = client.build_request("POST", f"{server.url}/v1/chat/completions", content=body())
        assert client.send(request).status_code == 200
        with pytest.raises(httpx.StreamConsumed):
            client.send(request)
        with pytest.raises(httpx.RequestNotRead):
            _ = request.content
        assert made == list(pieces())
        assert server.asked[0].pieces == [piece for piece in made if piece]
        assert server.asked[0].body == CHAT
    if is_recorded:
        assert len(models_in(tmp_path / "run.jsonl")) == 1


def test_a_body_whose_making_fails_is_no_call(tmp_path: Path) -> None:
    """The agent gets its own exception, as it would without anybody looking."""

    def body() -> Iterator[bytes]:
        yield b"{"
        raise KeyError("mine")

    with provider([]) as server, switched_on(["httpx"]), stepfork.run("failing", path=tmp_path / "run.jsonl"):
        with httpx.Client() as client, pytest.raises(KeyError, match="mine"):
            client.post(f"{server.url}/v1/chat/completions", content=body())
        assert server.asked == []
    assert models_in(tmp_path / "run.jsonl") == []


@pytest.mark.parametrize(
    ("kind", "most"), [("audio/wav", _wire_body._MOST), ("application/json", 20)], ids=["sound", "too-long"]
)
def test_a_body_that_cannot_be_read_ahead_is_sent_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, most: int
) -> None:
    """It may be long, or come no faster than somebody speaks: nothing of it is lost, nor recorded."""
    monkeypatch.setattr(_wire_body, "_MOST", most)
    sent = [b'{"model": "m", ', b'"more": ', b'"text"', b"}"]
    with provider([says(WORDS)]) as server, switched_on(["httpx"]):
        with stepfork.run("left", path=tmp_path / "run.jsonl"), httpx.Client() as client:
            told = client.post(
                f"{server.url}/v1/chat/completions", content=iter(sent), headers={"content-type": kind}
            )
        assert told.status_code == 200
        assert server.asked[0].pieces == sent
    assert models_in(tmp_path / "run.jsonl") == []


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters='"'), min_size=1)


@thoroughly(300)
@given(
    st.dictionaries(NAMES, st.text() | st.lists(st.text(), min_size=2)),
    st.lists(st.tuples(NAMES, NAMES, st.binary())),
)
def test_a_form_is_read_as_it_was_written(
    fields: dict[str, Any], files: list[tuple[str, str, bytes]]
) -> None:
    """Whatever its fields and files are called, and whatever is in them."""
    fields.pop("files", None)
    parts = [(field, (name, content)) for field, name, content in files]
    request = httpx.Request("POST", "http://x/", data=fields, files=parts or {"f": b""})
    told = [{"field": field, "name": name, "content": content} for field, name, content in files]
    empty = [{"field": "f", "name": "upload", "content": b""}]
    assert _wire_body.form_of(request, request.read()) == {**fields, "files": told or empty}


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_form_is_sent_again_where_it_would_be(tmp_path: Path, is_recorded: bool) -> None:
    """A redirect that keeps the body: files go back to their beginning."""

    def moved(request: Request) -> Reply:
        if request.path.startswith("/old"):
            return Reply(status=307, headers={"location": request.path.removeprefix("/old")}, body={})
        return Reply(body={"got": b"".join(request.pieces).count(b"RIFF")})

    with provider(moved) as server, switched_on(["httpx"]), ExitStack() as stack:
        if is_recorded:
            stack.enter_context(stepfork.run("moved", path=tmp_path / "run.jsonl"))
        client = stack.enter_context(httpx.Client(follow_redirects=True))
        url = f"{server.url}/old/v1/audio/transcriptions"
        files = {"file": ("a.wav", io.BytesIO(b"RIFF"))}
        assert client.post(url, files=files, data={"model": "m"}).json() == {"got": 1}
        assert server.asked[0].pieces == server.asked[1].pieces


def test_a_request_of_no_run_is_left_alone() -> None:
    """Switched on and with nothing to record, a request asks for what it asked for before."""
    with provider([Reply(body={})]) as server, switched_on(["httpx"]), httpx.Client() as client:
        client.post(f"{server.url}/v1/chat/completions", json={"model": "x"})
        assert "gzip" in server.asked[0].headers["accept-encoding"]


def test_a_signed_request_stays_as_it_was_signed(tmp_path: Path) -> None:
    """A header that a signature covers is not changed; a compressed answer is recorded as text."""
    signature = {"authorization": "AWS4-HMAC-SHA256 SignedHeaders=accept-encoding;host, Signature=0"}
    with provider([says("hello")]) as server, switched_on(["httpx"]):
        with stepfork.run("signed", path=tmp_path / "run.jsonl"), httpx.Client() as client:
            client.post(f"{server.url}/v1/chat/completions", json={"model": "x"}, headers=signature)
        assert "gzip" in server.asked[0].headers["accept-encoding"]
    assert len(models_in(tmp_path / "run.jsonl")) == 1


def test_a_compressed_answer_is_recorded_as_text() -> None:
    """A server that compresses though it was told not to leaves nothing that redaction cannot read."""
    text = results("adapters.httpx_cases")[f"{httpx.__name__}-compressed-stream"]["recording"].read_text()
    items = [json.loads(line) for line in text.splitlines() if '"event":"item"' in line]
    assert "Grüße" in "".join(item["value"] for item in items[1:])


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_texts_are_put_together_whatever_the_cuts(size: int) -> None:
    """No character is lost or doubled, wherever the bytes are cut."""
    data = "Grüße, 你好, 🙂\r\n".encode()
    texts = Texts()
    pieces = [texts.next(data[start : start + size]) for start in range(0, len(data), size)]
    assert "".join(str(piece) for piece in pieces).encode() == data
    assert texts.rest() == b""


def test_bytes_that_are_no_text_stay_bytes() -> None:
    """From where they are no text on, the pieces are bytes, none of them lost."""
    texts = Texts()
    assert [texts.next(b"ab\xc3"), texts.next(b"\x28x"), texts.next(b"yz")] == ["ab", b"\xc3(x", b"yz"]


def test_tokens_are_counted_where_the_provider_cut_what_tells_them(tmp_path: Path) -> None:
    """The number itself comes in two chunks of the stream."""
    told = json.dumps({"choices": [], "usage": {"prompt_tokens": 120, "completion_tokens": 7}})
    place = told.index("120") + 1
    chunks = [f"data: {told[:place]}", f"{told[place:]}\n\ndata: [DONE]\n\n"]
    with (
        provider([Reply(body=chunks, pause=0.05)]) as server,
        switched_on(["httpx"]),
        stepfork.run("tokens", path=tmp_path / "run.jsonl"),
        httpx.stream("POST", f"{server.url}/v1/chat/completions", json={**CHAT, "stream": True}) as response,
    ):
        assert len(list(response.iter_raw())) == len(chunks)
    assert read_run(tmp_path / "run.jsonl").usage == Usage(120, 7)


# -- what adapters promise

STEADY = Steady()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> Iterator[None]:
    with STEADY.serving():
        yield


def ask(content: str) -> Any:
    """Ask in one go."""
    told = httpx.post(f"{STEADY.url}/v1/chat/completions", json=said(content), verify=TRUST)
    return told.raise_for_status().json()


def said(content: str, **more: Any) -> dict[str, Any]:
    """Return what is asked."""
    return {"model": "some-model", "messages": [{"role": "user", "content": content}], **more}


def ask_in_pieces(content: str) -> Any:
    """Ask with a body that is made while it is sent."""
    body = (piece.encode() for piece in json.dumps(said(content)))
    return httpx.post(f"{STEADY.url}/v1/chat/completions", content=body, verify=TRUST).json()


def read(content: str) -> Iterator[str]:
    """Read a stream."""
    asked = said(content, stream=True)
    with httpx.stream("POST", f"{STEADY.url}/v1/chat/completions", json=asked, verify=TRUST) as response:
        yield from response.iter_lines()


async def ask_later(content: str) -> Any:
    """Ask in an event loop."""
    async with httpx.AsyncClient(verify=TRUST) as client:
        return (await client.post(f"{STEADY.url}/v1/chat/completions", json=said(content))).json()


async def read_later(content: str) -> AsyncIterator[str]:
    """Read a stream there."""
    async with httpx.AsyncClient(verify=TRUST) as client:
        asked = said(content, stream=True)
        async with client.stream("POST", f"{STEADY.url}/v1/chat/completions", json=asked) as response:
            async for line in response.iter_lines():
                yield line


ASK, STREAM = ("http.chat.completions",), ("http.chat.completions.stream",)
SAMPLES = {
    "a reply": Sample(partial(ask, "a"), ASK),
    "an error": Sample(partial(ask, "refused b"), ASK),
    "a body in pieces": Sample(partial(ask_in_pieces, "c"), ASK),
    "a stream": Sample(partial(read, "d"), STREAM),
    "an async reply": Sample(partial(ask_later, "e"), ASK),
    "an async stream": Sample(partial(read_later, "f"), STREAM),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "check", adapter_checks(_named("httpx"), SAMPLES, unplugged=STEADY.unplugged), ids=str
)
def test_the_adapter_keeps_its_promises(check: Check) -> None:
    """As authors of adapters check theirs."""
    check()
