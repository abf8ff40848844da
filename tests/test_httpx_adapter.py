"""Requests to models with an HTTP client alone, recorded and then replayed with no provider."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stepfork
from adapters.httpx_cases import CASES, libraries
from adapters.provider import provider
from adapters.replies import Reply, Request, says
from adapters.wire_cases import models_in, results
from stepfork.adapters._switch import switched_on
from stepfork.adapters._wire import Texts

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
