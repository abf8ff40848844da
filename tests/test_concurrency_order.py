"""Calls of several tasks and threads stand in one order, whichever of them is faster this time."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import anyio
import pytest

import stepfork
from replays import made, record
from stepfork._replay.result import Replayed


@stepfork.tool
def get(key: str) -> str:
    return f"got {key}"


@stepfork.tool
def put(key: str) -> str:
    return f"put {key}"


@stepfork.step
def job(key: str) -> str:
    return get(key)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    gc.freeze()  # a replay ends with a collection: of all that pytest holds, 300 times
    yield tmp_path / "run.jsonl"
    gc.unfreeze()


def drawn(run: Replayed) -> str:
    """Every call in its place, with its arguments and how it ended."""
    return "\n".join(f"{call.address} {call.input} {call.outcome.status}" for call in run.run.walk())


def drawings(path: Path, agent: Callable[[], Any], times: int, **options: Any) -> set[str]:
    """The different outcomes of so many replays."""
    return {drawn(stepfork.replay(path, agent, **options)) for _ in range(times)}


def jittered(act: Callable[[str], Any], key: str) -> Any:
    time.sleep(random.random() / 2000)
    return act(key)


def in_executor(act: Callable[[str], Any], keys: Iterable[str]) -> None:
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(partial(jittered, act), keys))


def in_old_pool(act: Callable[[str], Any], keys: Iterable[str]) -> None:
    with ThreadPool(3) as pool:
        pool.map(partial(jittered, act), keys, chunksize=1)


def in_anyio(act: Callable[[str], Any], keys: Iterable[str]) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(anyio.to_thread.run_sync, jittered, act, key)

    asyncio.run(main())


def in_to_thread(act: Callable[[str], Any], keys: Iterable[str]) -> None:
    async def main() -> None:
        await asyncio.gather(*(asyncio.to_thread(jittered, act, key) for key in keys))

    asyncio.run(main())


def in_tasks(act: Callable[[str], Any], keys: Iterable[str]) -> None:
    async def one(key: str) -> None:
        await asyncio.sleep(random.random() / 2000)
        act(key)

    async def main() -> None:
        await asyncio.gather(*map(one, keys))

    asyncio.run(main())


SPREADS = [in_executor, in_old_pool, in_anyio, in_to_thread, in_tasks]


@pytest.mark.slow
def test_tools_in_a_pool_stand_in_the_recorded_order_in_300_replays(path: Path) -> None:
    """Their recorded spans need not cross: one job may have ended before another was begun."""

    def agent() -> None:
        in_executor(get, "abcdef")
        in_executor(lambda key: (get(key), put(key)), "gh")

    record(path, agent)
    assert len(drawings(path, agent, 300)) == 1


@pytest.mark.parametrize("spread", SPREADS, ids=lambda spread: spread.__name__)
def test_recorded_and_new_calls_of_every_kind_of_pool_keep_one_order(
    path: Path, spread: Callable[..., None]
) -> None:
    """What the caller does before and after the pool stays around what the pool does."""

    def agent(keys: str, *, is_new: bool = False) -> None:
        put("first")
        if is_new:
            put("setup")
        spread(get, keys)
        spread(job, keys)
        if is_new:
            put("done")
        put("last")

    record(path, lambda: agent("abcd"))
    seen = drawings(path, lambda: agent("xabycd", is_new=True), 12, override={"get": "stub", "put": "stub"})
    assert len(seen) == 1
    lines = [line for line in seen.pop().splitlines() if "/job" not in line and "get" not in line][1:]
    assert [line.partition("'key': ")[2].partition("}")[0] for line in lines] == [
        "'first'",
        "'setup'",
        "'done'",
        "'last'",
    ]


def test_new_calls_of_a_pool_stand_between_what_the_caller_did(path: Path) -> None:
    """Among each other they stand by their arguments."""

    def agent() -> None:
        put("before")
        in_executor(get, "cab")
        put("after")

    record(path, lambda: None)
    run = stepfork.replay(path, agent, override={"get": "stub", "put": "stub"})
    assert [call.input["key"] for call in made(run)] == ["before", "a", "b", "c", "after"]


def test_what_one_job_does_in_another_order_is_seen(path: Path) -> None:
    """Only between jobs no order holds."""

    def agent(*acts: Callable[[str], str]) -> None:
        in_executor(lambda key: [act(key) for act in acts], "ab")

    record(path, lambda: agent(get, put))
    run = stepfork.replay(path, lambda: agent(put, get))
    for key in "ab":
        assert [call.name for call in made(run) if call.input["key"] == key] == ["put", "get"]


def test_what_the_caller_does_in_another_order_is_seen_beside_a_pool(path: Path) -> None:
    """The caller's own calls keep the order in which it makes them."""

    def agent(*keys: str) -> None:
        put(keys[0])
        in_executor(get, "ab")
        put(keys[1])

    record(path, lambda: agent("one", "two"))
    run = stepfork.replay(path, lambda: agent("two", "one"))
    assert [call.input["key"] for call in made(run, "put")] == ["two", "one"]


def test_steps_of_a_pool_whose_inputs_all_changed_keep_one_order(path: Path) -> None:
    """None of them is recorded as it is now: they stand by their inputs."""

    def agent(keys: str) -> None:
        def quiet(key: str) -> None:
            with suppress(BaseException):
                job(key)

        in_executor(quiet, keys)

    record(path, lambda: agent("abcd"))
    assert len(drawings(path, lambda: agent("wxyz"), 30)) == 1
