"""Agents that want a key from their environment, each in its way, and the road that such an agent goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from adapters.conftest import Start
from adapters.replies import says
from adapters.scenario import KEY, Way

COMPANY = "MY_COMPANY_LLM_KEY"
"""A variable of which no SDK knows."""

AGENT = """
    import json
    import os

    HEAD

    from bodies import seen


    def required(name):
        value = os.getenv(name)
        if not value:
            raise RuntimeError(f"{name} is not set")
        return value


    def client():
        return MAKE


    AT_IMPORT = client() if WHERE == "when imported" else None


    def agent(question):
        text = ask(AT_IMPORT or client(), question)
        seen(text)
        return json.loads(text)["amount"]


    def ask(client, question):
        messages = [{"role": "user", "content": question}]
        return ASK


    if __name__ == "__main__":
        print(agent("What does A-17 get back?"))
"""


def written(head: str, make: str, ask: str, where: str) -> str:
    """Return the agent that makes its client so, ``when imported`` or ``when asked``, and asks so."""
    parts = {"HEAD": head, "MAKE": make, "ASK": ask, "WHERE": json.dumps(where)}
    source = AGENT
    for name, text in parts.items():
        source = source.replace(name, text)
    return source


def recorded_with() -> AbstractContextManager[Mapping[str, str]]:
    """Set the key while the agent is recorded, and never again; and have litellm ask nobody for prices."""
    return nullcontext({COMPANY: KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})


def goes_the_road_without_key(scenario: Start, agent: str, way: Way) -> None:
    """Check that no key is needed to make the test, and to run it."""
    road = scenario(agent, [says('{"total": 120}')], way=way, beside=recorded_with)
    road.record("KeyError: 'amount'")
    made = road.make()
    assert (made["reason"], made["environment"]) == ("KeyError: 'amount'", [])
    road.is_still_failing("KeyError: 'amount'")
