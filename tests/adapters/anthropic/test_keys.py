"""Agents on the Anthropic SDK that want a key from their environment: where the test runs there is none."""

from __future__ import annotations

import pytest

from adapters.conftest import Start
from adapters.key_agents import goes_the_road_without_key, written
from adapters.scenario import Way

HEAD = "from anthropic import Anthropic"
ASK = 'client.messages.create(model="claude-test", max_tokens=99, messages=messages).content[0].text'


@pytest.mark.parametrize(
    ("make", "where", "way"),
    [
        ('Anthropic(api_key=os.environ["ANTHROPIC_API_KEY"])', "when imported", "instrument"),
        ('Anthropic(api_key=required("MY_COMPANY_LLM_KEY"))', "when imported", "run"),
        ('Anthropic(api_key=os.getenv("ANTHROPIC_API_KEY"))', "when asked", "instrument"),
        ('Anthropic(auth_token=os.environ["MY_COMPANY_LLM_KEY"])', "when asked", "run"),
    ],
)
def test_an_agent_that_wants_a_key_is_tested_without(
    scenario: Start, make: str, where: str, way: Way
) -> None:
    """No key is anywhere but in the environment of the recorded run (B43)."""
    goes_the_road_without_key(scenario, written(HEAD, make, ASK, where), way)
