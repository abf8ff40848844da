"""Requests of the Anthropic SDK, recorded and then replayed with no provider: the SDK does what it did."""

from __future__ import annotations

import pytest

from adapters.anthropic_cases import CASES
from adapters.wire_cases import models_in, results

pytestmark = pytest.mark.scenario


@pytest.mark.parametrize("name", CASES)
def test_a_request_comes_to_the_same_without_its_provider(name: str) -> None:
    """Values, chunks and errors are equal, a call is one record, and nothing is even tried."""
    told = results("adapters.anthropic_cases")[name]
    assert told["now"] == {"saw": told["then"]["saw"], "attempts": []}
    assert len(models_in(told["recording"])) == CASES[name].calls
