"""Tools of LangChain: recorded once, whatever stands around them, and never run in a replay."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedState, ToolRuntime
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
    create_retriever_tool,
    tool,
)
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import ValidationError

import stepfork
from adapters.langgraph.again import Again, Bodies, Listener, Scripted, calls, labels, wants
from stepfork._recording import read_run

Replays = Callable[[Callable[[], Any]], Again]


def only_tools(*tools: Any, **options: Any) -> Any:
    """Return a graph that runs the tools which the last message asks for."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(list(tools), **options))
    graph.set_entry_point("tools")
    return graph.compile()


def asked(*tools: tuple[str, dict[str, Any]]) -> Any:
    """Return the state in which a model has asked for tools."""
    return {"messages": [wants(*tools)]}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_as_a_tool(again: Replays, bodies: Bodies, is_async: bool) -> None:
    """One call with the model's arguments, sync or in the executor that LangChain takes."""

    @tool
    def lookup(order_id: str, region: str = "eu") -> dict[str, Any]:
        """Look an order up."""
        bodies.ran("lookup")
        return {"id": order_id, "region": region}

    async def later() -> Any:
        return await lookup.ainvoke({"order_id": "A"})

    both = again(later if is_async else lambda: lookup.invoke({"order_id": "A"})).is_the_same()
    assert both.ran == ["lookup"]
    assert calls(both.recorded) == [("agent#1/lookup#1", {"order_id": "A"})]


def test_an_async_function_as_a_tool(again: Replays, bodies: Bodies) -> None:
    """A coroutine function is one call too."""

    @tool
    async def stock(sku: str) -> str:
        """Look into the stock."""
        bodies.ran("stock")
        await asyncio.sleep(0)
        return f"{sku}: 3"

    async def agent() -> Any:
        return await stock.ainvoke({"sku": "S"})

    assert again(agent).is_the_same().result == "S: 3"


class Adding(BaseTool):
    """A tool as a class, with a body for each world."""

    name: str = "add"
    description: str = "Add."
    bodies: Any

    def _run(self, a: int, b: int = 1) -> int:
        self.bodies.ran("add")
        return a + b

    async def _arun(self, a: int, b: int = 1) -> int:
        return self._run(a, b)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_as_a_class(again: Replays, bodies: Bodies, is_async: bool) -> None:
    """A body that calls the other is one call; a class that was made after the hooks is recorded."""
    adding = Adding(bodies=bodies)

    async def later() -> Any:
        return await adding.ainvoke({"a": 2})

    both = again(later if is_async else lambda: adding.invoke({"a": 2})).is_the_same()
    assert both.result == 3
    assert labels(both.recorded) == ["add#1"]


def test_parallel_tools(again: Replays, bodies: Bodies) -> None:
    """Each tool of a message is a call of its own, whatever order they end in."""

    @tool
    async def wait(seconds: float) -> str:
        """Wait."""
        bodies.ran("wait")
        await asyncio.sleep(seconds)
        return f"waited {seconds}"

    graph = only_tools(wait)

    async def agent() -> Any:
        return await graph.ainvoke(asked(*[("wait", {"seconds": s}) for s in (0.03, 0.01, 0.02, 0.0)]))

    both = again(agent).is_the_same()
    assert [message.content for message in both.result["messages"][1:]] == [
        "waited 0.03",
        "waited 0.01",
        "waited 0.02",
        "waited 0.0",
    ]


def test_what_is_injected_is_no_argument(again: Replays, bodies: Bodies) -> None:
    """State, configuration, runtime and the id of the call are no part of what identifies it."""

    @tool
    def look(
        what: str,
        state: Annotated[Any, InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
        config: RunnableConfig,
        runtime: ToolRuntime,
    ) -> str:
        """Look."""
        bodies.ran("look")
        assert runtime.tool_call_id == call_id
        return f"{what} {len(state['messages'])} {call_id} {'configurable' in config}"

    graph = only_tools(look)
    both = again(lambda: graph.invoke(asked(("look", {"what": "here"})))).is_the_same()
    assert calls(both.recorded) == [("agent#1/LangGraph#1/look#1", {"what": "here"})]
    assert both.result["messages"][-1].content == "here 1 call_1_look True"


def test_an_artifact(again: Replays, bodies: Bodies) -> None:
    """What a tool gives beside its content comes back as the message's artifact."""

    @tool(response_format="content_and_artifact")
    def plot(title: str) -> tuple[str, Any]:
        """Plot."""
        bodies.ran("plot")
        return f"plotted {title}", {"points": (1, 2.5, b"raw")}

    graph = only_tools(plot)
    both = again(lambda: graph.invoke(asked(("plot", {"title": "t"})))).is_the_same()
    assert both.replayed.result["messages"][-1].artifact == {"points": (1, 2.5, b"raw")}


def test_a_command(again: Replays, bodies: Bodies) -> None:
    """A command changes the state in the replay as it did, its message answering the call."""

    class State(MessagesState):
        user: str

    @tool
    def login(name: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Log in."""
        bodies.ran("login")
        return Command(update={"user": name, "messages": [ToolMessage("welcome", tool_call_id=call_id)]})

    graph = StateGraph(State)
    graph.add_node("tools", ToolNode([login]))
    graph.set_entry_point("tools")
    compiled = graph.compile()
    both = again(lambda: compiled.invoke(asked(("login", {"name": "ada"})))).is_the_same()
    assert both.replayed.result["user"] == "ada"


def test_an_answer_goes_to_the_call_of_now(bodies: Bodies, tmp_path: Any) -> None:
    """Where the model gives its calls other ids, what is served answers those, inside a command too."""
    ids = iter(["then", "then", "now", "now"])

    @tool
    def login(name: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Log in."""
        bodies.ran("login")
        return Command(update={"messages": [ToolMessage(f"welcome {name}", tool_call_id=call_id)]})

    @tool
    def look(what: str) -> str:
        """Look."""
        bodies.ran("look")
        return what

    graph = only_tools(login, look)

    def agent() -> list[str]:
        message = wants(("login", {"name": "ada"}), ("look", {"what": "x"}), ids=next(ids))
        found = graph.invoke({"messages": [message]})["messages"]
        return [each.tool_call_id for each in found if isinstance(each, ToolMessage)]

    path = tmp_path / "run.jsonl"
    with stepfork.run("agent", path=path):
        assert sorted(agent()) == ["then_1_login", "then_2_look"]
    next(ids)
    assert sorted(stepfork.replay(path, agent).result) == ["now_1_login", "now_2_look"]
    assert bodies.names == ["login", "look"]


@pytest.mark.parametrize("handled", [True, False, "sorry"])
def test_a_tool_exception(again: Replays, bodies: Bodies, handled: Any) -> None:
    """The exception is served, and LangChain makes of it what it makes of any."""

    def pay(amount: int) -> str:
        bodies.ran("pay")
        raise ToolException(f"no {amount}")

    paying = StructuredTool.from_function(pay, description="Pay.", handle_tool_error=handled)
    both = again(lambda: paying.invoke({"amount": 5})).is_the_same()
    assert both.result == {True: "no 5", False: None, "sorry": "sorry"}[handled]
    assert both.recorded.root.children[0].outcome.status == "raised"


def test_a_tool_that_raises_ends_the_run(again: Replays, bodies: Bodies) -> None:
    """The failure is at the tool, in the recording and in the replay."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        bodies.ran("pay")
        raise KeyError("amount")

    graph = only_tools(pay, handle_tool_errors=False)
    both = again(lambda: graph.invoke(asked(("pay", {"amount": 5})))).is_the_same()
    for run in (both.recorded, both.replayed.run):
        assert run.failure is not None
        assert run.failure.address == "agent#1/LangGraph#1/pay#1"


def strict(bodies: Bodies, **options: Any) -> BaseTool:
    """Return a tool that takes numbers only."""

    def double(n: int) -> int:
        bodies.ran("double")
        return 2 * n

    return StructuredTool.from_function(double, description="Double.", **options)


def test_bad_arguments(again: Replays, bodies: Bodies) -> None:
    """Arguments that a tool refuses end its call, and are refused again in the replay."""
    both = again(lambda: strict(bodies).invoke({"n": "many"})).is_the_same()
    assert isinstance(both.error, ValidationError)
    assert both.ran == []
    (call,) = both.recorded.root.children
    assert (call.label, call.input, call.outcome.status) == ("double#1", {"n": "many"}, "raised")
    assert both.recorded.failure is not None
    assert both.recorded.failure.address == "agent#1/double#1"


def test_bad_arguments_as_a_message(again: Replays, bodies: Bodies) -> None:
    """A tool that makes a message of them is recorded as having refused them all the same."""
    both = again(lambda: strict(bodies, handle_validation_error="numbers!").invoke({"n": "many"}))
    assert both.is_the_same().result == "numbers!"
    assert both.recorded.root.children[0].outcome.status == "raised"


def test_arguments_that_are_no_longer_bad(bodies: Bodies, tmp_path: Any) -> None:
    """A fix that accepts them goes past the end of the recording: the tool itself was never run."""
    path = tmp_path / "run.jsonl"
    with pytest.raises(ValidationError), stepfork.run("agent", path=path):
        strict(bodies).invoke({"n": "many"})

    def double(n: str) -> str:
        bodies.ran("double")
        return 2 * n

    fixed = StructuredTool.from_function(double, description="Double.")
    replayed = stepfork.replay(path, lambda: fixed.invoke({"n": "many"}))
    assert [frontier.call.label for frontier in replayed.frontiers] == ["double#1"]
    assert replayed.run.failure is None
    assert bodies.names == []


@pytest.mark.parametrize("fails", [False, True])
def test_callbacks_hear_in_a_replay_what_they_heard(again: Replays, bodies: Bodies, fails: bool) -> None:
    """The listeners of a tool are told of its start, its end and its exception."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        bodies.ran("pay")
        if fails:
            raise RuntimeError("broke")
        return f"paid {amount}"

    listeners: list[Listener] = []

    def agent() -> Any:
        listeners.append(Listener())
        return pay.invoke({"amount": 5}, config={"callbacks": [listeners[-1]]})

    again(agent).is_the_same()
    assert len(listeners[0].heard) == 2
    assert listeners[1].heard == listeners[0].heard


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_tool_writes_into_the_stream(again: Replays, bodies: Bodies, is_async: bool) -> None:
    """Chunks that a tool sends while it works are sent again, before its result."""

    @tool
    async def crawl(pages: int, runtime: ToolRuntime) -> str:
        """Crawl."""
        bodies.ran("crawl")
        for page in range(pages):
            runtime.stream_writer({"page": page})
        return f"{pages} pages"

    @tool("crawl")
    def crawl_now(pages: int) -> str:
        """Crawl."""
        from langgraph.config import get_stream_writer

        bodies.ran("crawl")
        for page in range(pages):
            get_stream_writer()({"page": page})
        return f"{pages} pages"

    graph = only_tools(crawl if is_async else crawl_now)
    state = asked(("crawl", {"pages": 2}))

    async def agent() -> Any:
        return [chunk async for chunk in graph.astream(state, stream_mode="custom")]

    def agent_now() -> Any:
        return list(graph.stream(state, stream_mode="custom"))

    both = again(agent if is_async else agent_now).is_the_same()
    assert both.replayed.result == [{"page": 0}, {"page": 1}]


def test_a_runtime_that_is_not_understood_is_not_the_agents_problem(tmp_path: Path, bodies: Bodies) -> None:
    """Another version's may be of any form: it costs the recording, and the tool works as ever."""

    @dataclasses.dataclass
    class Runtime:
        stream_writer: Any = dataclasses.field(init=False, default=print)

    config: Any = {"configurable": {"__pregel_runtime": Runtime()}}
    with (
        stepfork.run("agent", path=tmp_path / "run.jsonl"),
        pytest.warns(RuntimeWarning, match="stream_writer"),
    ):
        assert strict(bodies).run({"n": 2}, config=config) == 4
    assert read_run(tmp_path / "run.jsonl").incomplete


@pytest.mark.parametrize("given", [(), (None,), ([],)])
def test_what_does_not_fit_a_tool_is_its_own_error(again: Replays, bodies: Bodies, given: Any) -> None:
    """The run is whole, and fails so again."""
    both = again(lambda: strict(bodies).run(*given)).is_the_same()
    assert both.error is not None
    assert not both.recorded.incomplete


def test_a_tool_that_returns_directly(again: Replays, bodies: Bodies) -> None:
    """The agent ends with what the tool gave."""

    @tool(return_direct=True)
    def final(text: str) -> str:
        """End."""
        bodies.ran("final")
        return text.upper()

    model = Scripted(replies=[wants(("final", {"text": "so"}))], bodies=bodies)
    agent = create_agent(model, [final])
    both = again(lambda: agent.invoke({"messages": [HumanMessage("go")]})).is_the_same()
    assert both.replayed.result["messages"][-1].content == "SO"
    assert both.ran == ["model", "final"]


def test_an_agent_as_a_tool(again: Replays, bodies: Bodies) -> None:
    """What it does is told below the tool that it is, and is served with it."""

    @tool
    def find(what: str) -> str:
        """Find."""
        bodies.ran("find")
        return f"found {what}"

    inner = create_agent(Scripted(replies=[wants(("find", {"what": "x"})), "inner"], bodies=bodies), [find])

    @tool
    def research(topic: str) -> str:
        """Research."""
        bodies.ran("research")
        return str(inner.invoke({"messages": [HumanMessage(topic)]})["messages"][-1].content)

    model = Scripted(replies=[wants(("research", {"topic": "t"})), "outer"], bodies=bodies)
    agent = create_agent(model, [research], name="boss")
    both = again(lambda: agent.invoke({"messages": [HumanMessage("go")]})).is_the_same()
    assert labels(both.recorded) == [
        "boss#1",
        "boss#1/Scripted#1",
        "boss#1/research#1",
        "boss#1/research#1/Scripted#1",
        "boss#1/research#1/find#1",
        "boss#1/research#1/Scripted#2",
        "boss#1/Scripted#2",
    ]


class Shelf(BaseRetriever):
    """A retriever of the user's own."""

    bodies: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.bodies.ran("shelf")
        return [Document(f"about {query}")]


def test_a_retriever_as_a_tool(again: Replays, bodies: Bodies) -> None:
    """The tool is served; the retriever below it is not asked."""
    retrieve = create_retriever_tool(Shelf(bodies=bodies), "search", "Search.")
    both = again(lambda: retrieve.invoke({"query": "owls"})).is_the_same()
    assert both.replayed.result == "about owls"
    assert both.ran == ["shelf"]


def test_a_tool_is_a_plain_tool_when_nothing_is_recorded(bodies: Bodies) -> None:
    """Without a run the hooks do nothing, also where LangChain asks which methods a class has of its own."""
    assert Adding(bodies=bodies).invoke({"a": 1}) == 2
    assert asyncio.run(strict(bodies).ainvoke({"n": 4})) == 8
    assert isinstance(Scripted(replies=["x"], bodies=bodies).invoke("hello"), AIMessage)
    assert bodies.names == ["add", "double", "model"]
