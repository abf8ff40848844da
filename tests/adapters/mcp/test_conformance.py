"""The adapter of MCP keeps what adapters promise, as their authors check it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mcp.client import sse, stdio, streamable_http

from adapters.mcp.test_sessions import connected, shop
from replays import Bodies
from stepfork.adapters._switch import _named, switched_on
from stepfork.testing import Check, Sample, adapter_checks


class Unplugged(Bodies):
    """Raises where anything of the server runs."""

    is_on = False

    def __init__(self) -> None:
        self.ran = self  # type: ignore[assignment]

    def append(self, what: str) -> None:
        """Note that a body runs."""
        if self.is_on:
            raise AssertionError(f"{what} ran")


BODIES = Unplugged()


@contextmanager
def unplugged() -> Iterator[None]:
    """Nothing of the server runs."""
    BODIES.is_on = True
    yield
    BODIES.is_on = False


async def asked(name: str, **arguments: Any) -> Any:
    """Ask a server in this process for one tool."""
    async with connected(shop(BODIES)) as session:
        return await session.call_tool(name, arguments)


async def read(uri: Any) -> Any:
    """Ask it for a resource."""
    async with connected(shop(BODIES)) as session:
        try:
            return await session.read_resource(uri)
        except Exception as error:
            return repr(error)


async def both() -> Any:
    """Ask it for two tools at once."""
    async with connected(shop(BODIES)) as session:
        return await asyncio.gather(
            session.call_tool("price", {"item": "coffee"}), session.call_tool("picture", {})
        )


HELLO = ("mcp.initialize",)
SAMPLES = {
    "a tool": Sample(lambda: asked("price", item="tea"), records=(*HELLO, "price", "mcp.tools.list")),
    "a tool that is refused": Sample(lambda: asked("price", item=7), records=(*HELLO, "price")),
    "a resource": Sample(lambda: read("shop://rules"), records=(*HELLO, "mcp.resources.read")),
    "no resource": Sample(lambda: read("shop://none"), records=(*HELLO, "mcp.resources.read")),
}
CHECKS = adapter_checks(_named("mcp"), SAMPLES, unplugged=unplugged)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_adapter_keeps_its_promises(check: Check) -> None:
    """One promise after the other."""
    check()


def test_all_is_put_back_when_it_is_switched_off() -> None:
    """The functions behind the SDK's context managers are the very same as before."""
    managers = [stdio.stdio_client, sse.sse_client, streamable_http.streamable_http_client]

    def behind() -> list[Any]:
        return [cell.cell_contents for each in managers for cell in each.__closure__ or ()]

    before = behind()
    assert all(each.__wrapped__ in before for each in managers)
    with switched_on(["mcp"]):
        assert not set(behind()) & {each.__wrapped__ for each in managers}
    assert behind() == before
