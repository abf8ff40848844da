"""The adapters of LangChain and LangGraph keep what adapters promise, as their authors check it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph

from stepfork.adapters._switch import _named
from stepfork.testing import Check, Sample, adapter_checks


@pytest.fixture(autouse=True)
def instrumented() -> None:
    """Leave it to the checks what is on."""


class Bodies:
    """What would reach the world."""

    may_run = True

    def ran(self, what: str) -> None:
        """Note that a body runs."""
        assert self.may_run, f"{what} ran"

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """None of them may run."""
        self.may_run = False
        yield
        self.may_run = True


BODIES = Bodies()


@tool
def look(order: str) -> dict[str, Any]:
    """Look an order up."""
    BODIES.ran("look")
    return {"order": order, "price": 2.5}


@tool
def refuse(order: str) -> str:
    """Raise."""
    BODIES.ran("refuse")
    raise LookupError(f"no {order}")


@tool
async def fetch(order: str) -> list[str]:
    """Fetch it."""
    BODIES.ran("fetch")
    return [order]


class Echo(BaseChatModel):
    """A model in this process."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        BODIES.ran("Echo")
        if "refused" in messages[-1].content:
            raise ValueError("not like this")
        message = AIMessage(f"you said {messages[-1].content}", id="m1")
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages: list[Any], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        BODIES.ran("Echo")
        for word in ("you ", "said ", messages[-1].content):
            yield ChatGenerationChunk(message=AIMessageChunk(word, id="m1"))


async def _astream(text: str) -> AsyncIterator[Any]:
    async for chunk in Echo().astream(text):
        yield chunk.content


MODEL, STREAM = ("Echo",), ("Echo.stream",)
OF_LANGCHAIN = {
    "a tool": Sample(lambda: look.invoke({"order": "A"}), ("look",)),
    "a tool that raises": Sample(lambda: refuse.invoke({"order": "B"}), ("refuse",)),
    "bad arguments": Sample(lambda: look.invoke({"ordre": "C"}), ("look",)),
    "an async tool": Sample(lambda: fetch.ainvoke({"order": "D"}), ("fetch",)),
    "a tool in the executor": Sample(lambda: look.ainvoke({"order": "E"}), ("look",)),
    "a model": Sample(lambda: Echo().invoke("f"), MODEL),
    "a model that raises": Sample(lambda: Echo().invoke("refused g"), MODEL),
    "an async model": Sample(lambda: Echo().ainvoke("h"), MODEL),
    "a stream": Sample(lambda: (chunk.content for chunk in Echo().stream("i")), STREAM),
    "an async stream": Sample(partial(_astream, "j"), STREAM),
}


def _worked(state: dict[str, Any]) -> dict[str, Any]:
    if state["text"] == "refused":
        raise ValueError("not like this")
    return {"text": state["text"].upper()}


def _graph() -> Any:
    graph = StateGraph(dict)
    graph.add_node("work", _worked)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph.compile(name="worker")


GRAPH = _graph()
OF_LANGGRAPH = {
    "a graph": Sample(lambda: GRAPH.invoke({"text": "a"}), ("worker",)),
    "a graph that raises": Sample(lambda: GRAPH.invoke({"text": "refused"}), ("worker",)),
    "an async graph": Sample(lambda: GRAPH.ainvoke({"text": "c"}), ("worker",)),
    "a stream": Sample(lambda: GRAPH.stream({"text": "d"}), ("worker",)),
    "an async stream": Sample(lambda: GRAPH.astream({"text": "e"}), ("worker",)),
}
CHECKS = [
    *adapter_checks(_named("langchain"), OF_LANGCHAIN, unplugged=BODIES.unplugged),
    *adapter_checks(_named("langgraph"), OF_LANGGRAPH, unplugged=BODIES.unplugged),
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_adapters_keep_their_promises(check: Check) -> None:
    """One promise after the other."""
    check()
