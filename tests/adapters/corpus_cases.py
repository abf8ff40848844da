"""Real traffic of providers, served by one of this machine to the real SDKs: each answer is a case.

What was asked of OpenAI, Groq and Azure goes through the OpenAI SDK, what was asked of Anthropic through
theirs, and the rest through a bare HTTP client.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import openai
import yaml

from adapters.httpx_cases import TRUST, libraries
from adapters.replies import Reply
from adapters.wire_cases import Case, read
from stepfork.adapters._wire_names import ENDPOINT

ADAPTERS = ()
FOLDER = Path(os.environ.get("STEPFORK_CORPUS") or Path(__file__).resolve().parents[3] / "shared" / "corpus")
_SENT = ("content-type", "content-encoding", "retry-after", "x-request-id", "request-id")
"""Of a recorded response: what a client reads; the others are of the connection."""


class Answered(NamedTuple):
    """One recorded request and its answer."""

    name: str
    host: str
    path: str
    body: Any
    reply: Reply


def answered() -> Iterator[Answered]:
    """Yield all that was asked of a model."""
    for file in sorted(FOLDER.glob("cassettes-*/*.yaml")):
        recorded = yaml.safe_load(file.read_text(encoding="utf-8"))["interactions"]
        for number, each in enumerate(recorded):
            request, url = each["request"], urlsplit(each["request"]["uri"])
            if ENDPOINT.search(url.path):
                body = request.get("parsed_body") or json.loads(request["body"])
                name = f"{file.parent.name}--{file.stem[:60]}--{number}"
                yield Answered(name, url.netloc, url.path, body, _reply(each["response"]))


def _reply(response: dict[str, Any]) -> Reply:
    headers = {name.lower(): value for name, value in response["headers"].items()}
    sent = {name: _first(headers[name]) for name in _SENT if name in headers}
    whole = response["body"]["string"] if "parsed_body" not in response else response["parsed_body"]
    if not isinstance(whole, str | bytes):
        whole = json.dumps(whole)
    body: Any = whole
    if "event-stream" in sent.get("content-type", "") and isinstance(whole, str):
        body = [f"{event}\n\n" for event in whole.split("\n\n") if event]
    return Reply(status=response["status"]["code"], headers=sent, body=body)


def _first(value: Any) -> str:
    return str(value[0] if isinstance(value, list) else value)


def _with_openai(each: Answered, url: str) -> Any:
    types: Any = {
        "completions": (openai.types.chat.ChatCompletion, openai.types.chat.ChatCompletionChunk),
        "responses": (openai.types.responses.Response, openai.types.responses.ResponseStreamEvent),
    }
    whole, part = types[each.path.rpartition("/")[2]]
    http_client = openai.DefaultHttpxClient(verify=TRUST)
    client = openai.OpenAI(base_url=f"{url}/v1", http_client=http_client, max_retries=0)
    path = each.path.removeprefix("/openai").removeprefix("/v1")
    if each.body.get("stream"):
        return read(
            client.post(path, cast_to=whole, body=each.body, stream=True, stream_cls=openai.Stream[part])
        )
    return client.post(path, cast_to=whole, body=each.body)


def _with_anthropic(each: Answered, url: str) -> Any:
    import anthropic

    http_client = anthropic.DefaultHttpxClient(verify=TRUST)
    client = anthropic.Anthropic(base_url=url, http_client=http_client, max_retries=0)
    return client.post(each.path, cast_to=anthropic.types.Message, body=each.body)


def _with_http(each: Answered, url: str) -> Any:
    with libraries()[0].Client(verify=TRUST) as client:
        response = client.post(url + each.path, json=each.body)
        return [response.status_code, response.text]


def _case(each: Answered) -> Case:
    ask = _with_http
    if each.host in ("api.openai.com", "api.groq.com", "fake-azure-endpoint.openai.azure.com"):
        ask = _with_openai
    elif each.host == "api.anthropic.com" and importlib.util.find_spec("anthropic"):
        ask = _with_anthropic
    return Case(lambda url: ask(each, url), [each.reply])


CASES: dict[str, Case] = {each.name: _case(each) for each in answered()}
