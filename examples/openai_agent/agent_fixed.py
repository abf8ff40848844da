"""A tool-calling agent on the OpenAI SDK, against any server that speaks its protocol.

Set OPENAI_BASE_URL to the address of one (``server.py`` here is one, and needs no key).
"""

import json
import os

from openai import OpenAI
from openai.types.chat import ChatCompletion

import stepfork

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


@stepfork.tool
def get_weather(city: str) -> str:
    """Ask the weather service."""
    return {"Oslo": "snow", "Rome": "sun"}[city]


@stepfork.model
def ask(messages: list[dict]) -> ChatCompletion:
    """Ask the model. What is recorded, and comes back in a replay, is the SDK's own object."""
    with OpenAI(api_key=os.environ.get("OPENAI_API_KEY", "unused"), max_retries=0) as client:
        return client.chat.completions.create(model="small", messages=messages, tools=TOOLS)


@stepfork.step
def answer(question: str) -> str:
    """Run the loop of model and tools: the root of a run."""
    messages: list[dict] = [{"role": "user", "content": question}]
    while True:
        message = ask(messages).choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


if __name__ == "__main__":
    print(answer("How is the weather in Oslo and in Rome?"))
