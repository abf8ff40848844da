"""Secrets that a client reaches a server with: none is in any byte that is recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

import stepfork
from adapters.mcp_shop import IS_NEW
from adapters.provider import provider
from adapters.replies import Reply
from replays import made, record
from stepfork._recording import read_run
from stepfork.adapters._switch import switched_on

if IS_NEW:
    from mcp import Client
    from mcp.client.sse import sse_client
else:
    import httpx
    from mcp import ClientSession
    from mcp.client.sse import sse_client
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

SERVER = """
import os
import sys

{start}
server = Server("shop")


@server.tool()
def whoami() -> list[str]:
    return [*sys.argv[1:], os.environ["SHOP_API_KEY"]]


server.run("stdio")
""".format(
    start="from mcp.server.mcpserver import MCPServer as Server"
    if IS_NEW
    else "from mcp.server.fastmcp import FastMCP as Server"
)


def secrets(kind: str) -> dict[str, str]:
    """Return made-up secrets, others for each kind."""
    places = ("option", "assigned", "password", "variable", "header", "part", "query")
    return {place: f"{kind}-{place}-Zx84" for place in places} | {"argument": f"{kind[0]}8a7c2Kd0e1b4Qz3"}


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """Have the adapter on while a run is recorded."""
    with switched_on(["mcp"]):
        yield


def shown(folder: Path, planted: dict[str, str]) -> list[str]:
    """Return which of the secrets stand in a file of a run."""
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert files
    return [
        name for name, secret in planted.items() if any(secret.encode() in data for data in files.values())
    ]


@asynccontextmanager
async def started(server: Path, planted: dict[str, str]) -> AsyncIterator[Any]:
    """Start the server with a secret in each place that a command has for one."""
    words = ["--api-key", planted["option"], f"SHOP_TOKEN={planted['assigned']}", planted["argument"]]
    login = f"postgres://bob:{planted['password']}@db/prod"
    target = StdioServerParameters(
        command=sys.executable,
        args=[str(server), *words, login],
        env={"SHOP_API_KEY": planted["variable"]},
    )
    if IS_NEW:
        async with Client(target) as client:
            yield client
        return
    async with stdio_client(target) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


def test_a_command_shows_no_secret_and_neither_does_a_server_that_repeats_it(tmp_path: Path) -> None:
    """The place says which program it is; a replay with other secrets is answered the same (B43)."""
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    run = tmp_path / "run" / "run.jsonl"
    planted = secrets("first")

    async def agent() -> Any:
        async with started(server, planted) as session:
            result = await session.call_tool("whoami", {})
            return len(json.dumps(result.content[0].text)) > 0

    first = planted
    assert record(run, agent) is True
    assert shown(run.parent, first) == []
    places = {call.input.get("mcp.server") for call in read_run(run).walk()} - {None, "shop"}
    assert places == {f"{Path(sys.executable).name} server.py --api-key"}
    assert run.read_text().count("[redacted-") >= 5
    planted = secrets("other")
    replayed = stepfork.replay(run, agent)
    assert (replayed.value, replayed.frontiers) == (True, [])
    assert [call.drifted for call in made(replayed)] == [False] * len(made(replayed))


def reach(url: str, headers: dict[str, str], way: str) -> Any:
    """Return what connects to a URL in one of the ways over the network."""
    if way == "sse":
        return sse_client(url, headers)
    if IS_NEW:
        return Client(url)
    return streamable_http_client(url, http_client=httpx.AsyncClient(headers=headers))


@pytest.mark.parametrize("way", ["sse", "http"])
def test_a_url_shows_no_secret_and_neither_does_the_error_that_names_it(tmp_path: Path, way: str) -> None:
    """Who is refused reads the whole URL in the error, password, path, query and all (B43)."""
    run = tmp_path / "run" / "run.jsonl"
    planted = secrets("first")

    @stepfork.step
    def note(text: str) -> int:
        return len(text)

    def parts(error: BaseException) -> str:
        inner = getattr(error, "exceptions", ())
        return str(error) + "".join(map(parts, inner))

    async def agent() -> Any:
        place = (
            f"{server.url.replace('://', '://bob:' + planted['password'] + '@')}/mcp/{planted['part']}/sse"
        )
        url = f"{place}?profile={planted['argument']}&api_key={planted['query']}"
        headers = {"Authorization": f"Bearer {planted['header']}"}
        try:
            async with reach(url, headers, way) as streams:
                if not IS_NEW:
                    async with ClientSession(*streams[:2]) as session:
                        await session.initialize()
        except Exception as error:
            note(parts(error) + f" at {url} with {headers}")
            return parts(error)

    repeats = Reply(body={"error": f"no such key: {planted['header']}"}, status=401)
    with provider(lambda _: repeats) as server:
        told = record(run, agent)
    assert planted["part"] in told or way == "http"
    assert shown(run.parent, planted) == []
    assert "/mcp/*/sse" in run.read_text()


def test_a_recording_that_says_more_of_the_place_is_replayed(tmp_path: Path) -> None:
    """Those of earlier versions have the arguments of the command in it."""
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    run, planted = tmp_path / "run.jsonl", secrets("first")

    async def agent() -> Any:
        async with started(server, planted) as session:
            return len((await session.list_tools()).tools)

    assert record(run, agent) == 1
    place = f"{Path(sys.executable).name} server.py --api-key"
    assert f'"{place}"' in run.read_text()
    run.write_text(run.read_text().replace(f'"{place}"', f'"{place} plain stdio 8080"'))
    replayed = stepfork.replay(run, agent)
    assert (replayed.value, replayed.frontiers) == (1, [])
