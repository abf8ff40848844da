"""Secrets planted in HTTP traffic: in URLs, queries, headers and what a server repeats of them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest

import stepfork
from adapters.httpx_cases import libraries
from adapters.provider import provider
from adapters.replies import Reply, Request, says
from project import MINIMAL, Project
from road import STRANGER
from stepfork._codec import decode_exception, encode_exception
from stepfork._recording import read_run
from stepfork.adapters._switch import switched_on

httpx = libraries()[0]

SECRETS = {
    "key": "nobodys-plain-key-4411",
    "query": "9f8a7c2Kd0e1b4Qz3Xw5",
    "gemini": "another-plain-key-5522",
    "code": "4a0AX4XfWh7Tq2Zb81Lm",
    "password": "hunter2hunter2",
    "cookie": "Zx84qwTTsid0",
}
ACCOUNT = "org-of-somebody"

AGENT = """
    import json
    import os
    from pathlib import Path

    import {library} as httpx
    import openai

    import stepfork

    stepfork.instrument("openai", "httpx")
    HERE = Path(__file__).parent
    URL = os.environ.get("SHOP_URL", "http://127.0.0.1:9")
    SECRETS = json.loads((HERE / "secrets.json").read_text())


    @stepfork.tool
    def fetch(path):
        (HERE / "ran").touch()
        place = URL.replace("://", "://bob:" + SECRETS["password"] + "@")
        query = {{"alt": "json", "key": SECRETS["query"], "code": SECRETS["code"]}}
        httpx.get(place + path, params=query).raise_for_status()


    def ask_gemini():
        url = URL + "/v1beta/models/gemini-test:generateContent"
        body = {{"contents": [{{"parts": [{{"text": "hello"}}]}}]}}
        httpx.post(url, params={{"key": SECRETS["gemini"]}}, json=body).raise_for_status()


    def client():
        return openai.OpenAI(api_key=SECRETS["key"], base_url=URL + "/v1", max_retries=0)


    def ask_openai():
        messages = [{{"role": "user", "content": "hello"}}]
        client().chat.completions.create(model="test-model", messages=messages)


    def list_models():
        client().models.list(extra_query={{"key": SECRETS["query"], "page": 2}})


    @stepfork.step
    def note(text):
        return len(text)


    @stepfork.step
    def handle(ticket):
        told = []
        for attempt in (lambda: fetch("/v1/orders"), ask_gemini, list_models, ask_openai):
            try:
                attempt()
            except (httpx.HTTPStatusError, openai.APIStatusError) as error:
                response = error.response
                kept = (response.status_code, response.headers.get("x-request-id"), response.request.url.path)
                told.append(str(kept) + str(error))
                note(str(error))
        raise RuntimeError("\\n".join(told))


    if __name__ == "__main__":
        handle(7)
"""


def refused(request: Request) -> Reply:
    """Repeat whatever it was asked with, in the headers and the body of a refusal."""
    said = [text for text in SECRETS.values() if text in str(request.headers)] or ["none"]
    headers = {
        "set-cookie": f"sid={SECRETS['cookie']}; path=/",
        "location": f"https://login.example.com/?code={SECRETS['code']}",
        "openai-organization": ACCOUNT,
        "x-request-id": "req-1",
        "retry-after": "7",
    }
    text = f"Incorrect API key provided: {said[0]}. See https://x.example.com/?key={SECRETS['query']}."
    return Reply(body={"error": {"message": text, "code": "invalid_api_key"}}, status=401, headers=headers)


def shown(project: Project) -> list[str]:
    """Return which secrets stand in a file that stepfork wrote, and where."""
    return [
        f"{name} in {file}"
        for file, data in project.files().items()
        if file not in ("secrets.json", "agent.py")
        for name, secret in {**SECRETS, "account": ACCOUNT}.items()
        if secret.encode() in data
    ]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return an agent that was refused everything, recorded, and its provider gone."""
    agent = AGENT.format(library=httpx.__name__)
    project = Project(tmp_path, {**MINIMAL, "agent.py": agent, "secrets.json": json.dumps(SECRETS)})
    with provider(refused) as server:
        result = project.run("python", "agent.py", env={**STRANGER, "SHOP_URL": server.url})
        assert len(server.asked) == 4
    assert "RuntimeError: (401, 'req-1', '/v1/orders')" in result.err, result
    (project.root / "ran").unlink()
    return project


def test_no_secret_of_the_traffic_is_in_any_file_of_a_run(project: Project) -> None:
    """Not the key in a URL, what the server repeats, its cookie; nor whose account it is (B43, B44)."""
    assert shown(project) == []
    (journal,) = project.root.glob(".stepfork/runs/*.jsonl")
    names = {call.name for call in read_run(journal).walk()}
    assert names >= {"fetch", "http.generateContent", "openai.models.get", "openai.chat.completions"}
    assert "x.example.com/?key=[redacted-" in journal.read_text()


@pytest.mark.slow
def test_a_test_of_such_traffic_is_red_without_provider_and_keys(project: Project) -> None:
    """The errors come back with all that the agent asks of them, and the test shows no secret (B32, B43)."""
    made = project.stepfork("make-test", "--name", "refused", env=STRANGER)
    assert made.code == 0, made
    assert shown(project) == []
    others = {name: f"some-other-text-{number}" for number, name in enumerate(SECRETS)}
    for secrets in (SECRETS, others):
        project.write({"secrets.json": json.dumps(secrets)})
        result = project.pytest("-q", env=STRANGER)
        assert (result.code, "StillFailing" in result.out) == (1, True), result
    assert not (project.root / "ran").exists()


def status_error(request: Any, **headers: str) -> Any:
    """Return the error that the SDK raises for a refusal of this request."""
    response = httpx.Response(429, headers=headers, json={"error": 1}, request=request)
    return openai.RateLimitError("slow down", response=response, body={"error": 1})


def test_an_error_keeps_of_its_request_the_method_and_the_path() -> None:
    """Host, query and headers of a request, and of a response what names an account, are left out (B43)."""
    url = f"https://bob:pw@{ACCOUNT}.example.com/v1/chat?key={SECRETS['key']}"
    request = httpx.Request("POST", url, headers={"X-Custom": SECRETS["query"]})
    error = status_error(request, **{"x-request-id": "req-1", "openai-organization": ACCOUNT})
    error.__cause__ = httpx.ConnectError("refused", request=request)
    plain, lossy = encode_exception(error)
    assert not lossy
    assert not [secret for secret in (*SECRETS.values(), ACCOUNT, "bob") if secret in str(plain)]
    back: Any = decode_exception(plain)
    assert (back.status_code, back.request_id, back.body) == (429, "req-1", {"error": 1})
    assert (back.request.method, str(back.request.url)) == ("POST", "/v1/chat")
    assert str(back.__cause__.request.url) == "/v1/chat"
    assert dict(back.response.headers)["x-request-id"] == "req-1"


def test_an_error_that_was_recorded_with_its_whole_request_is_read() -> None:
    """Recordings from before hosts and headers were left out come back as they were written."""
    request = {"method": "POST", "url": "https://api.example.com/v1/chat?page=2"}
    kind = httpx.__name__
    plain, _ = encode_exception(status_error(httpx.Request("POST", "https://x/")))
    written: Any = plain
    whole = {"$object": f"{kind}:Request", "of": "value", "value": request}
    response = written["attrs"]["response"]["value"]
    response["request"] = written["attrs"]["request"] = whole
    response["headers"] = [{"$tuple": ["openai-organization", ACCOUNT]}]
    back: Any = decode_exception(written)
    assert str(back.request.url) == str(back.response.url) == request["url"]
    assert back.response.headers["openai-organization"] == ACCOUNT


def test_a_response_that_is_a_value_keeps_its_headers() -> None:
    """What a tool returns is there whole in a replay; an error's response is not asked for as much."""
    from stepfork._codec import decode, encode

    response = httpx.Response(200, headers={"x-total-count": "7", "set-cookie": "a=b"}, text="ok")
    back: Any = decode(encode(response).plain)
    assert (back.headers["x-total-count"], "set-cookie" in back.headers) == ("7", False)


def test_an_error_of_a_stream_that_nobody_has_read_keeps_its_status() -> None:
    """A refused stream is given up unread; what the agent's retry asks for is there (B32)."""
    with (
        provider(refused) as server,
        httpx.stream("POST", f"{server.url}/v1/x", json={}) as response,
        pytest.raises(httpx.HTTPStatusError) as raised,
    ):
        response.raise_for_status()
    plain, lossy = encode_exception(raised.value)
    back: Any = decode_exception(plain)
    assert not lossy
    assert (back.response.status_code, back.response.headers["retry-after"]) == (401, "7")
    assert str(back) == str(raised.value)


def test_an_error_of_urllib_keeps_the_headers_that_a_client_acts_upon() -> None:
    """Not the cookie, and not whose account it is; nothing of them is left in the recording (B43)."""
    with provider(refused) as server, pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"{server.url}/v1/x", data=b"{}")
    plain, _ = encode_exception(raised.value)
    raised.value.close()
    back: Any = decode_exception(plain)
    assert (back.code, back.hdrs["Retry-After"], back.hdrs["x-request-id"]) == (401, "7", "req-1")
    assert not [text for text in (SECRETS["cookie"], SECRETS["code"], ACCOUNT) if text in str(plain)]


@stepfork.tool
def account_of(user: str) -> str:
    """Return what is known before anything is asked."""
    return f"account of {user}"


@pytest.mark.parametrize("sdk", [True, False], ids=["openai", "httpx"])
def test_a_token_that_is_asked_with_is_hidden_at_the_same_places_in_every_replay(
    sdk: bool, tmp_path: Path
) -> None:
    """What was done before the first request was written with it; earlier replays change nothing."""
    user, address = "tenant-2024-0042-ab", "http://127.0.0.1:9"
    path = tmp_path / "run.jsonl"

    def ask(text: str) -> str:
        headers, messages = {"x-user-token": user}, [{"role": "user", "content": text}]
        if sdk:
            client = openai.OpenAI(api_key="nobody", base_url=f"{address}/v1", default_headers=headers)
            answer = client.chat.completions.create(model="test-model", messages=messages)
            return answer.choices[0].message.content or ""
        body = {"model": "test-model", "messages": messages}
        reply = httpx.post(f"{address}/v1/chat/completions", json=body, headers=headers).json()
        return str(reply["choices"][0]["message"]["content"])

    def agent() -> str:
        return ask(f"{account_of(user)}") + ask(f"and now {account_of(user)}")

    with provider([says("one"), says("two")]) as server, switched_on(["openai", "httpx"]):
        address = server.url
        with stepfork.run("shop", path=path):
            assert agent() == "onetwo"
    models = [call for call in read_run(path).walk() if call.kind == "model"]
    assert len(models) == 2
    assert user not in str([call.input for call in models])
    for _ in range(2):
        replayed = stepfork.replay(path, agent)
        assert (replayed.value, replayed.frontiers, replayed.unused) == ("onetwo", [], [])
        assert [call.address for call in replayed.run.walk() if call.stale or call.drifted] == []
