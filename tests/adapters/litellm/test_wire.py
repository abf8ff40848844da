"""Requests that litellm makes, recorded and then replayed with no provider."""

from __future__ import annotations

import pytest

from adapters import httpx_cases, litellm_cases
from adapters.wire_cases import models_in, results

pytestmark = pytest.mark.scenario


@pytest.mark.parametrize("name", litellm_cases.CASES)
def test_a_request_comes_to_the_same_without_its_provider(name: str) -> None:
    """Replies, chunks and errors are equal; what goes through the OpenAI SDK is one record all the same."""
    told = results("adapters.litellm_cases")[name]
    assert told["now"] == {"saw": told["then"]["saw"], "attempts": []}
    assert len(models_in(told["recording"])) == 1


@pytest.mark.parametrize("name", httpx_cases.CASES)
def test_a_request_of_a_bare_client_does_too(name: str) -> None:
    """With httpx and httpx2 alike: values, chunks and errors are equal, and nothing is even tried."""
    told = results("adapters.httpx_cases")[name]
    assert told["now"] == {"saw": told["then"]["saw"], "attempts": []}
    assert len(models_in(told["recording"])) == 1
