"""Agents on LangGraph, untouched, from a crash to a guarded fix: no provider, no tool, no checkpointer."""

from __future__ import annotations

import pytest

from adapters.conftest import Start
from adapters.replies import asks, says
from adapters.scenario import WAYS, Way

AGENT = """
    import asyncio
    import json

    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    from bodies import ran, seen


    @tool
    def find_order(order_id: str) -> dict:
        '''Find an order.'''
        ran("find_order")
        return {"id": order_id, "total": 120}


    @tool
    async def find_stock(sku: str) -> str:
        '''Look into the stock.'''
        ran("find_stock")
        await asyncio.sleep(0.01)
        return f"{sku}: 3"


    @tool
    def find_customer(name: str, region: str = "eu") -> dict:
        '''Find a customer.'''
        ran("find_customer")
        raise LookupError(f"no customer {name} in {region}")


    find_customer.handle_tool_error = True


    def handled(request, handler):
        try:
            return handler(request)
        except LookupError as error:
            seen(error)
            raise


    graph = create_agent(
        ChatOpenAI(model="gpt-test"), [find_order, find_stock, find_customer], name="refunds"
    )


    async def agent(question):
        state = await graph.ainvoke({"messages": [{"role": "user", "content": question}]})
        seen([message.content for message in state["messages"]])
        return json.loads(state["messages"][-1].content)["amount"]


    if __name__ == "__main__":
        print("refund", asyncio.run(agent("What does A-17 of Ada get back?")))
"""

ASKED = [
    asks(("find_order", {"order_id": "A-17"}), ("find_stock", {"sku": "S"})),
    says('{"total": 120}'),
]


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_with_tools_at_once(scenario: Start, way: Way) -> None:
    """A sync and an async tool that are asked at once; the agent then trips over the model's answer."""
    road = scenario(AGENT, ASKED, way=way, parallel=True)
    road.walk('["amount"]', '["total"]', error="KeyError: 'amount'")
