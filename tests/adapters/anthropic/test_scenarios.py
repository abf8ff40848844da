"""Agents on the Anthropic SDK with a tool loop of their own: from a crash to a guarded fix, nothing run."""

from __future__ import annotations

import pytest

from adapters.conftest import Start
from adapters.replies import Reply, asks, fails, says

LOOP = """
    from anthropic import Anthropic

    from bodies import ran, seen


    def find_order(order_id):
        ran("find_order")
        return {"id": order_id, "total": 120}


    def find_customer(name, region="eu"):
        ran("find_customer")
        raise LookupError(f"no customer {name} in {region}")


    def declared(name, *arguments):
        properties = {argument: {"type": "string"} for argument in arguments}
        return {"name": name, "input_schema": {"type": "object", "properties": properties}}


    TOOLS = [declared("find_order", "order_id"), declared("find_customer", "name")]


    def call(block):
        try:
            result = globals()[block.name](**block.input)
        except LookupError as error:
            seen(error)
            return {"content": f"error: {error}", "is_error": True}
        seen(result)
        return {"content": str(result["total"])}


    def agent(question):
        client = Anthropic()
        messages = [{"role": "user", "content": question}]
        while True:
            reply = client.messages.create(model="test", max_tokens=100, messages=messages, tools=TOOLS)
            seen(reply)
            if reply.stop_reason != "tool_use":
                return reply.content[0].texts
            messages.append({"role": "assistant", "content": reply.content})
            uses = [block for block in reply.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": use.id, **call(use)} for use in uses]
            messages.append({"role": "user", "content": results})


    if __name__ == "__main__":
        print("refund", agent("What does A-17 of Ada get back?"))
"""

ASKED = [
    asks(("find_order", {"order_id": "A-17"})),
    fails(529),
    asks(("find_order", {"order_id": "A-18"}), ("find_customer", {"name": "Ada"}), text="Once more."),
    says("120"),
]


def test_a_tool_loop_of_its_own(scenario: Start) -> None:
    """One tool that answers, twice, and one that raises; the agent then trips over the model's answer."""
    road = scenario(LOOP, ASKED)
    road.walk("[0].texts", "[0].text", error="AttributeError: 'TextBlock' object has no attribute 'texts'")


STREAMING = """
    import asyncio

    from anthropic import AsyncAnthropic

    from bodies import ran, seen


    async def find_order(order_id):
        ran("find_order")
        await asyncio.sleep(0)
        return {"id": order_id, "total": 120}


    async def find_customer(name):
        ran("find_customer")
        raise LookupError(f"no customer {name}")


    FUNCTIONS = [find_order, find_customer]
    TOOLS = [{"name": each.__name__, "input_schema": {"type": "object"}} for each in FUNCTIONS]


    async def call(use):
        (function,) = [each for each in FUNCTIONS if each.__name__ == use.name]
        result = await function(**use.input)
        seen(result)
        return {"type": "tool_result", "tool_use_id": use.id, "content": str(result["total"])}


    async def agent(question):
        messages = [{"role": "user", "content": question}]
        async with AsyncAnthropic() as client:
            while True:
                asked = {"model": "test", "max_tokens": 100, "messages": messages, "tools": TOOLS}
                async with client.messages.stream(**asked) as stream:
                    async for event in stream:
                        seen(event)
                    reply = await stream.get_final_message()
                if reply.stop_reason != "tool_use":
                    return reply.content[0].text
                messages.append({"role": "assistant", "content": reply.content})
                uses = [block for block in reply.content if block.type == "tool_use"]
                messages.append({"role": "user", "content": [await call(use) for use in uses]})


    if __name__ == "__main__":
        print(asyncio.run(agent("What does A-17 of Ada get back?")))
"""

STREAMED = [
    asks(("find_order", {"order_id": "A-17"}), text="One moment."),
    asks(("find_customer", {"name": "Ada"})),
]


def test_an_async_agent_that_streams(scenario: Start) -> None:
    """Coroutine functions as tools, found in a list; the last of them raises, and the agent with it."""
    road = scenario(STREAMING, STREAMED)
    road.walk(
        "result = await function(**use.input)",
        'result = await function(**use.input) if use.name == "find_order" else {"total": 0}',
        error="LookupError: no customer Ada",
    )


@pytest.mark.parametrize(
    ("agent", "script", "error"),
    [
        (LOOP, ASKED, "AttributeError: 'TextBlock' object has no attribute 'texts'"),
        (STREAMING, STREAMED, "LookupError: no customer Ada"),
    ],
    ids=["sync", "async"],
)
def test_an_instrumented_agent(scenario: Start, agent: str, script: list[Reply], error: str) -> None:
    """Two lines and a step record what ``stepfork run`` records, and it replays."""
    scenario(agent, script, way="instrument").replays(error)
