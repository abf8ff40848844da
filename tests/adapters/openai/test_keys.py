"""Agents on the OpenAI SDK that want a key from their environment: where the test runs there is none."""

from __future__ import annotations

import pytest

from adapters.conftest import Start
from adapters.key_agents import goes_the_road_without_key, written
from adapters.scenario import Way

HEAD = "from openai import OpenAI"
ASK = 'client.chat.completions.create(model="gpt-test", messages=messages).choices[0].message.content'


@pytest.mark.parametrize(
    ("make", "where", "way"),
    [
        ('OpenAI(api_key=os.environ["OPENAI_API_KEY"])', "when imported", "instrument"),
        ('OpenAI(api_key=os.environ["MY_COMPANY_LLM_KEY"])', "when imported", "instrument"),
        ('OpenAI(api_key=required("MY_COMPANY_LLM_KEY"))', "when asked", "run"),
        (
            'OpenAI(api_key=os.environ["OPENAI_API_KEY"], base_url=os.environ["OPENAI_BASE_URL"])',
            "when asked",
            "run",
        ),
    ],
)
def test_an_agent_that_wants_a_key_is_tested_without(
    scenario: Start, make: str, where: str, way: Way
) -> None:
    """No key is anywhere but in the environment of the recorded run (B43)."""
    goes_the_road_without_key(scenario, written(HEAD, make, ASK, where), way)
