"""Agents on the OpenAI SDK with a tool loop of their own: from a crash to a guarded fix, with nothing run."""

from __future__ import annotations

import re

import pytest

from adapters.conftest import Start
from adapters.replies import Reply, asks, fails, says

LOOP = """
    import json

    from openai import OpenAI

    from bodies import ran, seen


    def find_order(order_id):
        ran("find_order")
        return {"id": order_id, "total": 120}


    def find_customer(name, region="eu"):
        ran("find_customer")
        raise LookupError(f"no customer {name} in {region}")


    def declared(name, *arguments):
        properties = {argument: {"type": "string"} for argument in arguments}
        parameters = {"type": "object", "properties": properties}
        return {"type": "function", "function": {"name": name, "parameters": parameters}}


    TOOLS = [declared("find_order", "order_id"), declared("find_customer", "name")]
    FUNCTIONS = {"find_order": find_order, "find_customer": find_customer}


    def call(name, arguments):
        try:
            result = FUNCTIONS[name](**json.loads(arguments))
        except LookupError as error:
            seen(error)
            return f"error: {error}"
        seen(result)
        return json.dumps(result)


    def agent(question):
        client = OpenAI()
        messages = [{"role": "user", "content": question}]
        while True:
            reply = client.chat.completions.create(model="gpt-test", messages=messages, tools=TOOLS)
            message = reply.choices[0].message
            seen(reply)
            if not message.tool_calls:
                return json.loads(message.content)["amount"]
            messages.append(message)
            for each in message.tool_calls:
                content = call(each.function.name, each.function.arguments)
                messages.append({"role": "tool", "tool_call_id": each.id, "content": content})


    if __name__ == "__main__":
        print("refund", agent("What does A-17 of Ada get back?"))
"""

ASKED = [
    asks(("find_order", {"order_id": "A-17"})),
    asks(("find_order", {"order_id": "A-18"}), ("find_customer", {"name": "Ada"})),
    says('{"total": 120}'),
]


def by_hand(agent: str) -> str:
    """Return the agent with its calls decorated, as where there are no adapters."""
    agent = re.sub(r"^( +)(?=def find_)", r"\1@stepfork.tool\n\1", agent, flags=re.MULTILINE)
    agent = agent.replace("    def agent(", f"{ASK}\n\n    @stepfork.step\n    def agent(")
    agent = agent.replace("client.chat.completions.create(", "ask(").replace(
        "        client = OpenAI()\n", ""
    )
    return agent.replace("    import json\n", "    import json\n\n    import stepfork\n")


ASK = """
    @stepfork.model
    def ask(**asked):
        return OpenAI(api_key="-").chat.completions.create(**asked)
"""


def test_an_agent_that_is_decorated_by_hand(scenario: Start) -> None:
    """The SDK's objects are recorded and come back where an agent is decorated, with no adapter."""
    scenario(by_hand(LOOP), ASKED, way="decorated").replays("KeyError: 'amount'")


@pytest.mark.parametrize("executed", ["find_order", "ask"])
def test_a_scenario_notices_what_is_executed(scenario: Start, executed: str) -> None:
    """A tool or a request that runs where nothing may is found, though nobody has to see its exception."""
    agent = re.sub(rf" +@stepfork.\w+\n( +def {executed}\()", r"\1", by_hand(LOOP))
    road = scenario(agent, ASKED, way="decorated")
    road.record("KeyError: 'amount'")
    with pytest.raises(AssertionError, match=executed.replace("ask", "getaddrinfo")):
        road.make()


def test_a_tool_loop_of_its_own(scenario: Start) -> None:
    """One tool that answers, twice, and one that raises; the agent then trips over the model's answer."""
    road = scenario(LOOP, ASKED)
    road.walk('["amount"]', '["total"]', error="KeyError: 'amount'")


STREAMING = """
    import asyncio
    import json

    from openai import AsyncOpenAI

    from bodies import ran, seen


    class Shop:
        async def find_order(self, order_id):
            ran("find_order")
            await asyncio.sleep(0)
            return {"id": order_id, "total": 120}

        def rate(self, currency="EUR"):
            ran("rate")
            return 0.92

        async def find_customer(self, name):
            ran("find_customer")
            raise LookupError(f"no customer {name}")


    def declared(name, *arguments):
        properties = {argument: {"type": "string"} for argument in arguments}
        parameters = {"type": "object", "properties": properties}
        return {"type": "function", "name": name, "parameters": parameters}


    TOOLS = [declared("find_order", "order_id"), declared("rate"), declared("find_customer", "name")]


    async def call(shop, each):
        arguments = json.loads(each.arguments)
        if each.name == "rate":
            return shop.rate(**arguments)
        return await getattr(shop, each.name)(**arguments)


    async def ask(client, messages):
        async with client.responses.stream(model="gpt-test", input=messages, tools=TOOLS) as stream:
            async for event in stream:
                seen(event)
            return await stream.get_final_response()


    async def agent(question):
        shop, messages = Shop(), [{"role": "user", "content": question}]
        async with AsyncOpenAI() as client:
            while True:
                reply = await ask(client, messages)
                calls = [each for each in reply.output if each.type == "function_call"]
                if not calls:
                    return reply.output_text
                for each in calls:
                    asked = {"name": each.name, "arguments": each.arguments}
                    messages.append({"type": "function_call", "call_id": each.call_id, **asked})
                    result = await call(shop, each)
                    seen(result)
                    answer = {"call_id": each.call_id, "output": json.dumps(result)}
                    messages.append({"type": "function_call_output", **answer})


    if __name__ == "__main__":
        print(asyncio.run(agent("What does A-17 of Ada get back?")))
"""

STREAMED = [
    asks(("find_order", {"order_id": "A-17"}), ("rate", {}), text="I look it up."),
    fails(429),
    asks(("find_customer", {"name": "Ada"})),
    says("120 EUR"),
]


def test_an_async_agent_that_streams(scenario: Start) -> None:
    """Methods as tools, async and not; the last raises, after a request that the SDK had to repeat."""
    road = scenario(STREAMING, STREAMED)
    road.walk(
        "return await getattr(shop, each.name)(**arguments)",
        'return await getattr(shop, each.name)(**arguments) if each.name != "find_customer" else None',
        error="LookupError: no customer Ada",
    )


@pytest.mark.parametrize(
    ("agent", "script", "error"),
    [
        (LOOP, ASKED, "KeyError: 'amount'"),
        (STREAMING, STREAMED, "LookupError: no customer Ada"),
    ],
    ids=["sync", "async"],
)
def test_an_instrumented_agent(scenario: Start, agent: str, script: list[Reply], error: str) -> None:
    """Two lines and a step record what ``stepfork run`` records, and it replays."""
    scenario(agent, script, way="instrument").replays(error)
