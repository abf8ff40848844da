"""Graphs of LangGraph: one step each, executed again in a replay, whatever their threads had saved before."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

import stepfork
from adapters.langgraph.again import Again, Bodies, Scripted, Streaming, labels, wants
from project import clean_environment
from stepfork._recording import read_run
from stepfork.adapters import _langgraph

Replays = Callable[[Callable[[], Any]], Again]

THREAD: Any = {"configurable": {"thread_id": "t1"}}


class Database(InMemorySaver):
    """A checkpointer that no replay may touch."""

    def __init__(self, bodies: Bodies) -> None:
        super().__init__()
        self.bodies = bodies

    def get_tuple(self, config: Any) -> Any:
        """Read, and say so."""
        self.bodies.ran("read")
        return super().get_tuple(config)

    def put(self, config: Any, *args: Any, **kwargs: Any) -> Any:
        """Write, and say so."""
        self.bodies.ran("write")
        return super().put(config, *args, **kwargs)


class Newest(Database):
    """A checkpointer that cannot list what it has."""

    def list(self, *_: Any, **__: Any) -> Any:
        """Refuse, as the base class of checkpointers does."""
        raise NotImplementedError

    alist = list


@tool
def weigh(thing: str) -> int:
    """Weigh a thing."""
    return len(thing)


class Total(TypedDict):
    things: list[str]
    weights: Annotated[list[int], operator.add]


def weighing() -> Any:
    """Return a graph that weighs each thing in a node of its own, at once."""

    def spread(state: Total) -> list[Send]:
        return [Send("weigh", {"thing": thing}) for thing in state["things"]]

    def weigh_one(state: Any) -> Any:
        return {"weights": [weigh.invoke(state)]}

    def decide(state: Total) -> Command[Any]:
        return Command(goto=END, update={"weights": [sum(state["weights"])]})

    graph = StateGraph(Total)
    graph.add_node("weigh", weigh_one)
    graph.add_node("decide", decide, ends=[END])
    graph.add_conditional_edges(START, spread, ["weigh"])
    graph.add_edge("weigh", "decide")
    return graph.compile(name="weighing")


def asking(saver: Any, bodies: Bodies) -> Any:
    """Return a graph that asks a human before its tool runs, and in the tool once more."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        bodies.ran("pay")
        return f"paid {amount}: {interrupt('really?')}"

    def ask(state: MessagesState) -> Any:
        return {"messages": [HumanMessage(f"human: {interrupt('how much?')}")]}

    def order(state: MessagesState) -> Any:
        amount = int(str(state["messages"][-1].content).split()[-1])
        return {"messages": [wants(("pay", {"amount": amount}))]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("order", order)
    graph.add_node("tools", ToolNode([pay]))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "order")
    graph.add_edge("order", "tools")
    return graph.compile(checkpointer=saver, name="asking")


def test_nodes_at_once(again: Replays) -> None:
    """Sent work is done in threads at once; the one step of the graph holds all its calls."""
    graph = weighing()
    both = again(lambda: graph.invoke({"things": ["a", "bb", "ccc"], "weights": []})).is_the_same()
    assert both.result["weights"] == [1, 2, 3, 6]
    assert sorted(labels(both.recorded)) == [
        "weighing#1",
        *(f"weighing#1/weigh#{number}" for number in (1, 2, 3)),
    ]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_subgraph_is_a_step_below(again: Replays, is_async: bool) -> None:
    """A graph that is a node of another one, or that a node asks, holds its own calls."""
    inner = weighing()

    def ask(state: Total) -> Any:
        return {"weights": inner.invoke({"things": ["dddd"], "weights": []})["weights"]}

    graph = StateGraph(Total)
    graph.add_node("first", inner)
    graph.add_node("second", ask)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    outer = graph.compile(name="outer")
    state: Any = {"things": ["a", "bb"], "weights": []}

    async def agent() -> Any:
        return await outer.ainvoke(state)

    both = again(agent if is_async else lambda: outer.invoke(state)).is_the_same()
    inside = [f"outer#1/weighing#{number}" for number in (1, 2)]
    assert sorted(labels(both.recorded)) == [
        "outer#1",
        inside[0],
        *(f"{inside[0]}/weigh#{number}" for number in (1, 2)),
        inside[1],
        f"{inside[1]}/weigh#1",
    ]
    nested = [call for call in both.recorded.walk() if call.name == "weighing"]
    assert [list(call.input) for call in nested] == [["input"], ["input"]]


@pytest.mark.parametrize("mode", ["values", "updates", "messages", "custom", "tasks", ["updates", "values"]])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_as_a_stream(again: Replays, bodies: Bodies, mode: Any, is_async: bool) -> None:
    """What a graph streams is the same, in each mode."""
    model = Streaming(replies=["one two three"], bodies=bodies)

    def say(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("say", say)
    graph.set_entry_point("say")
    compiled = graph.compile()
    state: Any = {"messages": [HumanMessage("go", id="given")]}

    def shown(chunk: Any) -> str:
        return type(chunk).__name__

    async def agent() -> Any:
        return [shown(chunk) async for chunk in compiled.astream(state, stream_mode=mode)]

    def agent_now() -> Any:
        return [shown(chunk) for chunk in compiled.stream(state, stream_mode=mode)]

    both = again(agent if is_async else agent_now).is_the_same()
    step = both.recorded.root.children[0]
    assert step.outcome.status == "returned"
    assert len(step.outcome.items or []) == len(both.result)
    assert both.ran == ["model"]


def test_a_stream_that_is_left(again: Replays, bodies: Bodies) -> None:
    """Whoever takes one chunk only leaves the step as closed early, in the replay too."""
    model = Scripted(replies=["one"], bodies=bodies)

    def say(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("first", say)
    graph.add_node("second", say)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    compiled = graph.compile()

    def agent() -> list[str]:
        stream = compiled.stream({"messages": [HumanMessage("go")]}, stream_mode="updates")
        chunk = next(stream)
        stream.close()
        return list(chunk)

    both = again(agent).is_the_same()
    for run in (both.recorded, both.replayed.run):
        assert run.root.children[0].outcome.status == "closed_early"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_human_in_the_loop(again: Replays, bodies: Bodies, is_async: bool) -> None:
    """Interrupts of nodes and of tools come again, and so does what the answers lead to."""
    graph = asking(InMemorySaver(), bodies)

    def agent() -> Any:
        first = graph.invoke({"messages": []}, THREAD)
        second = graph.invoke(Command(resume=5), THREAD)
        third = graph.invoke(Command(resume="yes"), THREAD)
        return _waits(first), _waits(second), third

    async def later() -> Any:
        first = await graph.ainvoke({"messages": []}, THREAD)
        second = await graph.ainvoke(Command(resume=5), THREAD)
        third = await graph.ainvoke(Command(resume={_id(second): "yes"}), THREAD)
        return _waits(first), _waits(second), third

    both = again(later if is_async else agent).is_the_same()
    assert both.result[:2] == (["how much?"], ["really?"])
    assert both.result[2]["messages"][-1].content == "paid 5: yes"
    tools = [call for call in both.recorded.walk() if call.name == "pay"]
    assert [call.outcome.status for call in tools] == ["suspended", "returned"]
    assert both.ran == ["pay", "pay"]


def _waits(state: Any) -> list[Any]:
    return [each.value for each in state["__interrupt__"]]


def _id(state: Any) -> str:
    (waiting,) = state["__interrupt__"]
    return str(waiting.id)


@pytest.mark.parametrize("saver", [Database, Newest])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_that_goes_on_where_another_stopped(
    tmp_path: Path, bodies: Bodies, is_async: bool, saver: type[Database]
) -> None:
    """Each answer of a human may be a run of its own: what its thread had saved is recorded with it."""
    graph = asking(saver(bodies), bodies)
    inputs = [{"messages": []}, Command(resume=5), Command(resume="yes")]

    def agent(given: Any) -> Any:
        return graph.invoke(given, THREAD)

    async def later(given: Any) -> Any:
        return await graph.ainvoke(given, THREAD)

    ends = []
    for number, given in enumerate(inputs):
        with stepfork.run("agent", path=tmp_path / f"{number}.jsonl"):
            ends.append(asyncio.run(later(given)) if is_async else agent(given))
    bodies.names.clear()
    bodies.forbidden = True
    graph = asking(saver(bodies), bodies)
    for number in (2, 0, 1):
        given = inputs[number]

        def once(given: Any = given) -> Any:
            return later(given) if is_async else agent(given)

        replayed = stepfork.replay(tmp_path / f"{number}.jsonl", once)
        assert not replayed.frontiers
        assert not replayed.unused_calls
        assert _said(replayed.result) == _said(ends[number])
    assert bodies.names == []


def _said(state: Any) -> Any:
    waiting = [each.value for each in state.get("__interrupt__", ())]
    return [message.content for message in state["messages"]], waiting


def test_a_subgraph_that_waits(tmp_path: Path, bodies: Bodies) -> None:
    """What a subgraph had saved goes with it when the answer is a run of its own."""

    def before(state: Total) -> Any:
        return {"weights": [weigh.invoke({"thing": "xx"})]}

    def ask(state: Total) -> Any:
        return {"weights": [interrupt("weight?")]}

    inner = StateGraph(Total)
    inner.add_node("before", before)
    inner.add_node("ask", ask)
    inner.add_edge(START, "before")
    inner.add_edge("before", "ask")
    outer = StateGraph(Total)
    outer.add_node("inner", inner.compile())
    outer.set_entry_point("inner")
    graph = outer.compile(checkpointer=Database(bodies))
    path = tmp_path / "second.jsonl"
    graph.invoke({"things": [], "weights": []}, THREAD)

    def agent() -> Any:
        return graph.invoke(Command(resume=7), THREAD)

    with stepfork.run("agent", path=path):
        assert agent()["weights"] == [2, 7]
    assert labels(read_run(path)) == ["LangGraph#1", "LangGraph#1/langgraph.thread#1"]
    bodies.forbidden = True
    replayed = stepfork.replay(path, agent)
    assert not replayed.frontiers
    assert replayed.result["weights"] == [2, 7]


def test_a_thread_that_is_looked_at(again: Replays, bodies: Bodies) -> None:
    """States that are read and changed without running the graph are those of the replay."""
    graph = asking(Database(bodies), bodies)

    def agent() -> Any:
        empty = graph.get_state(THREAD).values
        graph.invoke({"messages": []}, THREAD)
        waiting = graph.get_state(THREAD).next
        graph.update_state(THREAD, {"messages": [HumanMessage("put in")]})
        history = list(graph.get_state_history(THREAD))
        return empty, waiting, len(history)

    both = again(agent).is_the_same()
    assert both.result == ({}, ("ask",), 3)
    assert labels(both.recorded) == ["langgraph.thread#1", "asking#1"]


LOOKING = """
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph


class Count(TypedDict):
    n: int


builder = StateGraph(Count)
builder.add_node("add", lambda state: {"n": state["n"] + 1})
builder.set_entry_point("add")
graph = builder.compile(checkpointer=InMemorySaver(), name="counter")
THREAD = {"configurable": {"thread_id": "t1"}}
graph.get_state(THREAD)
graph.invoke({"n": 1}, THREAD)
graph.get_state(THREAD)
"""


def test_a_program_that_looks_at_a_thread_before_its_graph_runs(tmp_path: Path) -> None:
    """The look opens the run, and is the only one in it."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "agent.py").write_text(LOOKING)
    command = [sys.executable, "-m", "stepfork", "run", "--", sys.executable, "agent.py"]
    subprocess.run(command, cwd=tmp_path, env=clean_environment(tmp_path), check=True, timeout=60)
    (path,) = (tmp_path / ".stepfork" / "runs").glob("*.jsonl")
    assert labels(read_run(path)) == ["langgraph.thread#1", "counter#1"]


def test_a_checkpointer_that_fails_is_the_graphs_own_exception(again: Replays, bodies: Bodies) -> None:
    """It is recorded where it came from, and comes again."""

    class Broken(Database):
        def get_tuple(self, config: Any) -> Any:
            raise ConnectionError("no database")

    graph = asking(Broken(bodies), bodies)
    both = again(lambda: graph.invoke({"messages": []}, THREAD)).is_the_same()
    assert labels(both.recorded) == ["asking#1", "asking#1/langgraph.thread#1"]
    assert both.recorded.failure is not None


def test_what_does_not_fit_a_graph_is_its_own_error(again: Replays) -> None:
    """The run is whole, and fails so again."""
    graph = weighing()

    async def later() -> Any:
        await graph.ainvoke()

    for agent in (lambda: graph.invoke(), lambda: list(graph.stream()), later):
        both = again(agent).is_the_same()
        assert isinstance(both.error, TypeError)
        assert not both.recorded.incomplete


def test_a_graph_that_cannot_be_told_is_not_the_agents_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It costs one warning where the graph would be the run, and the recording where it is in one."""

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    graph, given = weighing(), {"things": ["x"], "weights": []}
    result = graph.invoke(given)
    monkeypatch.setattr(_langgraph, "entry_of_bound", broken)
    with pytest.warns(RuntimeWarning, match="cannot record a graph: ZeroDivisionError"):
        assert graph.invoke(given) == result
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"), stepfork.run("agent", path=tmp_path / "r"):
        assert graph.invoke(given) == result
    assert read_run(tmp_path / "r").incomplete


def test_a_checkpointer_that_came_later(tmp_path: Path, bodies: Bodies) -> None:
    """A graph that had none when it was recorded begins with an empty thread; that is no frontier."""

    def weigh_one(state: Total) -> Any:
        return {"weights": [weigh.invoke({"thing": "xx"})]}

    builder = StateGraph(Total)
    builder.add_node("weigh_one", weigh_one)
    builder.set_entry_point("weigh_one")
    before, now = builder.compile(), builder.compile(checkpointer=Database(bodies))
    path = tmp_path / "run.jsonl"
    with stepfork.run("agent", path=path):
        before.invoke({"things": [], "weights": []}, THREAD)
    replayed = stepfork.replay(path, lambda: now.invoke({"things": [], "weights": []}, THREAD))
    assert not replayed.frontiers
    assert replayed.result["weights"] == [2]
    assert bodies.names == []


def test_a_failing_node(again: Replays, bodies: Bodies) -> None:
    """An exception of a node is the failure, at the graph's step."""

    def broken(state: Total) -> Any:
        return {"weights": [weigh.invoke({"thing": state["things"][1]})]}

    graph = StateGraph(Total)
    graph.add_node("broken", broken)
    graph.set_entry_point("broken")
    compiled = graph.compile(name="broken")
    both = again(lambda: compiled.invoke({"things": [], "weights": []})).is_the_same()
    assert isinstance(both.error, IndexError)
    assert both.recorded.failure is not None
    assert both.recorded.failure.address == "agent#1/broken#1"


def test_what_is_recorded_of_a_configuration(again: Replays, bodies: Bodies) -> None:
    """What the agent chose; neither callbacks nor what LangGraph keeps there for itself."""
    graph = weighing()
    config: Any = {
        "configurable": {"thread_id": "t", "user": "ada", "__pregel_x": object()},
        "callbacks": [],
        "recursion_limit": 7,
        "tags": [],
    }
    both = again(lambda: graph.invoke({"things": ["a"], "weights": []}, config, durability=None))
    assert both.is_the_same().recorded.root.children[0].input == {
        "input": {"things": ["a"], "weights": []},
        "config": {"configurable": {"thread_id": "t", "user": "ada"}, "recursion_limit": 7},
    }
