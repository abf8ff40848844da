"""The ways to an MCP server: in a replay none is gone until a call runs live."""

from __future__ import annotations

import inspect
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from stepfork._served import served_later
from stepfork.adapters._boundary import give_up
from stepfork.adapters._credentials import hide, in_command, in_headers, in_url
from stepfork.adapters._mcp import mcp_frame, unanswered
from stepfork.adapters._mcp_connection import SERVER, is_replayed, mark, runs_live
from stepfork.adapters._mcp_places import hidden_parts, place_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from types import ModuleType

    from stepfork.adapters._patches import Patches


def hook_stdio(module: ModuleType, patches: Patches) -> None:
    """Hook the client that starts a server as a process."""
    _replace(patches, module.stdio_client, connects=True)


def hook_sse(module: ModuleType, patches: Patches) -> None:
    """Hook the client of a server that sends events."""
    _replace(patches, module.sse_client, connects=True)


def hook_websocket(module: ModuleType, patches: Patches) -> None:
    """Hook the client of a web socket."""
    _replace(patches, module.websocket_client, connects=True)


def hook_http(module: ModuleType, patches: Patches) -> None:
    """Hook the client of a server on HTTP; it connects with its first request."""
    old = getattr(module, "streamablehttp_client", None)
    new = getattr(module, "streamable_http_client", None)
    _replace(patches, new or old, connects=False, more=() if old is None else (lambda: None,))


def _replace(patches: Patches, manager: Any, *, connects: bool, more: tuple[Any, ...] = ()) -> None:
    """Have the function behind a context manager exchanged, wherever the manager was imported to."""
    while not inspect.isasyncgenfunction(manager.__wrapped__):
        manager = manager.__wrapped__
    original = manager.__wrapped__
    (cell,) = (each for each in manager.__closure__ if each.cell_contents is original)

    async def transport(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        async with _connected(original, args, kwargs, connects=connects, more=more) as streams:
            yield streams

    def restore() -> None:
        if cell.cell_contents is transport:
            cell.cell_contents = original

    cell.cell_contents = transport
    patches.when_undone(restore)


@asynccontextmanager
async def _connected(
    original: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, connects: bool, more: tuple[Any, ...]
) -> AsyncGenerator[Any, None]:
    place = _place(args, kwargs)
    frame = mcp_frame(lambda: ("mcp.connect", {SERVER: place})) if connects else None
    if frame is not None and frame.answer is not None:
        await served_later(frame.answer)
    if is_replayed() and not runs_live(frame):
        async with _nowhere_yet(original, args, kwargs) as (read, write):
            mark(read, place)
            yield (read, write, *more)
        return
    try:
        async with asynccontextmanager(original)(*args, **kwargs) as streams:
            mark(streams[0], place)
            if frame is not None:
                frame.returned(None, "value")
            yield streams
    except BaseException as error:
        if frame is not None and not frame.is_ended:
            frame.raised(error, "value")
        raise


def _place(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Say where the server is, and have the secrets hidden that it is reached with: errors name them too."""
    target, *more = args or [kwargs.get("server", kwargs.get("url"))]
    try:
        if hasattr(target, "command"):
            hide(in_command(str(target.command), target.args or (), target.env or {}), _SERVER)
        else:
            headers = more[0] if more else kwargs.get("headers")
            client = getattr(kwargs.get("http_client"), "headers", None)
            hide([*in_url(str(target)), *hidden_parts(str(target))], _SERVER)
            hide([*in_headers(dict(headers or {})), *in_headers(dict(client or {}))], _SERVER)
        return place_of(target)
    except Exception as fault:
        give_up(fault)
        return "*"


_SERVER: Final = "MCP server"


@asynccontextmanager
async def _nowhere_yet(
    original: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Give streams that lead nowhere, and to the server from the first message that is sent after all.

    As of the real transports what is raised in the block leaves it in one group.
    """
    to_server, from_client = anyio.create_memory_object_stream[Any](math.inf)
    to_client, from_server = anyio.create_memory_object_stream[Any](math.inf)

    async def connect() -> None:
        try:
            first = await from_client.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return
        async with asynccontextmanager(original)(*args, **kwargs) as (read, write, *_):
            await write.send(first)
            async with anyio.create_task_group() as both:
                both.start_soon(carry, from_client, write)
                both.start_soon(carry, read, to_client)

    async with to_server, from_client, to_client, from_server, anyio.create_task_group() as group:
        group.start_soon(connect)
        try:
            yield from_server, _ToServer(to_server)
        finally:
            group.cancel_scope.cancel()


class _ToServer:
    """Takes what calls send that run live; nothing else is to get anywhere."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._is_open = False

    async def send(self, message: Any) -> None:
        """Send it on; a request that has no recorded answer ends the replay."""
        self._is_open = self._is_open or runs_live(None)
        if self._is_open:
            await self._inner.send(message)
            return
        content = getattr(message.message, "root", message.message)
        if hasattr(content, "method") and hasattr(content, "id"):
            await unanswered(content.method)

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Nothing more is sent."""
        await self._inner.aclose()

    def close(self) -> None:
        """Nothing more is sent."""
        self._inner.close()


async def carry(source: Any, target: Any) -> None:
    """Send on what comes."""
    async for message in source:
        await target.send(message)
