"""Errors of the HTTP clients that litellm and its providers' libraries use."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
import requests

from adapters.provider import provider
from adapters.replies import Reply
from stepfork._codec import decode_exception, encode_exception

SECRET, ACCOUNT = "9f8a7c2Kd0e1b4Qz3Xw5", "org-of-somebody"
REFUSAL = Reply(body={"error": "no"}, status=401, headers={"openai-organization": ACCOUNT})
HEADERS = {"X-Custom": SECRET}


def test_an_error_of_requests_keeps_of_its_request_the_method_and_the_path() -> None:
    """Not its headers, and of its URL neither host nor query beside what the message says (B43)."""
    with provider(lambda _: REFUSAL) as server, pytest.raises(requests.HTTPError) as raised:
        requests.post(f"{server.url}/v1/x", params={"page": 2}, json={}, headers=HEADERS).raise_for_status()
    plain: Any = encode_exception(raised.value)[0]
    assert not [text for text in (SECRET, ACCOUNT) if text in str(plain)]
    assert "127.0.0.1" not in str(plain["attrs"])
    back: Any = decode_exception(plain)
    assert (back.request.method, back.request.url) == ("POST", "/v1/x")
    assert str(back) == str(raised.value)


def test_an_error_of_aiohttp_keeps_of_its_request_the_method_and_the_path() -> None:
    """Not its headers, and of its URL neither host nor query (B43)."""

    async def ask() -> None:
        url = f"{server.url}/v1/x?key={SECRET}"
        async with aiohttp.ClientSession(headers=HEADERS) as session, session.post(url, json={}) as response:
            response.raise_for_status()

    with provider(lambda _: REFUSAL) as server, pytest.raises(aiohttp.ClientResponseError) as raised:
        asyncio.run(ask())
    plain: Any = encode_exception(raised.value)[0]
    assert not [text for text in (SECRET, ACCOUNT, "127.0.0.1") if text in str(plain)]
    back: Any = decode_exception(plain)
    assert (back.status, back.request_info.method, str(back.request_info.url)) == (401, "POST", "/v1/x")
