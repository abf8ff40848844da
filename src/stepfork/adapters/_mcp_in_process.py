"""MCP servers in the agent's own process: they are the world too, and in a replay none of them starts."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio

from stepfork._context import running
from stepfork.adapters._mcp import unanswered
from stepfork.adapters._mcp_connection import connection_to, is_replayed, runs_live

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from stepfork.adapters._patches import Patches


def hook_server(module: ModuleType, patches: Patches) -> None:
    """Hook servers, which clients of this process speak to through memory."""
    patches.wrap(module.Server, "run", _run_server)
    if hasattr(module.Server, "_handle_request"):
        patches.wrap(module.Server, "_handle_request", _handle_request)


def hook_client(module: ModuleType, patches: Patches) -> None:
    """Hook the client that calls a server of this process directly."""
    patches.wrap(module.Client, "_build_session", _build_session)


def _run_server(wrapped: Any, server: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if not is_replayed():
        return wrapped(*args, **kwargs)
    given = dict(kwargs)
    read = args[0] if args else given.pop("read_stream")

    async def wait() -> None:
        try:
            first = await read.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return
        await wrapped(_Begun(read, first), *args[1:], **given)

    return wait()


class _Begun:
    """A stream of which one message has been read already, which comes once more."""

    def __init__(self, inner: Any, first: Any) -> None:
        self._inner = inner
        self._first = [first]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> Any:
        return self._first.pop() if self._first else await self._inner.receive()

    def __aiter__(self) -> _Begun:
        return self

    async def __anext__(self) -> Any:
        return self._first.pop() if self._first else await anext(self._inner)

    async def __aenter__(self) -> _Begun:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._inner.aclose()


def _handle_request(wrapped: Any, server: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What the tools of the server call stands below the call that the client made."""
    connection = connection_to(args[2] if len(args) > 2 else kwargs.get("session"))
    message = args[0] if args else kwargs["message"]
    frame = None if connection is None else connection.frames.get(message.request_id)

    async def handle() -> Any:
        with running(frame):
            return await wrapped(*args, **kwargs)

    return wrapped(*args, **kwargs) if frame is None else handle()


def _build_session(wrapped: Any, client: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if not is_replayed():
        return wrapped(*args, **kwargs)
    from mcp.server import Server

    server = getattr(client.server, "_lowlevel_server", client.server)
    if not isinstance(server, Server) or client.mode == "legacy":
        return wrapped(*args, **kwargs)
    connect = client._connect

    async def build() -> Any:
        client._connect = lambda stack, *options: _not_yet(connect, stack, *options)
        try:
            return await wrapped(*args, **kwargs)
        finally:
            client._connect = connect

    return build()


async def _not_yet(connect: Any, stack: AsyncExitStack, *options: Any) -> _NoServerYet:
    await stack.enter_async_context(anyio.create_task_group())  # what is raised leaves it in a group, as ever
    return _NoServerYet(lambda stack: connect(stack, *options))


class _NoServerYet:
    """Stands for the client's end of a server that starts for the first call that runs live."""

    def __init__(self, connect: Callable[[AsyncExitStack], Any]) -> None:
        self._connect = connect
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._real: Any = None

    async def run(
        self, *handlers: Any, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Wait until it is wanted, then do what the real one does."""
        task_status.started()
        await self._wanted.wait()
        async with AsyncExitStack() as stack:
            self._real = await self._connect(stack)
            async with anyio.create_task_group() as group:
                await group.start(self._real.run, *handlers)
                self._ready.set()

    async def send_raw_request(self, method: str, *rest: Any) -> Any:
        """Ask the real one; a request that has no recorded answer ends the replay."""
        if self._real is None and not runs_live(None):
            await unanswered(method)
        self._wanted.set()
        await self._ready.wait()
        return await self._real.send_raw_request(method, *rest)

    async def notify(self, *notification: Any) -> None:
        """Tell the real one."""
        if self._real is not None:
            await self._real.notify(*notification)
