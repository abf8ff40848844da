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
    from langchain.agents.middleware import wrap_tool_call
    from langchain_core.messages import ToolMessage
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


    @wrap_tool_call
    async def excused(request, handler):
        try:
            return await handler(request)
        except LookupError as error:
            seen(error)
            return ToolMessage(f"error: {error}", tool_call_id=request.tool_call["id"])


    graph = create_agent(
        ChatOpenAI(model="gpt-test"), [find_order, find_stock, find_customer], middleware=[excused]
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
    asks(("find_order", {"order_id": "A-18"}), ("find_customer", {"name": "Ada"})),
    says('{"total": 120}'),
]


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_with_tools_at_once(scenario: Start, way: Way) -> None:
    """Sync, async and raising tools at once; the agent then trips over the model's answer."""
    road = scenario(AGENT, ASKED, way=way, parallel=True)
    road.walk('["amount"]', '["total"]', error="KeyError: 'amount'")


ASKING = """
    import json
    import sys

    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command, interrupt

    from bodies import ran, seen


    @tool
    def refund(order_id: str, amount: int) -> str:
        '''Refund an order.'''
        ran("refund")
        answer = interrupt(f"refund {amount} for {order_id}?")
        return f"refunded {answer['amount']}"


    saver = InMemorySaver()
    graph = create_agent(ChatAnthropic(model="claude-test"), [refund], checkpointer=saver, name="clerk")
    thread = {"configurable": {"thread_id": "t-1"}}


    def checked(state):
        seen([message.content for message in state["messages"]])
        if "__interrupt__" not in state and "refunded 100" not in state["messages"][-2].content:
            raise ValueError(state["messages"][-2].content)


    if __name__ == "__main__":
        checked(graph.invoke({"messages": [("user", "Refund A-17, all of it.")]}, thread))
        checked(graph.invoke(Command(resume={"amount": 10}), thread))
"""


def test_a_human_in_the_loop(scenario: Start) -> None:
    """A tool that waits for a human is suspended and asked again, in one run of a program."""
    replies = [asks(("refund", {"order_id": "A-17", "amount": 100})), says("Done.")]
    road = scenario(ASKING, replies)
    road.walk("refunded 100", "refunded 10", error="ValueError: refunded 10")
