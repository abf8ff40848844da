"""Credentials in the query of a URL, and what in one is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from secret_samples import BODY, LONG, redacted
from stepfork._redact import Redactor

UUID = "9d3f1a7c-52e8-4b06-8f1d-c07a3be94412"
PASS = "Zx84qwTT.a"


@pytest.fixture
def redactor() -> Redactor:
    """Return a redactor that knows no environment."""
    return Redactor(environ={})


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"https://x.example.com/v1?key={BODY}", BODY),
        (f"https://x.example.com/v1?alt=sse&key={BODY}&n=1", BODY),
        (f"Client error '401 Unauthorized' for url 'https://x.example.com/v1?key={BODY}'\nFor more", BODY),
        (f"See https://x.example.com/v1?key={BODY}.", BODY),
        (f'<a href="https://x.example.com/?a=1&amp;sig={BODY}">', BODY),
        (f"https:\\u002f\\u002fx\\u003fa=1\\u0026key={BODY}", BODY),
        (f"https%3A%2F%2Fx%2Fv1%3Fa%3D1%26key%3D{BODY}%26n%3D1", BODY),
        (f"https%253A%252F%252Fx%252Fv1%253Fkey%253D{BODY}", BODY),
        (f"https%3A%2F%2Fx%2Fv1%3Faccess_token%3D{PASS}%26n%3D1", PASS),
        (f"https://x.example.com/?key={UUID}", UUID),
        (f"https://x.example.com/back?code=4%2F0A{LONG}&scope=mail", LONG),
        (f"https://x.example.com/?SAMLResponse={LONG}%3D", LONG),
        (f"https://x.example.com/#id_token={PASS}", PASS),
        (f"https://x.example.com/?pass={PASS}", PASS),
        (f"https://x.example.com/?api-key={PASS}", PASS),
        (f"key={BODY}&page=2", BODY),
    ],
)
def test_a_credential_in_a_query_is_replaced(redactor: Redactor, text: str, secret: str) -> None:
    """As a URL has it, quoted once and twice, escaped for HTML and JSON, and as a form is sent (B43)."""
    redacted(redactor, {"text": text}, secret)


@pytest.mark.parametrize(
    "query",
    [
        *("key=title&sort=asc", "key=PROJ-1234", "key=user:42:profile", "key=customer_42_orders_2026"),
        *("key=invoices%2F2026%2F11%2Freport_final_v2.pdf", "key=invoices/2026/11/inv-0042.pdf"),
        *("key=2026-11-30T16:10:00Z", "key=20261130161000", "key=customerOrderHistoryPage"),
        *("code=200", "code=EUR", "code=SUMMER2026SALE", "code=def%20main", "sign=negative", "hash=latest"),
        *(f"keyword={BODY}", f"page_token={BODY}", f"q={BODY}", f"code.challenge={BODY}"),
        *("key=${KEY}", "key={key}", "token=<token>", "api_key=YOUR_API_KEY", "pass=%s", "max_tokens=100000"),
    ],
)
def test_a_word_in_a_query_stays(redactor: Redactor, query: str) -> None:
    """What a person chose as a key or a code is no credential: who reads the URL needs it."""
    for text in (f"https://x.example.com/v1?{query}", f"https://x.example.com/v1?a=1&{query}&b=2"):
        plain: Any = {"text": text}
        assert redactor.redact(plain) is plain


def test_out_of_a_query_such_a_name_says_nothing(redactor: Redactor) -> None:
    """Digests and ids are called keys in logs, and models sign what they think."""
    for plain in (
        f"cache hit key={BODY}",
        {"key": BODY},
        {"code": LONG},
        {"signature": LONG},
        {"query": {"key": "name", "value": BODY}},
        {"params": {"q": BODY, "arguments": {"key": BODY}}},
        {"params": {"type": "object", "properties": {"key": {"type": "string"}}}},
    ):
        assert redactor.redact(plain) is plain


@pytest.mark.parametrize(
    "parameters",
    [
        {"key": BODY, "q": "tea"},
        {"q": ["a", "b"], "key": [BODY]},
        [{"$tuple": ["q", "tea"]}, {"$tuple": ["sig", BODY]}],
        {"$tuple": [["key", BODY]]},
        {"$dict": [[1, 2], ["key", BODY]]},
        {"$object": "httpx:QueryParams", "state": {"_dict": {"key": [BODY]}}},
        {"$object": "collections:OrderedDict", "base": {"key": BODY}, "state": {}},
        f"alt=sse&key={BODY}",
    ],
)
@pytest.mark.parametrize("name", ["params", "query_params", "extra_query", "queryStringParameters"])
def test_parameters_that_are_given_as_such_are_judged_alike(
    redactor: Redactor, name: str, parameters: Any
) -> None:
    """A dict, pairs, lists of values, a class for them (B43)."""
    redacted(redactor, {name: parameters, "method": "GET"}, BODY)


def test_words_in_a_stream_stay(redactor: Redactor) -> None:
    """A value is hidden before its end is there only where it begins as no word does."""
    text = "see https://x.example.com/?key=customer_orders&code=SUMMER_SALE&sort=asc now"
    for size in (1, 3, 7, 20):
        stream = redactor.stream()
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        assert [stream.item(chunk) for chunk in chunks] == chunks


@pytest.mark.parametrize(
    "text",
    ["key=" * 50_000, "?key=" * 50_000, "?key=" + "a" * 250_000, "%3Dkey%3D" * 25_000, '"key":"' * 30_000],
)
def test_a_text_that_is_nothing_but_triggers_is_read_to_its_end(redactor: Redactor, text: str) -> None:
    """No value is read again and again: that would take minutes."""
    assert redactor.scan(msgspec.json.encode(text)) in (True, False)
    assert isinstance(redactor.text(text), str)
