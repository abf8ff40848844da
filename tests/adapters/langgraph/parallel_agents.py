"""Graphs whose tools really run in parallel, in each of the ways that LangGraph has for it.

Their runs are kept in ``tests/recordings/parallel``, made by ``python -m adapters.langgraph.parallel_agents``
in ``tests`` with latencies that differ from call to call.
"""

from __future__ import annotations

import asyncio
import operator
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send

import stepfork
from adapters.langgraph.again import Bodies, Scripted, wants

RECORDINGS = Path(__file__).parents[2] / "recordings" / "parallel"
TOPICS = ["rent", "power", "phone", "food", "fuel", "tax"]
bodies = Bodies()


@tool
async def fetch(topic: str) -> str:
    """Look a topic up."""
    bodies.ran("fetch")
    await asyncio.sleep(random.uniform(0.002, 0.03))
    return f"{topic} {random.randrange(1000)}"


@tool
def read(topic: str) -> str:
    """Read about a topic."""
    bodies.ran("read")
    time.sleep(random.uniform(0.002, 0.03))
    return f"{topic} {random.randrange(1000)}"


@tool
async def unsteady(topic: str) -> str:
    """Look a topic up, if it works."""
    bodies.ran("unsteady")
    await asyncio.sleep(random.uniform(0.002, 0.03))
    if topic in TOPICS[::2]:
        raise LookupError(f"nobody answers about {topic}")
    return topic


class Summing(Scripted):
    """A model that asks for all topics at once, and then repeats what it was told, in that order."""

    replies: Sequence[Any] = ()
    bodies: Any = bodies
    asks: str = ""

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self.bodies.ran("model")
        time.sleep(random.uniform(0.001, 0.005))
        if self.asks and not any(isinstance(message, AIMessage) for message in messages):
            return wants(*[(self.asks, {"topic": topic}) for topic in TOPICS])
        return AIMessage(" | ".join(str(message.content) for message in messages))


def _either(one: list[str], other: list[str]) -> list[str]:
    return other or one


class Found(TypedDict):
    topics: Annotated[list[str], _either]
    found: Annotated[list[str], operator.add]


def _spread(state: Found) -> list[Send]:
    return [Send("look", {"topics": [topic], "found": []}) for topic in state["topics"]]


async def _look(state: Found) -> Any:
    (topic,) = state["topics"]
    page = await fetch.ainvoke({"topic": topic})
    reply = await Summing().ainvoke(f"about {page}")
    return {"found": [str(reply.content)]}


async def _sum_up(state: Found) -> Any:
    reply = await Summing().ainvoke(" and ".join(state["found"]))
    return {"found": [str(reply.content)]}


async def _as_they_come(state: Found) -> Any:
    found: list[str] = []
    for done in asyncio.as_completed([fetch.ainvoke({"topic": topic}) for topic in state["topics"]]):
        found.append(str(await done))
        await Summing().ainvoke(" then ".join(found))
    return {"found": found}


def _sending(name: str) -> Any:
    graph = StateGraph(Found)
    graph.add_node("look", _look)
    graph.add_node("sum_up", _sum_up)
    graph.add_conditional_edges(START, _spread, ["look"])
    graph.add_edge("look", "sum_up")
    return graph.compile(name=name)


def _coming() -> Any:
    graph = StateGraph(Found)
    graph.add_node("come", _as_they_come)
    graph.add_node("sum_up", _sum_up)
    graph.add_edge(START, "come")
    graph.add_edge("come", "sum_up")
    return graph.compile(name="as_they_come")


def _branching() -> Any:
    """Two subgraphs side by side, each of which spreads in turn."""
    graph = StateGraph(Found)
    graph.add_node("left", _sending("left"))
    graph.add_node("right", _sending("right"))
    graph.add_node("sum_up", _sum_up)
    for side in ("left", "right"):
        graph.add_edge(START, side)
        graph.add_edge(side, "sum_up")
    graph.add_edge("sum_up", END)
    return graph.compile(name="branches")


def _excusing() -> Any:
    class Asked(TypedDict):
        messages: Annotated[list[Any], operator.add]

    def excuse(error: LookupError) -> str:
        return f"sorry: {error}"

    async def sum_up(state: Asked) -> Any:
        return {"messages": [(await Summing().ainvoke(state["messages"][1:])).content]}

    graph = StateGraph(Asked)
    graph.add_node("tools", ToolNode([unsteady], handle_tool_errors=excuse))
    graph.add_node("sum_up", sum_up)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", "sum_up")
    return graph.compile(name="some_fail")


tools_at_once = create_agent(Summing(asks="fetch"), [fetch], name="tools_at_once")
tools_in_threads = create_agent(Summing(asks="read"), [read], name="tools_in_threads")
sent = _sending("sent")
as_they_come = _coming()
branches = _branching()
some_fail = _excusing()

ASKED: Any = {"messages": [{"role": "user", "content": "go"}]}
STATE: Any = {"topics": TOPICS, "found": []}
RUNS = [
    (tools_at_once, ASKED),
    (tools_in_threads, ASKED),
    (sent, STATE),
    (as_they_come, STATE),
    (branches, STATE),
    (some_fail, {"messages": [wants(*[("unsteady", {"topic": topic}) for topic in TOPICS])]}),
]


def record(graph: Any, given: Any, scratch: Path) -> None:
    """Run a graph and keep its run; STEPFORK_DIR is ``scratch``."""
    if graph is tools_in_threads:
        graph.invoke(given)
    else:
        asyncio.run(graph.ainvoke(given))
    (journal,) = (scratch / "runs").glob("*.jsonl")
    (RECORDINGS / f"langgraph_{graph.name}.jsonl").write_bytes(stepfork.export(journal))
    journal.unlink()


def main() -> None:
    """Record them all."""
    from adapters.langgraph import parallel_agents  # under the name that tests import it by

    stepfork.instrument("langchain", "langgraph")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["STEPFORK_DIR"] = scratch
        for graph, given in parallel_agents.RUNS:
            parallel_agents.record(graph, given, Path(scratch))
            print(graph.name)


if __name__ == "__main__":
    main()
