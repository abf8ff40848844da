"""Agents that use MCP servers: from a crash to a guarded fix, with no server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.conftest import Start
from adapters.mcp_shop import CONNECT, SERVER, WAYS, serving
from adapters.scenario import WAYS as RECORDED
from adapters.scenario import Scenario, Way

AGENT = """
    import asyncio
    import os

    from bodies import seen
    from connect import Error, connected

    PLAN = [("price", {"order_id": "A-17"}), ("price", {"order_id": "A-18"}), ("customer", {"name": "Ada"})]


    def content(result):
        structured = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
        return structured or result.content[0].text


    async def agent(question, way):
        async with connected(way) as session:
            seen([tool.name for tool in (await session.list_tools()).tools])
            both = [session.call_tool("stock", {"item": item}) for item in ("tea", "coffee")]
            seen(await asyncio.gather(*both))
            found = []
            for name, arguments in PLAN:
                result = await session.call_tool(name, arguments)
                seen(result)
                found.append(content(result))
            try:
                await session.get_prompt("letter")
            except Error as error:
                seen(error)
        return found[0]["amount"]


    if __name__ == "__main__":
        print("refund", asyncio.run(agent("What does A-17 get back?", os.environ["WAY"])))
"""


Shop = Callable[..., Scenario]


@pytest.fixture
def at_the_shop(scenario: Start, tmp_path: Path) -> Shop:
    """Makes the scenario of an agent that reaches the shop in one way."""

    def start(reach: str, agent: str = AGENT, **options: Any) -> Scenario:
        return scenario(
            agent,
            [],
            files={"shop.py": SERVER, "connect.py": CONNECT},
            env={"WAY": reach},
            beside=lambda: serving(tmp_path / "project", reach, tmp_path / "aside"),
            **options,
        )

    return start


@pytest.mark.parametrize("recorded", RECORDED)
@pytest.mark.parametrize("reach", WAYS)
def test_an_agent_with_a_server(at_the_shop: Shop, reach: str, recorded: Way) -> None:
    """A sync, an async and a raising tool, two at once, and a request that is refused, on each transport."""
    road = at_the_shop(reach, way=recorded)
    road.walk('["amount"]', '["total"]', error="KeyError: 'amount'")


def test_a_failure_while_the_session_is_open(at_the_shop: Shop) -> None:
    """The groups that the SDK wraps exceptions in are the same without a server."""
    inside = AGENT.replace("        return found", "            return found")
    road = at_the_shop("stdio", inside)
    road.walk('["amount"]', '["total"]', error="KeyError: 'amount'")


def test_a_server_that_cannot_be_started(at_the_shop: Shop) -> None:
    """That there is no server is what the recording says, and no attempt is made in the replay."""
    road = at_the_shop("stdio")
    road.project.replace("connect.py", "command=sys.executable", 'command="no-such-program"')
    road.record("No such file or directory")
    road.make()
    road.is_still_failing("FileNotFoundError")
