"""Agents on litellm with a tool loop of their own: from a crash to a guarded fix, with nothing run.

litellm asks some providers through the SDK of openai, and others by itself: each answer is recorded once.
It wants keys and addresses in its environment and prices from the network; where the test runs is neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from adapters.conftest import Start
from adapters.replies import asks, fails, says


def no_prices() -> AbstractContextManager[Mapping[str, str]]:
    """Keep litellm from asking for prices while the agent is recorded; a replay does so by itself."""
    return nullcontext({"LITELLM_LOCAL_MODEL_COST_MAP": "True"})


LOOP = """
    import json

    import litellm

    from bodies import ran, seen


    def find_order(order_id):
        ran("find_order")
        return {"id": order_id, "total": 120}


    def find_customer(name, region="eu"):
        ran("find_customer")
        raise LookupError(f"no customer {name} in {region}")


    def declared(function, *arguments):
        properties = {argument: {"type": "string"} for argument in arguments}
        parameters = {"type": "object", "properties": properties}
        return {"type": "function", "function": {"name": function.__name__, "parameters": parameters}}


    TOOLS = [declared(find_order, "order_id"), declared(find_customer, "name")]


    def call(function):
        try:
            result = globals()[function.name](**json.loads(function.arguments))
        except LookupError as error:
            seen(error)
            return f"error: {error}"
        seen(result)
        return json.dumps(result)


    def agent(question):
        messages = [{"role": "user", "content": question}]
        while True:
            reply = litellm.completion(model="MODEL", messages=messages, tools=TOOLS, num_retries=1)
            message = reply.choices[0].message
            seen(message.content)
            if not message.tool_calls:
                return json.loads(message.content)["amount"]
            messages.append(message)
            for each in message.tool_calls:
                messages.append({"role": "tool", "tool_call_id": each.id, "content": call(each.function)})


    if __name__ == "__main__":
        print("refund", agent("What does A-17 of Ada get back?"))
"""

ASKED = [
    asks(("find_order", {"order_id": "A-17"})),
    asks(("find_order", {"order_id": "A-18"}), ("find_customer", {"name": "Ada"})),
    says('{"total": 120}'),
]


def test_a_tool_loop_over_the_sdk_of_openai(scenario: Start) -> None:
    """Two libraries stand between the agent and its model, and one record is made of each answer."""
    road = scenario(LOOP.replace("MODEL", "openai/gpt-test"), ASKED, beside=no_prices)
    road.walk('["amount"]', '["total"]', error="KeyError: 'amount'")


def test_a_tool_loop_over_http(scenario: Start) -> None:
    """For this provider litellm writes the request itself, and reads the answer."""
    road = scenario(LOOP.replace("MODEL", "anthropic/test"), ASKED, beside=no_prices, way="instrument")
    road.replays("KeyError: 'amount'")


STREAMING = """
    import asyncio
    import json

    import litellm

    from bodies import ran, seen


    async def find_order(order_id):
        ran("find_order")
        await asyncio.sleep(0)
        return {"id": order_id, "total": 120}


    async def find_customer(name):
        ran("find_customer")
        raise LookupError(f"no customer {name}")


    FUNCTIONS = {"find_order": find_order, "find_customer": find_customer}
    TOOLS = [{"type": "function", "function": {"name": name}} for name in FUNCTIONS]


    async def ask(messages):
        asked = {"model": "openai/gpt-test", "messages": messages, "tools": TOOLS, "stream": True}
        chunks = []
        async for chunk in await litellm.acompletion(**asked):
            seen(chunk.choices[0].delta.content)
            chunks.append(chunk)
        return litellm.stream_chunk_builder(chunks).choices[0].message


    async def agent(question):
        messages = [{"role": "user", "content": question}]
        while True:
            message = await ask(messages)
            if not message.tool_calls:
                return message.content
            messages.append(message)
            for each in message.tool_calls:
                result = await FUNCTIONS[each.function.name](**json.loads(each.function.arguments))
                seen(result)
                messages.append({"role": "tool", "tool_call_id": each.id, "content": json.dumps(result)})


    if __name__ == "__main__":
        print(asyncio.run(agent("What does A-17 of Ada get back?")))
"""

STREAMED = [
    asks(("find_order", {"order_id": "A-17"}), text="One moment."),
    fails(429),
    asks(("find_customer", {"name": "Ada"})),
]


def test_an_async_agent_that_streams(scenario: Start) -> None:
    """Coroutine functions as tools; the last of them raises, after a request that was repeated."""
    road = scenario(STREAMING, STREAMED, beside=no_prices, way="instrument")
    road.replays("LookupError: no customer Ada")
