"""A shop as an MCP server, and the ways of a client to it, on either generation of the SDK."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

IS_NEW = metadata.version("mcp") >= "2"

WAYS = ("stdio", "http", "direct", "legacy") if IS_NEW else ("stdio", "http", "sse", "direct")
"""How a client reaches the server: as a process, over the network, or in its own process."""

_NEW_SERVER = "from mcp.server.mcpserver import MCPServer as Server"
_OLD_SERVER = "from mcp.server.fastmcp import FastMCP as Server"
_NEW_START = "server.run(sys.argv[1], **({'port': int(sys.argv[2])} if sys.argv[2:] else {}))"
_OLD_START = "server.settings.port = int((sys.argv + ['0', '0'])[2])\n        server.run(sys.argv[1])"

SERVER = f"""
    import asyncio
    import os
    import sys
    from contextlib import asynccontextmanager

    from bodies import ran
    {_NEW_SERVER if IS_NEW else _OLD_SERVER}


    @asynccontextmanager
    async def lifespan(_server):
        if "BODIES_RAISE" in os.environ:
            ran("lifespan")
        yield {{}}


    server = Server("shop", lifespan=lifespan)


    @server.tool()
    def price(order_id: str) -> dict[str, int]:
        ran("price")
        return {{"total": 120}}


    @server.tool()
    async def stock(item: str) -> int:
        ran("stock")
        await asyncio.sleep(0.01)
        return len(item)


    @server.tool()
    def customer(name: str) -> str:
        ran("customer")
        raise LookupError(f"no customer {{name}}")


    if __name__ == "__main__":
        {_NEW_START if IS_NEW else _OLD_START}
"""

_NEW_CONNECT = """
    import os
    import sys
    from contextlib import asynccontextmanager
    from pathlib import Path

    from mcp import Client, MCPError as Error, StdioServerParameters

    URL = os.environ.get("SHOP_URL", "http://127.0.0.1:9")


    def target(way):
        if way == "stdio":
            arguments = [str(Path(__file__).parent / "shop.py"), "stdio"]
            return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        if way == "http":
            return f"{URL}/mcp"
        from shop import server

        return server


    @asynccontextmanager
    async def connected(way):
        mode = "legacy" if way == "legacy" else "auto"
        async with Client(target(way), mode=mode) as client:
            yield client
"""

_OLD_CONNECT = """
    import os
    import sys
    from contextlib import asynccontextmanager
    from pathlib import Path

    from mcp import ClientSession, McpError as Error, StdioServerParameters
    from mcp.client.sse import sse_client
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.memory import create_connected_server_and_client_session

    URL = os.environ.get("SHOP_URL", "http://127.0.0.1:9")


    def transport(way):
        if way == "stdio":
            arguments = [str(Path(__file__).parent / "shop.py"), "stdio"]
            return stdio_client(
                StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
            )
        return sse_client(f"{URL}/sse") if way == "sse" else streamable_http_client(f"{URL}/mcp")


    @asynccontextmanager
    async def connected(way):
        if way == "direct":
            from shop import server

            async with create_connected_server_and_client_session(server) as session:
                yield session
            return
        async with transport(way) as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            yield session
"""

CONNECT = _NEW_CONNECT if IS_NEW else _OLD_CONNECT


@contextmanager
def serving(project: Path, way: str, aside: Path) -> Iterator[dict[str, str]]:
    """Start the server of a project, where a client reaches it over the network; says where."""
    if way not in ("http", "sse"):
        yield {}
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kind = "sse" if way == "sse" else "streamable-http"
    command = [sys.executable, "shop.py", kind, str(port)]
    with subprocess.Popen(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(aside)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_for(port)
            yield {"SHOP_URL": f"http://127.0.0.1:{port}"}
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server does not listen")
