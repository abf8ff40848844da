"""Models of LangChain: recorded once, where they are asked: in the SDK, or in the class that is their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import FakeListLLM, GenericFakeChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import GenerationChunk
from langchain_core.tools import tool
from pydantic import BaseModel

from adapters.langgraph.again import Again, Bodies, Scripted, Streaming, labels, wants

Replays = Callable[[Callable[[], Any]], Again]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_model_of_ones_own(again: Replays, bodies: Bodies, is_async: bool) -> None:
    """Its leaf is one call: with what it is told, and the typed message it answered."""
    reply = AIMessage("hi", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7})
    model = Scripted(replies=[reply], bodies=bodies)
    said = [HumanMessage("hello", id="h1"), ToolMessage("r", tool_call_id="c1", status="error")]

    async def later() -> Any:
        return await model.ainvoke(said, stop=["."])

    both = again(later if is_async else lambda: model.invoke(said, stop=["."])).is_the_same()
    (call,) = both.recorded.root.children
    assert (call.kind, call.name) == ("model", "Scripted")
    assert call.input == {
        "messages": [
            {"type": "human", "content": "hello"},
            {"type": "tool", "content": "r", "tool_call_id": "c1", "status": "error"},
        ],
        "stop": ["."],
    }
    assert call.outcome.usage is not None
    assert (call.outcome.usage.input, call.outcome.usage.output) == (3, 4)
    assert both.replayed.result.usage_metadata == reply.usage_metadata


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_of_a_model(again: Replays, bodies: Bodies, is_async: bool) -> None:
    """Its chunks come back one by one."""
    model = Streaming(replies=["one two three"], bodies=bodies)

    async def later() -> Any:
        return [chunk.content async for chunk in model.astream("go")]

    both = again(later if is_async else lambda: [chunk.content for chunk in model.stream("go")])
    assert both.is_the_same().result[:3] == ["one ", "two ", "three "]
    assert labels(both.recorded) == ["Streaming.stream#1"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_of_a_model_that_takes_a_text(again: Replays, is_async: bool) -> None:
    """The text that it is given is one, whatever its parameter is called."""

    class Words(FakeListLLM):
        def _stream(self, prompt: str, *_: Any, **__: Any) -> Any:
            yield from (GenerationChunk(text=word) for word in prompt.split())

    async def later() -> Any:
        return [chunk async for chunk in Words(responses=[]).astream("one two")]

    both = again(later if is_async else lambda: list(Words(responses=[]).stream("one two"))).is_the_same()
    (call,) = both.recorded.root.children
    assert (both.result, call.name, call.input) == (["one", "two"], "Words.stream", {"messages": ["one two"]})


@pytest.mark.parametrize(
    "model",
    [
        FakeListChatModel(responses=["a", "b"]),
        FakeListLLM(responses=["a", "b"]),
        GenericFakeChatModel(messages=iter(["a", "b", "c", "d", "e", "f"])),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("is_async", [False, True])
def test_the_fakes_of_langchain(again: Replays, model: Any, is_async: bool) -> None:
    """Models of tests, that give the next answer each time, give the recorded ones."""

    async def later() -> Any:
        return [await model.ainvoke("x"), await model.ainvoke("x")]

    both = again(later if is_async else lambda: [model.invoke("x"), model.invoke("x")])
    name = type(model).__name__
    assert labels(both.is_the_same().recorded) == [f"{name}#1", f"{name}#2"]


def test_a_model_that_raises(again: Replays, bodies: Bodies) -> None:
    """Its exception is the failure."""
    model = Scripted(replies=[TimeoutError("slow")], bodies=bodies)
    both = again(lambda: model.invoke("go")).is_the_same()
    assert both.recorded.failure is not None
    assert both.recorded.failure.address == "agent#1/Scripted#1"


def test_models_at_once(again: Replays, bodies: Bodies) -> None:
    """A batch asks them in threads; each gets its own answer."""
    model = FakeEcho(replies=[], bodies=bodies)
    both = again(lambda: [reply.content for reply in model.batch(["a", "b", "c"])]).is_the_same()
    assert both.result == ["A", "B", "C"]


class FakeEcho(Scripted):
    """A model that answers aloud."""

    def _reply(self, messages: list[Any]) -> AIMessage:
        self.bodies.ran("model")
        return AIMessage(str(messages[-1].content).upper())


def test_tools_that_are_bound_as_objects(again: Replays, bodies: Bodies) -> None:
    """They stand in the recording as what a model is told of them."""

    @tool
    def look(what: str) -> str:
        """Look."""
        return what

    model = Scripted(replies=[wants(("look", {"what": "x"}))], bodies=bodies).bind_tools([look])
    both = again(lambda: model.invoke("go").tool_calls).is_the_same()
    assert both.recorded.root.children[0].input["tools"] == [
        {
            "name": "look",
            "description": "Look.",
            "args": {"what": {"title": "What", "type": "string"}},
        }
    ]


class Verdict(BaseModel):
    """What a structured answer holds."""

    good: bool


def test_a_structured_answer(again: Replays, bodies: Bodies) -> None:
    """The parser behind the model runs again on what is served."""
    model = Scripted(replies=[wants(("Verdict", {"good": True}))], bodies=bodies)
    asked = model.with_structured_output(Verdict)
    assert again(lambda: asked.invoke("go")).is_the_same().replayed.result == Verdict(good=True)


def test_a_model_in_its_own_event_loop(again: Replays, bodies: Bodies) -> None:
    """A chain of coroutines, each of which asks a model, is as many calls."""
    model = FakeEcho(replies=[], bodies=bodies)

    async def agent() -> Any:
        replies = await asyncio.gather(*[model.ainvoke(text) for text in "abc"])
        return [reply.content for reply in replies]

    assert again(agent).is_the_same().result == ["A", "B", "C"]
