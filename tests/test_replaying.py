"""The block form of a replay."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stepfork
from stepfork.errors import UnrecordedCall, UnusedCalls


@stepfork.tool
def sync(key: str) -> str:
    """Answer a call."""
    return f"sync {key}"


@stepfork.tool
async def asynchronous(key: str) -> str:
    """Answer a call later."""
    return f"async {key}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the recording is."""
    return tmp_path / "run.jsonl"


def test_a_block_answers_the_calls_in_it(path: Path) -> None:
    """The block form stands where the recorded root stood, and knows what is left."""
    with stepfork.run("x", path=path):
        before = [sync("a"), sync("b")]
    with stepfork.replaying(path) as run:
        assert sync("a") == before[0]
        assert run.unused == ["x#1/sync#2"]
        assert sync("b") == before[1]


def test_leaving_a_block_raises_for_what_is_missing_and_what_is_left(path: Path) -> None:
    """A call without answer, then a recorded one that was not made; another exception stays first (B28)."""
    with stepfork.run("x", path=path):
        sync("a")
    with pytest.raises(UnrecordedCall, match="sync#2") as caught, stepfork.replaying(path):
        _ = sync("a"), sync("z")
    assert caught.value.address == "x#1/sync#2"
    with pytest.raises(UnusedCalls, match="1 recorded call was not made") as left, stepfork.replaying(path):
        pass
    assert left.value.unused == ["x#1/sync#1"]
    with pytest.raises(ZeroDivisionError), stepfork.replaying(path):
        _ = 1 / 0


def test_a_swallowed_stop_in_a_block_is_raised_at_its_end(path: Path) -> None:
    """The stop is noted whatever the code in the block makes of it (B27)."""

    async def block() -> None:
        async with stepfork.replaying(path):
            await asyncio.gather(asynchronous("z"), return_exceptions=True)

    with stepfork.run("x", path=path):
        pass
    with pytest.raises(UnrecordedCall, match="asynchronous#1"):
        asyncio.run(block())
