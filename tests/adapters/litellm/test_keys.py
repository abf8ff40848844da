"""Agents on litellm that want a key from their environment: where the test runs there is none."""

from __future__ import annotations

import pytest

from adapters.conftest import Start
from adapters.key_agents import goes_the_road_without_key, written
from adapters.scenario import Way


@pytest.mark.parametrize(
    ("options", "where", "way"),
    [
        ('{"model": "openai/m", "api_key": os.environ["MY_COMPANY_LLM_KEY"]}', "when imported", "instrument"),
        ('{"model": "anthropic/m", "api_base": os.environ["ANTHROPIC_BASE_URL"]}', "when asked", "run"),
    ],
)
def test_an_agent_that_wants_a_key_is_tested_without(
    scenario: Start, options: str, where: str, way: Way
) -> None:
    """Neither keys nor addresses nor prices are anywhere but in the recorded run (B43)."""
    ask = "litellm.completion(messages=messages, **client).choices[0].message.content"
    goes_the_road_without_key(scenario, written("import litellm", options, ask, where), way)
