"""Agents whose tools really run in parallel and that go by what comes first.

Each puts what it learns into its next prompt in the order in which it arrives. Their runs are kept in
``tests/recordings/parallel``, made by ``python tests/parallel_agents.py`` with real latencies that differ
from call to call.
"""

from __future__ import annotations

import asyncio
import os
import queue
import random
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import stepfork

Messages = list[dict[str, Any]]
RECORDINGS = Path(__file__).parent / "recordings" / "parallel"
TOPICS = ["rent", "power", "phone", "food", "fuel", "tax"]
ran: list[str] = []
"""The tools and models whose bodies ran: in a replay none."""


class Unreachable(Exception):
    def __init__(self, topic: str) -> None:
        super().__init__(f"nobody answers about {topic}")
        self.topic = topic


def latency() -> float:
    return random.uniform(0.002, 0.03)


@stepfork.tool
async def fetch(topic: str, page: int = 1) -> dict[str, Any]:
    ran.append("fetch")
    await asyncio.sleep(latency())
    return {"topic": topic, "page": page, "found": random.randrange(1000)}


@stepfork.tool
def read(topic: str, page: int = 1) -> dict[str, Any]:
    ran.append("read")
    time.sleep(latency())
    return {"topic": topic, "page": page, "found": random.randrange(1000)}


@stepfork.tool
async def unsteady(topic: str) -> str:
    ran.append("unsteady")
    await asyncio.sleep(latency())
    if topic in ("phone", "fuel"):
        raise Unreachable(topic)
    return topic.upper()


@stepfork.model
async def ask(messages: Messages) -> str:
    ran.append("ask")
    await asyncio.sleep(latency())
    return f"reply {len(messages)}.{random.randrange(1000)}"


@stepfork.model
def think(messages: Messages) -> str:
    ran.append("think")
    time.sleep(latency())
    return f"thought {len(messages)}.{random.randrange(1000)}"


@stepfork.model
async def tell(topic: str) -> AsyncIterator[str]:
    ran.append("tell")
    for word in range(4):
        await asyncio.sleep(latency() / 3)
        yield f"{topic}-{word}.{random.randrange(1000)} "


@stepfork.model
def say(topic: str) -> Iterator[str]:
    ran.append("say")
    for word in range(4):
        time.sleep(latency() / 3)
        yield f"{topic}-{word}.{random.randrange(1000)} "


def told(content: Any, role: str = "tool") -> dict[str, Any]:
    return {"role": role, "content": content}


async def rounds(messages: Messages, one_round: Callable[[int], Awaitable[None]]) -> str:
    """Ask, have the tools run, and ask again."""
    for number in range(2):
        messages.append(told(await ask(messages), "assistant"))
        await one_round(number)
    return await ask(messages)


@stepfork.step
async def gathered(topics: list[str]) -> str:
    messages: Messages = []

    async def one(topic: str, page: int) -> None:
        messages.append(told(await fetch(topic, page)))

    async def one_round(number: int) -> None:
        await asyncio.gather(*(one(topic, number) for topic in topics))

    return await rounds(messages, one_round)


@stepfork.step
async def task_group(topics: list[str]) -> str:
    messages: Messages = []

    async def one(topic: str, page: int) -> None:
        first = await fetch(topic, page)
        messages.append(told(first))
        messages.append(told(await fetch(f"{topic}/{first['found'] % 2}", page)))

    async def one_round(number: int) -> None:
        async with asyncio.TaskGroup() as group:
            for topic in topics:
                group.create_task(one(topic, number))

    return await rounds(messages, one_round)


@stepfork.step
async def completed(topics: list[str]) -> str:
    messages: Messages = []

    async def one_round(number: int) -> None:
        for result in asyncio.as_completed([fetch(topic, number) for topic in topics]):
            messages.append(told(await result))

    return await rounds(messages, one_round)


@stepfork.step
async def first_completed(topics: list[str]) -> str:
    messages: Messages = []

    async def one_round(number: int) -> None:
        tasks = [asyncio.create_task(fetch(topic, number)) for topic in topics]
        pending = set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            messages.extend(told(task.result()) for task in tasks if task in done)
            if len(messages) % 3 == 0:
                messages.append(told(await ask(messages), "assistant"))

    return await rounds(messages, one_round)


@stepfork.step
async def winner(topics: list[str]) -> list[str]:
    """The first two answers count; the others are cancelled."""
    messages: Messages = []
    for number in range(2):
        tasks = [asyncio.create_task(fetch(topic, number)) for topic in topics]
        pending = set(tasks)
        for _ in range(2):
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            messages.extend(told(task.result()) for task in tasks if task in done)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return [str(message["content"]["topic"]) for message in messages] + [await ask(messages)]


@stepfork.step
async def queue_workers(topics: list[str]) -> str:
    messages: Messages = []

    async def work(jobs: asyncio.Queue[str], page: int) -> None:
        while True:
            topic = await jobs.get()
            messages.append(told(await fetch(topic, page)))
            jobs.task_done()

    async def one_round(number: int) -> None:
        jobs: asyncio.Queue[str] = asyncio.Queue()
        for topic in topics:
            jobs.put_nowait(topic)
        workers = [asyncio.create_task(work(jobs, number)) for _ in range(3)]
        await jobs.join()
        for worker in workers:
            worker.cancel()

    return await rounds(messages, one_round)


@stepfork.step
async def limited(topics: list[str]) -> str:
    messages: Messages = []
    limit = asyncio.Semaphore(2)

    async def one(topic: str, page: int) -> None:
        async with limit:
            messages.append(told(await fetch(topic, page)))

    async def one_round(number: int) -> None:
        await asyncio.gather(*(one(topic, number) for topic in topics))

    return await rounds(messages, one_round)


@stepfork.step
async def sub_agent(topic: str, notes: list[Any]) -> str:
    found: Messages = []

    async def one(page: int) -> None:
        result = await fetch(topic, page)
        found.append(told(result))
        notes.append([topic, page, result["found"]])

    await asyncio.gather(*map(one, range(3)))
    return await ask(found)


@stepfork.step
async def nested(topics: list[str]) -> list[Any]:
    """Agents that fan out below an agent that fans out; all of them write into one list."""
    notes: list[Any] = []
    replies = await asyncio.gather(*(sub_agent(topic, list(notes)) for topic in topics[:2]))
    async with asyncio.TaskGroup() as group:
        for topic in topics[2:5]:
            group.create_task(sub_agent(topic, notes))
    return [*replies, await ask([told(note) for note in notes])]


@stepfork.step
async def votes(topics: list[str]) -> str:
    """Models in parallel, each asked something else; the prompt after holds what came, as it came."""
    messages: Messages = []

    async def one(topic: str) -> None:
        messages.append(told(await ask([told(topic, "user")]), topic))

    async def one_round(number: int) -> None:
        await asyncio.gather(*(one(f"{topic} {number}") for topic in topics))

    return await rounds(messages, one_round)


@stepfork.step
async def one_fails(topics: list[str]) -> str:
    messages: Messages = []

    async def one(topic: str) -> None:
        try:
            messages.append(told(await unsteady(topic)))
        except Unreachable as error:
            messages.append(told(str(error)))
            messages.append(told(await fetch(error.topic)))

    await asyncio.gather(*map(one, topics))
    await ask(messages)
    async with asyncio.TaskGroup() as group:  # ends the run: the first that fails takes the others with it
        for topic in topics:
            group.create_task(unsteady(topic))
    raise AssertionError("one of them fails")


@stepfork.step
async def streams(topics: list[str]) -> AsyncIterator[str]:
    """The pieces of several streams in one, as they come."""
    pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def one(topic: str) -> None:
        async for piece in tell(topic):
            await pieces.put(piece)
        await pieces.put(None)

    async with asyncio.TaskGroup() as group:
        for topic in topics[:3]:
            group.create_task(one(topic))
        left = 3
        while left:
            piece = await pieces.get()
            if piece is None:
                left -= 1
            else:
                yield piece


@stepfork.step
async def pipeline(topics: list[str]) -> str:
    """What one stage has found the next one takes up at once."""
    messages: Messages = []

    async def one(topic: str) -> dict[str, Any]:
        first = await fetch(topic)
        return await fetch(f"{topic}:{first['found']}", 2)

    for result in asyncio.as_completed(map(one, topics)):
        found = await result
        messages.append(told(found))
        messages.append(told(await ask(messages), "assistant"))
    return await ask(messages)


@stepfork.step
async def to_threads(topics: list[str]) -> str:
    messages: Messages = []

    def one(topic: str, page: int) -> None:
        messages.append(told(read(topic, page)))

    async def one_round(number: int) -> None:
        await asyncio.gather(*(asyncio.to_thread(one, topic, number) for topic in topics))

    return await rounds(messages, one_round)


@stepfork.step
async def mixed(topics: list[str]) -> str:
    """Tasks and threads beside each other."""
    messages: Messages = []
    loop = asyncio.get_running_loop()

    async def one(topic: str, page: int) -> None:
        messages.append(told(await fetch(topic, page)))
        messages.append(told(await asyncio.to_thread(read, topic, page)))

    def other(topic: str, page: int) -> None:
        messages.append(told(read(topic, -page)))

    async def one_round(number: int) -> None:
        await asyncio.gather(
            *(one(topic, number + 1) for topic in topics[:3]),
            *(loop.run_in_executor(None, other, topic, number + 1) for topic in topics[3:]),
        )

    return await rounds(messages, one_round)


@stepfork.step
def pool_map(topics: list[str]) -> list[Any]:
    messages: Messages = []

    def one(topic: str) -> int:
        result = read(topic)
        messages.append(told(result))
        return int(result["found"])

    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(one, topics))
    messages.append(told(think(messages), "assistant"))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, [f"{topic}!" for topic in topics]))
    return [numbers, think(messages)]


@stepfork.step
def pool_completed(topics: list[str]) -> str:
    messages: Messages = []
    with ThreadPoolExecutor(6) as pool:
        for number in range(2):
            for future in as_completed([pool.submit(read, topic, number) for topic in topics]):
                messages.append(told(future.result()))
                if len(messages) % 4 == 0:
                    messages.append(told(think(messages), "assistant"))
    return think(messages)


@stepfork.step
def pool_callbacks(topics: list[str]) -> str:
    messages: Messages = []

    def done(future: Future[dict[str, Any]]) -> None:
        messages.append(told(future.result()))

    with ThreadPoolExecutor(3) as pool:
        for topic in topics:
            pool.submit(read, topic).add_done_callback(done)
    return think(messages)


@stepfork.step
def threads(topics: list[str]) -> str:
    messages: Messages = []
    results: queue.Queue[dict[str, Any]] = queue.Queue()

    def one(topic: str) -> None:
        first = read(topic)
        results.put(first)
        results.put(read(topic, first["found"]))

    for topic in topics:
        threading.Thread(target=one, args=(topic,)).start()
    for _ in range(2 * len(topics)):
        messages.append(told(results.get()))
    return think(messages)


@stepfork.step
def thread_streams(topics: list[str]) -> list[str]:
    pieces: list[str] = []

    def one(topic: str) -> None:
        for piece in say(topic):
            pieces.append(piece)

    running = [threading.Thread(target=partial(one, topic)) for topic in topics[:3]]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return [*pieces, think([told(piece) for piece in pieces])]


@stepfork.step
def loops_in_threads(topics: list[str]) -> str:
    """An event loop in each of two threads."""
    messages: Messages = []

    async def one(topic: str) -> None:
        messages.append(told(await fetch(topic)))

    async def several(some: list[str]) -> None:
        await asyncio.gather(*map(one, some))

    running = [
        threading.Thread(target=lambda some=some: asyncio.run(several(some)))
        for some in (topics[::2], topics[1::2])
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return think(messages)


AGENTS: list[Callable[[list[str]], Any]] = [
    gathered,
    task_group,
    completed,
    first_completed,
    winner,
    queue_workers,
    limited,
    nested,
    votes,
    one_fails,
    streams,
    pipeline,
    to_threads,
    mixed,
    pool_map,
    pool_completed,
    pool_callbacks,
    threads,
    thread_streams,
    loops_in_threads,
]


async def _drawn(running: Any) -> None:
    if hasattr(running, "__aiter__"):
        async for _ in running:
            pass
    else:
        await running


def record(agent: Callable[[list[str]], Any], scratch: Path, path: Path) -> None:
    """Run an agent as its users would, and keep its run as ``path``; STEPFORK_DIR is ``scratch``."""
    with suppress(ExceptionGroup):
        running = agent(list(TOPICS))
        if hasattr(running, "__await__") or hasattr(running, "__aiter__"):
            asyncio.run(_drawn(running))
    (journal,) = (scratch / "runs").glob("*.jsonl")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(stepfork.export(journal))
    journal.unlink()


def main() -> None:
    import parallel_agents  # under the name that tests import it by

    with tempfile.TemporaryDirectory() as scratch:
        os.environ["STEPFORK_DIR"] = scratch
        for agent in parallel_agents.AGENTS:
            name = agent.__name__
            parallel_agents.record(agent, Path(scratch), RECORDINGS / f"{name}.jsonl")
            print(name)


if __name__ == "__main__":
    main()
