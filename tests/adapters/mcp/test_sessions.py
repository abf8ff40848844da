"""Sessions with MCP servers in one process: what a replay gives back, and what it reaches."""

from __future__ import annotations

import asyncio
import base64
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import types

import stepfork
from adapters.mcp_shop import IS_NEW
from project import clean_environment
from replays import Bodies, made, record, stops
from stepfork._recording import read_run
from stepfork._replay.result import Replayed
from stepfork.adapters._switch import switched_on

if IS_NEW:
    from mcp import Client
    from mcp import MCPError as Error
    from mcp.server.mcpserver import Context, Image
    from mcp.server.mcpserver import MCPServer as Server
else:
    from mcp import McpError as Error
    from mcp.server.fastmcp import Context, Image
    from mcp.server.fastmcp import FastMCP as Server
    from mcp.shared.memory import create_connected_server_and_client_session

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SECOND: Any = 0.2 if IS_NEW else timedelta(seconds=0.2)


@stepfork.tool
async def ask_warehouse(item: str) -> int:
    """What a tool of a server in this process calls."""
    return len(item)


@stepfork.model
async def think(text: str) -> str:
    """What a sample is asked of."""
    return text.upper()


def shop(bodies: Bodies, name: str = "shop") -> Any:
    """Return a server whose tools, resources and prompts note that they ran."""

    @asynccontextmanager
    async def lifespan(_server: Any) -> Any:
        bodies.ran.append("lifespan")
        yield {}

    server = Server(name, lifespan=lifespan)

    @server.tool()
    async def price(item: str, ctx: Context) -> int:
        bodies.ran.append("price")
        await ctx.report_progress(1, 2, "half")
        await ctx.report_progress(2, 2)
        return await ask_warehouse(item)

    @server.tool()
    async def advice(topic: str, ctx: Context) -> str:
        bodies.ran.append("advice")
        content = types.TextContent(type="text", text=topic)
        message = types.SamplingMessage(role="user", content=content)
        reply = await ctx.session.create_message(messages=[message], max_tokens=9)
        return str(reply.content.text)

    @server.tool()
    async def sleep() -> str:
        bodies.ran.append("sleep")
        await asyncio.sleep(30)
        return "awake"

    @server.tool()
    def picture() -> Image:
        bodies.ran.append("picture")
        return Image(data=PIXEL, format="png")

    @server.resource("shop://rules")
    def rules() -> str:
        bodies.ran.append("rules")
        return "no refunds"

    @server.prompt()
    def letter(name: str) -> str:
        bodies.ran.append("letter")
        return f"Dear {name}"

    return server


async def sample(_context: Any, params: Any) -> Any:
    """Answer a server that asks for a sample."""
    text = await think(params.messages[0].content.text)
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text=text), model="m"
    )


def connected(server: Any) -> Any:
    """Return a client of a server in this process, which the server may ask back."""
    if IS_NEW:
        return Client(server, mode="legacy", sampling_callback=sample)
    return create_connected_server_and_client_session(server, sampling_callback=sample)


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """Have the adapter on while a run is recorded; each replay switches it on by itself."""
    with switched_on(["mcp"]):
        yield


@pytest.fixture
def bodies() -> Bodies:
    """What ran."""
    return Bodies()


def both(path: Path, agent: Any, bodies: Bodies) -> Replayed:
    """Record an agent and replay it: it sees the same, and nothing runs."""
    saw = record(path, agent)
    replayed: Replayed
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
    assert ran == 0
    assert replayed.frontiers == []
    assert [call.outcome.value for call in made(replayed)] != []
    assert replayed.value == saw
    assert repr(replayed.value) == repr(saw)
    return replayed


def test_everything_a_client_asks_comes_back_as_it_was(tmp_path: Path, bodies: Bodies) -> None:
    """Tools, lists, resources, prompts and images are objects of the SDK, equal to those of the run."""

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            uri: Any = "shop://rules"
            return [
                await session.list_tools(),
                await session.call_tool("price", {"item": "tea"}),
                await session.call_tool("picture"),
                await session.list_resources(),
                await session.read_resource(uri),
                await session.list_prompts(),
                await session.get_prompt("letter", {"name": "Ada"}),
                await session.call_tool("price", {"item": 7}),
            ]

    both(tmp_path / "run.jsonl", agent, bodies)


CHILD = """
import asyncio
import sys

import stepfork
from adapters.mcp import test_sessions
from adapters.mcp.test_sessions import Bodies, connected, shop

stepfork.instrument("mcp")
bodies = Bodies()


async def agent():
    server = shop(bodies)
    client = test_sessions.Client if sys.argv[1] == "direct" else connected
    async with client(server) as session:
        await session.call_tool("price", {"item": "tea"})


try:
    asyncio.run(agent())
except BaseException as error:
    print(type(error).__name__)
print(bodies.ran)
"""


@pytest.mark.parametrize("way", ["direct", "in memory"] if IS_NEW else ["in memory"])
def test_no_server_runs_in_a_process_that_a_replay_has_started(tmp_path: Path, way: str) -> None:
    """Not even its lifespan: what it connects to is the world, too."""
    tests = str(Path(__file__).parents[2])
    environment = {**clean_environment(tmp_path), "PYTHONPATH": tests, "STEPFORK_REPLAYING": "yes"}
    command = [sys.executable, "-c", CHILD, way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch("(ReplayStopped|BaseExceptionGroup)\\n\\[\\]\\n", done.stdout)


def test_errors_of_the_protocol_are_raised_again(tmp_path: Path, bodies: Bodies) -> None:
    """What is unknown, and what takes too long, raises the SDK's exception with its code and data."""

    async def failure(call: Any) -> Any:
        with pytest.raises(Error) as caught:
            await call
        return caught.value.error, str(caught.value)

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            uri: Any = "shop://nothing"
            unknown = await failure(session.read_resource(uri))
            return unknown, await failure(session.call_tool("sleep", {}, read_timeout_seconds=SECOND))

    both(tmp_path / "run.jsonl", agent, bodies)


def test_progress_is_told_again(tmp_path: Path, bodies: Bodies) -> None:
    """A callback hears of the same steps, and what the agent calls in it is the agent's own call."""

    async def agent() -> Any:
        heard: list[Any] = []

        async def told(*progress: Any) -> None:
            heard.append((*progress, await ask_warehouse("progress")))

        async with connected(shop(bodies)) as session:
            result = await session.call_tool("price", {"item": "tea"}, progress_callback=told)
            await asyncio.sleep(0.05)
        return result, heard

    replayed = both(tmp_path / "run.jsonl", agent, bodies)
    assert len(replayed.value[1]) == 2


@pytest.mark.filterwarnings("ignore:The sampling capability is deprecated")
def test_what_a_server_calls_in_this_process_stands_below_its_tool(tmp_path: Path, bodies: Bodies) -> None:
    """Tools and samples that a server asks for come of the call, of that one also where there are two."""

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            calls = [session.call_tool("price", {"item": "tea"}), session.call_tool("advice", {"topic": "x"})]
            return await asyncio.gather(*calls)

    path = tmp_path / "run.jsonl"
    both(path, agent, bodies)
    addresses = {call.address for call in read_run(path).walk()}
    assert {"test#1/price#1/ask_warehouse#1", "test#1/advice#1/think#1"} < addresses


def test_a_cancelled_call_is_cancelled_again(tmp_path: Path, bodies: Bodies) -> None:
    """The agent gives up on a call, in the replay too, and goes on."""

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.call_tool("sleep", {}), 0.2)
            return await session.call_tool("price", {"item": "tea"})

    both(tmp_path / "run.jsonl", agent, bodies)


def test_tools_of_equal_names_are_told_apart_by_their_server(tmp_path: Path, bodies: Bodies) -> None:
    """Two servers have the same tool; in the replay the agent asks them the other way round."""
    turned = False

    async def agent() -> Any:
        north, south = shop(bodies, "north"), shop(bodies, "south")
        async with connected(north) as one, connected(south) as two:
            results = {}
            for name, session in [("two", two), ("one", one)] if turned else [("one", one), ("two", two)]:
                results[name] = await session.call_tool("price", {"item": "tea"})
            return results

    path = tmp_path / "run.jsonl"
    record(path, agent)
    calls = [call.input for call in read_run(path).walk() if call.name == "price"]
    assert [call["mcp.server"] for call in calls] == ["north", "south"]
    turned = True
    replayed = stepfork.replay(path, agent)
    assert [call.address for call in made(replayed, "price")] == ["test#1/price#2", "test#1/price#1"]
    assert [call.drifted for call in made(replayed, "price")] == [False, False]


def test_another_result_is_given_as_json_or_as_an_object(tmp_path: Path, bodies: Bodies) -> None:
    """An override is what the server might have sent, or the object that the SDK makes of it."""

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            return await session.call_tool("price", {"item": "tea"})

    path = tmp_path / "run.jsonl"
    result = record(path, agent)
    sent = {"content": [{"type": "text", "text": "9"}], "structuredContent": {"result": 9}}
    replayed = stepfork.replay(path, agent, override={"price#1": sent})
    assert type(replayed.value) is type(result)
    assert replayed.value.content[0].text == "9"
    assert stepfork.replay(path, agent, override={"price#1": replayed.value}).value == replayed.value


def test_a_call_that_runs_live_reaches_the_server(tmp_path: Path, bodies: Bodies) -> None:
    """Then the server starts, and is greeted, for that call alone; the others are answered."""

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            tea = await session.call_tool("price", {"item": "tea"})
            return tea, await session.call_tool("picture")

    path = tmp_path / "run.jsonl"
    saw = record(path, agent)
    bodies.ran.clear()
    assert stepfork.replay(path, agent, live={"price"}).value == saw
    assert bodies.ran == ["lifespan", "price"]


def test_a_call_that_was_not_recorded_stops_the_replay(tmp_path: Path, bodies: Bodies) -> None:
    """Nothing is sent, no server starts."""
    more = False

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            await session.call_tool("price", {"item": "tea"})
            if more:
                await session.call_tool("price", {"item": "coffee"})

    path = tmp_path / "run.jsonl"
    record(path, agent)
    more = True
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
    assert ran == 0
    assert stops(replayed) == ["price#2"]


def test_a_session_that_was_there_before_the_replay_is_not_used(tmp_path: Path, bodies: Bodies) -> None:
    """What an application opened when it started is answered from the recording as well."""

    async def agent(session: Any) -> Any:
        return await session.call_tool("price", {"item": "tea"})

    async def main(path: Path) -> Any:
        async with connected(shop(bodies)) as session:
            with stepfork.run("test", path=path):
                saw = await agent(session)
            bodies.ran.clear()
            replayed = await stepfork.areplay(path, agent, session=session)
            assert bodies.ran == []
            live = await session.call_tool("price", {"item": "tea"})
            assert bodies.ran == ["price"]
            return saw, replayed.value, live

    saw, again, live = asyncio.run(main(tmp_path / "run.jsonl"))
    assert saw == again == live


def test_nothing_changes_where_nothing_is_recorded(bodies: Bodies) -> None:
    """Without a run a client is as it ever was."""

    async def agent() -> Any:
        async with connected(shop(bodies)) as session:
            return await session.call_tool("price", {"item": "tea"})

    assert asyncio.run(agent()).content[0].text == "3"
    assert bodies.ran == ["lifespan", "price"]


def test_servers_that_are_greeted_at_once_are_told_apart(tmp_path: Path, bodies: Bodies) -> None:
    """Sessions that open side by side each get the answers of their own server."""

    async def ask(name: str) -> Any:
        async with connected(shop(bodies, name)) as session:
            return name, await session.call_tool("price", {"item": name})

    async def agent() -> Any:
        return await asyncio.gather(ask("north"), ask("southern"), ask("east"))

    both(tmp_path / "run.jsonl", agent, bodies)


@pytest.mark.skipif(not IS_NEW, reason="the older SDK has no such request")
def test_listening_stops_a_replay(tmp_path: Path, bodies: Bodies) -> None:
    """It is not recorded; a replay says so, and waits for nobody."""

    async def agent() -> Any:
        async with Client(shop(bodies)) as client, client.listen(tools_list_changed=True):
            return await client.call_tool("price", {"item": "tea"})

    path = tmp_path / "run.jsonl"
    record(path, agent)
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(path, agent))
    assert ran == 0
    assert stops(replayed) == ["mcp.subscriptions.listen#1"]
