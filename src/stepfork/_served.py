"""Serves a recorded outcome as the caller expects it: at once, awaited, iterated over, or as an object."""

from __future__ import annotations

import sys
import types
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from stepfork._context import Answer


def served(answer: Answer) -> Any:
    """Return what a plain function returned, in its recorded shape."""
    match answer.shape:
        case "awaitable":
            return served_later(answer)
        case "stream":
            return chunks(answer)
        case "astream":
            return served_chunks(answer)
        case "object":
            return ServedObject(answer)
        case "aobject":
            return ServedAsyncObject(answer)
        case _:
            if answer.turn is not None:
                answer.turn.take()
            return answer.value()


def chunks(answer: Answer) -> Generator[Any, Any, Any]:
    """Yield the recorded chunks; then return or raise what ended them."""
    turn = answer.turn
    for item in answer.items():  # each by itself: what the consumer sends or throws is no matter of theirs
        if turn is not None:
            turn.take()
        yield item
    if turn is not None:
        turn.take()
    return answer.value()


async def served_later(answer: Answer) -> Any:
    """Come to what a coroutine returned or raised."""
    await _cancellation(answer)
    await _one_turn()
    if answer.shape not in ("value", "awaitable"):
        return served(answer)
    if answer.turn is not None:
        await answer.turn.taken()
    return answer.value()


async def served_chunks(answer: Answer) -> AsyncGenerator[Any, Any]:
    """Yield the recorded chunks; then raise what ended them."""
    for item in answer.items():
        await _one_turn()
        if answer.turn is not None:
            await answer.turn.taken()
        yield item
    await _cancellation(answer)
    if answer.turn is not None:
        await answer.turn.taken()
    answer.value()


async def _cancellation(answer: Answer) -> None:
    """Wait for it, where the recorded call ended by it."""
    if answer.patience is not None:
        import asyncio

        await asyncio.sleep(answer.patience)


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let the event loop turn once, as any real call would; elsewhere than in asyncio do nothing."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if asyncio.current_task() is not None:
        yield


class _Served:
    """Stands for an object that a tool returned to be entered, iterated over and asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if f".{name}" in self._answer.parts:
            return self._next(f".{name}", lasts=True)
        if f".{name}()" in self._answer.parts:
            return partial(self._call, f".{name}()")
        raise self._answer.stop(f"nobody asked for its {name} when it was recorded")

    def _call(self, name: str, /, *_args: Any, **_kwargs: Any) -> Any:
        return self._next(name)

    def _next(self, name: str, *, lasts: bool = False) -> Any:
        """Return what the next such question was answered; an attribute has its last value for good."""
        answers = self._answer.parts[name]
        number = self._asked[name]
        self._asked[name] += 1
        if number >= len(answers) and not lasts:
            raise self._answer.stop(f"its {name[1:]} was called {len(answers)} times when it was recorded")
        return served(answers[min(number, len(answers) - 1)])

    def _entered(self, name: str) -> Any:
        return self._next(name) if name in self._answer.parts else self


class ServedObject(_Served):
    """The same for ``with`` and ``for``."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._chunks = chunks(answer)

    def __iter__(self) -> ServedObject:
        return self

    def __next__(self) -> Any:
        return next(self._chunks)

    def __enter__(self) -> Any:
        return self._entered(".__enter__()")

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""


class ServedAsyncObject(_Served):
    """The same for ``async with``, ``async for`` and ``await``."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._chunks = served_chunks(answer)

    def __aiter__(self) -> ServedAsyncObject:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._chunks)

    def __await__(self) -> Generator[None, None, Any]:
        yield from _one_turn()
        return self._entered(".__await__()")

    async def __aenter__(self) -> Any:
        await _one_turn()
        return self._entered(".__aenter__()")

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Nothing is open."""

    aclose = close
