"""What is stacked is recorded once: LangChain over the SDKs, and its tools over MCP."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import AzureChatOpenAI, ChatOpenAI, OpenAIEmbeddings

import stepfork
from adapters.langgraph.again import Bodies, labels
from adapters.provider import provider
from adapters.replies import asks, says
from stepfork._recording import read_run
from stepfork.adapters._switch import switched_on

pytestmark = pytest.mark.scenario


@pytest.fixture(autouse=True)
def everything() -> Iterator[None]:
    """Have all adapters on, as ``stepfork.instrument()`` has."""
    with switched_on(("openai", "anthropic", "httpx", "langchain", "langgraph", "mcp")):
        yield


REPLIES = [asks(("look", {"what": "x"})), says("one two")]


def models(url: str) -> list[Any]:
    """Return a model of LangChain on each SDK."""
    return [
        ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k"),
        ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k", use_responses_api=True),
        ChatAnthropic(model="m", base_url=url, api_key="k"),
    ]


NAMES = ["openai.chat.completions", "openai.responses", "anthropic.messages"]


@pytest.mark.parametrize("number", range(3), ids=NAMES)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_a_model_over_an_sdk(tmp_path: Path, bodies: Bodies, number: int, way: str) -> None:
    """Each request to the provider is one model call, and in a replay there is none."""
    from langchain_core.tools import tool

    @tool
    def look(what: str) -> str:
        """Look."""
        bodies.ran("look")
        return f"saw {what}"

    def agent(url: str) -> Any:
        graph = create_agent(models(url)[number], [look], name="stacked")
        state: Any = {"messages": [HumanMessage("go")]}

        async def told() -> Any:
            if way == "ainvoke":
                return (await graph.ainvoke(state))["messages"]
            return [part async for part, _ in graph.astream(state, stream_mode="messages")]

        if way == "invoke":
            return graph.invoke(state)["messages"]
        if way == "stream":
            return [part for part, _ in graph.stream(state, stream_mode="messages")]
        return asyncio.run(told())

    path = tmp_path / "run.jsonl"
    with provider(REPLIES) as server, stepfork.run("agent", path=path):
        url = server.url
        result = agent(url)
    name = NAMES[number] + (".stream" if "stream" in way else "")
    expected = ["stacked#1", *(f"stacked#1/{each}" for each in (f"{name}#1", "look#1", f"{name}#2"))]
    assert labels(read_run(path)) == expected
    assert len(server.asked) == 2
    bodies.forbidden = True
    replayed = stepfork.replay(path, lambda: agent(url))
    assert not replayed.frontiers
    assert not replayed.unused_calls
    assert [_said(message) for message in replayed.result] == [_said(message) for message in result]


def _said(message: Any) -> Any:
    return type(message).__name__, message.content, getattr(message, "tool_calls", None)


@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_class_below_one_on_an_sdk_is_a_model_by_itself(
    tmp_path: Path, bodies: Bodies, is_async: bool, is_cached: bool
) -> None:
    """It may answer without asking anybody; either way it is one call, and never runs in a replay."""

    class Cached(ChatOpenAI):
        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            bodies.ran("own")
            if is_cached:
                return ChatResult(generations=[ChatGeneration(message=AIMessage("kept"))])
            return super()._generate(*args, **kwargs)

        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            bodies.ran("own")
            if is_cached:
                return ChatResult(generations=[ChatGeneration(message=AIMessage("kept"))])
            return await super()._agenerate(*args, **kwargs)

    with provider([says("asked")]) as server:
        model = Cached(model="m", base_url=f"{server.url}/v1", api_key="k")

        def agent() -> Any:
            return (asyncio.run(model.ainvoke("x")) if is_async else model.invoke("x")).content

        path = tmp_path / "run.jsonl"
        with stepfork.run("agent", path=path):
            result = agent()
    assert result == ("kept" if is_cached else "asked")
    assert labels(read_run(path)) == ["Cached#1"]
    bodies.forbidden = True
    replayed = stepfork.replay(path, agent)
    assert (replayed.result, replayed.unused) == (result, [])


def test_embeddings_over_an_sdk(tmp_path: Path) -> None:
    """A request for embeddings is a model call of the SDK."""
    path = tmp_path / "run.jsonl"

    def agent(url: str) -> Any:
        asked = OpenAIEmbeddings(
            model="m", base_url=f"{url}/v1", api_key="k", check_embedding_ctx_length=False
        )
        return asked.embed_query("owls")

    with provider([says("x")]) as server, stepfork.run("agent", path=path):
        result = agent(server.url)
    replayed = stepfork.replay(path, lambda: agent(server.url))
    assert labels(read_run(path)) == ["openai.embeddings#1"]
    assert replayed.result == result


BUILT: dict[str, Any] = {
    "chat": lambda: ChatOpenAI(model="m", max_tokens=9).invoke("q").content,
    "stream": lambda: [each.content for each in ChatOpenAI(model="m").stream("q")],
    "bound": lambda: ChatOpenAI(model="m").bind_tools([]).with_retry().invoke("q").content,
    "async": lambda: asyncio.run(ChatOpenAI(model="m").ainvoke("q")).content,
    "by name": lambda: init_chat_model("openai:m").invoke("q").content,
    "responses": lambda: ChatOpenAI(model="m", use_responses_api=True).invoke("q").text,
    "embeddings": lambda: OpenAIEmbeddings(model="m", check_embedding_ctx_length=False).embed_query("q"),
    "azure": lambda: AzureChatOpenAI(azure_endpoint=os.environ["AT"], api_version="1").invoke("q").content,
    "anthropic": lambda: ChatAnthropic(model="m").invoke("q").content,
}


@pytest.mark.parametrize("name", BUILT)
def test_a_model_is_built_without_a_key_in_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where there is no key in the environment, LangChain would leave a model without its client."""
    path, keys = tmp_path / "run.jsonl", ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    with provider([says("one two")]) as server, stepfork.run("agent", path=path):
        for key in keys:
            monkeypatch.setenv(key, "sk-the-key-of-the-recording")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("AT", server.url)
        monkeypatch.setenv("OPENAI_API_VERSION", "1")
        if name == "azure":
            monkeypatch.delenv("OPENAI_BASE_URL")
        result = BUILT[name]()
    for key in keys:
        monkeypatch.delenv(key)
    replayed = stepfork.replay(path, BUILT[name])
    assert (replayed.error, replayed.result) == (None, result)
    assert [call.address for call in replayed.unused_calls] == []


SERVER = '''
import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP

server = FastMCP("shop")


@server.tool()
def price(sku: str) -> dict:
    """Tell a price."""
    with Path(sys.argv[1]).open("a") as file:
        file.write(sku)
    return {"sku": sku, "price": 5}


server.run()
'''


def test_a_tool_over_mcp(tmp_path: Path) -> None:
    """A tool of a server is one call; in a replay no server is started."""
    script, noted, path = tmp_path / "server.py", tmp_path / "noted.txt", tmp_path / "run.jsonl"
    script.write_text(SERVER, encoding="utf-8")
    started = {"command": sys.executable, "args": [str(script), str(noted)], "transport": "stdio"}

    async def agent() -> Any:
        (price,) = await MultiServerMCPClient({"shop": started}).get_tools()
        return await price.ainvoke({"sku": "S-1"})

    with stepfork.run("agent", path=path):
        result = asyncio.run(agent())
    calls = [call for call in read_run(path).walk() if call.kind == "tool"]
    assert sum(call.name.endswith("price") for call in calls) == 1
    assert noted.read_text(encoding="utf-8") == "S-1"
    script.unlink()
    replayed = stepfork.replay(path, agent)
    assert not replayed.frontiers
    assert replayed.result == result
    assert noted.read_text(encoding="utf-8") == "S-1"
