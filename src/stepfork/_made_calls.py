"""Makes calls of any kind and brings them to their end: one by one, or side by side."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepfork._codec import encode, type_name
from stepfork._plain import canonical

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True)
class Outcome:
    """What came of a call: its chunks if it is a stream, and how it ended."""

    chunks: list[Any] | None
    value: Any
    error: BaseException | None

    @property
    def key(self) -> bytes:
        """What two outcomes have in common exactly when they are the same."""
        error = self.error
        told = None if error is None else [type_name(type(error)), encode(list(error.args)).plain, str(error)]
        return canonical([encode(self.chunks).plain, encode(self.value).plain, told])

    @property
    def is_lossy(self) -> bool:
        """Whether it cannot be recorded as it is."""
        return encode(self.chunks).lossy or encode(self.value).lossy

    def __str__(self) -> str:
        return f"{self.chunks or ''}{repr(self.error) if self.error else repr(self.value)}"


def outcome_of(make: Callable[[], Any]) -> Outcome:
    """Make a call and bring it to its end."""
    try:
        result = make()
    except Exception as error:
        return Outcome(None, None, error)
    if inspect.isawaitable(result) or hasattr(result, "__aiter__"):
        return asyncio.run(_later(result))
    return _read(result)


def _read(result: Any) -> Outcome:
    if not hasattr(result, "__next__"):
        return Outcome(None, result, None)
    chunks: list[Any] = []
    while True:
        try:
            chunks.append(next(result))
        except StopIteration as stop:
            return Outcome(chunks, stop.value, None)
        except Exception as error:
            return Outcome(chunks, None, error)


async def _later(result: Any) -> Outcome:
    chunks: list[Any] | None = None
    try:
        if inspect.isawaitable(result):
            result = await result
        if not hasattr(result, "__aiter__"):
            return _read(result)
        chunks = []
        async for chunk in result:
            chunks.append(chunk)
    except Exception as error:
        return Outcome(chunks, None, error)
    return Outcome(chunks, None, None)


async def _made(make: Callable[[], Any]) -> Outcome:
    try:
        result = make()
    except Exception as error:
        return Outcome(None, None, error)
    return (
        await _later(result) if inspect.isawaitable(result) or hasattr(result, "__aiter__") else _read(result)
    )


def in_tasks(makes: list[Callable[[], Any]]) -> list[Outcome]:
    """Make them all in tasks of one event loop."""

    async def all_of_them() -> list[Outcome]:
        jobs: list[Awaitable[Outcome]] = [_made(make) for make in makes]
        return list(await asyncio.gather(*jobs))

    return asyncio.run(all_of_them())


def in_threads(makes: list[Callable[[], Any]]) -> list[Outcome]:
    """Make each in a thread of its own, which knows where it was started."""
    outcomes: dict[int, Outcome] = {}

    def work(number: int, make: Callable[[], Any]) -> None:
        outcomes[number] = outcome_of(make)

    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(work, number, make))
        for number, make in enumerate(makes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(len(makes))]
