"""Streams that are objects, as the SDKs of models return them: entered, iterated over and asked for more."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepfork
from recorded import Recorded
from recorded import record as record_sync
from replays import Bodies, record
from stepfork._codec import decode

bodies = Bodies()
WORDS = ["Re", "fund", "ed"]


class Stream:
    """What ``client.messages.stream()`` hands out on entry, sync and async."""

    request_id = "req-1"

    def __init__(self, words: list[str]) -> None:
        self.words = iter(words)
        self.taken: list[str] = []
        self.text_stream = self._texts()
        self.is_closed = False

    def _texts(self) -> Iterator[str]:
        for word in self:
            yield word.upper()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        bodies.ran.append("chunk")
        self.taken.append(next(self.words))
        return self.taken[-1]

    def get_final_message(self, prefix: str = "") -> str:
        return prefix + "".join([*self.taken, *self])

    def close(self) -> None:
        self.is_closed = True


class AsyncStream:
    """The same, asynchronously."""

    request_id = "req-1"

    def __init__(self, words: list[str]) -> None:
        self.words = iter(words)
        self.taken: list[str] = []
        self.text_stream = self._texts()
        self.is_closed = False

    async def _texts(self) -> AsyncIterator[str]:
        async for word in self:
            yield word.upper()

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> str:
        bodies.ran.append("chunk")
        await asyncio.sleep(0)
        try:
            self.taken.append(next(self.words))
        except StopIteration:
            raise StopAsyncIteration from None
        return self.taken[-1]

    async def get_final_message(self, prefix: str = "") -> str:
        return prefix + "".join([*self.taken, *[word async for word in self]])

    async def close(self) -> None:
        self.is_closed = True


class Manager:
    """Only there to be entered."""

    def __init__(self, entered: Any) -> None:
        self._entered = entered
        self._exits: list[Any] = []

    def __enter__(self) -> Any:
        return self._entered

    def __exit__(self, *exc_info: Any) -> None:
        self._exits.append(exc_info[0])
        self._entered.close()

    async def __aenter__(self) -> Any:
        await asyncio.sleep(0)
        return self._entered

    async def __aexit__(self, *exc_info: Any) -> None:
        self._exits.append(exc_info[0])
        await self._entered.close()


@stepfork.model
def ask(prompt: str) -> Any:
    """Return a context manager."""
    bodies.ran.append("ask")
    return Manager(Stream(WORDS) if prompt == "sync" else AsyncStream(WORDS))


@stepfork.model
def create(prompt: str) -> Any:
    """Return the stream itself."""
    bodies.ran.append("create")
    return Stream(WORDS)


@stepfork.model
async def acreate(prompt: str) -> Any:
    """Come to the stream itself."""
    bodies.ran.append("acreate")
    return AsyncStream(WORDS)


def entered() -> list[Any]:
    with ask("sync") as stream:
        return [*stream, stream.get_final_message(prefix=">"), stream.request_id]


def texts() -> list[Any]:
    with ask("sync") as stream:
        return [*stream.text_stream, stream.get_final_message()]


def returned() -> list[Any]:
    stream = create("sync")
    return [*stream, stream.request_id]


async def aentered() -> list[Any]:
    async with ask("async") as stream:
        return [
            *[word async for word in stream],
            await stream.get_final_message(prefix=">"),
            stream.request_id,
        ]


async def atexts() -> list[Any]:
    async with ask("async") as stream:
        return [*[word async for word in stream.text_stream], await stream.get_final_message()]


async def areturned() -> list[Any]:
    stream = await acreate("async")
    return [*[word async for word in stream], stream.request_id]


AGENTS: dict[Callable[[], Any], list[str]] = {
    entered: [*WORDS, ">Refunded", "req-1"],
    aentered: [*WORDS, ">Refunded", "req-1"],
    texts: ["RE", "FUND", "ED", "Refunded"],
    atexts: ["RE", "FUND", "ED", "Refunded"],
    returned: [*WORDS, "req-1"],
    areturned: [*WORDS, "req-1"],
}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_a_stream_object_is_recorded_and_replayed(tmp_path: Path, agent: Callable[[], Any]) -> None:
    """Entered or not, by its chunks, attributes and methods; nothing of it runs in the replay (B84)."""
    assert record(tmp_path / "run.jsonl", agent) == AGENTS[agent]

    replayed, ran = bodies.ran_in(lambda: stepfork.replay(tmp_path / "run.jsonl", agent))

    assert replayed.result == AGENTS[agent]
    assert ran == 0
    assert replayed.frontiers == []
    assert replayed.unused == []


def test_the_chunks_of_a_stream_object_are_those_of_the_call(tmp_path: Path) -> None:
    """What its attributes and methods gave stands below it (B84)."""
    recorded = record_sync(tmp_path / "run.jsonl", entered)

    call = recorded.call("ask#1")
    assert [decode(item) for item in call.outcome.items or ()] == WORDS
    assert (call.outcome.status, call.outcome.shape) == ("returned", "object")
    assert recorded.tree == [{"ask#1": [".get_final_message()#1", ".request_id#1"]}]
    assert recorded.inputs(".get_final_message()") == [{"prefix": ">"}]


def test_a_stream_object_stays_what_it_is(tmp_path: Path) -> None:
    """Its class, its attributes and its laziness are as before; it is left once (B84)."""

    def agent() -> None:
        before = len(bodies.ran)
        manager = ask("sync")
        assert isinstance(manager, Manager)
        with manager as stream:
            assert isinstance(stream, Stream)
            assert len(bodies.ran) == before + 1
            assert next(iter(stream)) == "Re"
            assert bodies.ran[before:] == ["ask", "chunk"]
            assert stream.is_closed is False
            assert not hasattr(stream, "no_such_thing")
        assert manager._exits == [None]

    recorded = record_sync(tmp_path / "run.jsonl", agent)

    assert recorded.call("ask#1").outcome.status == "closed_early"
    assert [decode(item) for item in recorded.call("ask#1").outcome.items or ()] == ["Re"]


@pytest.mark.parametrize("leave", ["close", "drop", "raise"])
def test_a_stream_object_left_early_is_recorded_as_such(tmp_path: Path, leave: str) -> None:
    """Closed, dropped, or left by the consumer's own exception, which passes through (B82, B84)."""
    seen: list[Any] = []
    held: list[Any] = []  # what is still there ends by being left, not by being gone

    def agent() -> None:
        if leave == "raise":
            manager = ask("sync")
            with contextlib.suppress(KeyError), manager as stream:
                next(stream)
                raise KeyError
            seen.extend(manager._exits)
            held.append(stream)
            return
        stream = create("sync")
        next(stream)
        if leave == "close":
            stream.close()
            seen.append(stream.is_closed)
        del stream
        gc.collect()

    outcome = record_sync(tmp_path / "run.jsonl", agent).run.root.children[0].outcome

    assert outcome.status == "closed_early"
    assert [decode(item) for item in outcome.items or ()] == ["Re"]
    assert seen == {"close": [True], "drop": [], "raise": [KeyError]}[leave]


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_a_stream_object_that_breaks_raises_the_same_again(tmp_path: Path, flavour: str) -> None:
    """A mid-stream error comes after the chunks, in the replay too (B84)."""

    @stepfork.model
    def broken() -> Any:
        stream: Any = Stream(WORDS) if flavour == "sync" else AsyncStream(WORDS)
        stream.words = iter(_breaking())
        return stream

    def agent() -> list[str]:
        taken = ["before"]
        with contextlib.suppress(ConnectionError):
            for word in broken():
                taken.append(word)
        return taken

    async def aagent() -> list[str]:
        taken = ["before"]
        with contextlib.suppress(ConnectionError):
            async for word in broken():
                taken.append(word)
        return taken

    chosen: Any = agent if flavour == "sync" else aagent
    assert record(tmp_path / "run.jsonl", chosen) == ["before", "Re"]
    assert stepfork.replay(tmp_path / "run.jsonl", chosen).result == ["before", "Re"]


def _breaking() -> Iterator[str]:
    yield "Re"
    raise ConnectionError("reset")


def test_what_was_not_asked_when_it_was_recorded_stops_the_replay(tmp_path: Path) -> None:
    """An attribute without a recorded answer is a frontier, not an error of the agent."""

    def fixed() -> Any:
        with ask("sync") as stream:
            return [*stream, stream.usage]

    record(tmp_path / "run.jsonl", entered)
    replayed = stepfork.replay(tmp_path / "run.jsonl", fixed)

    assert [frontier.why for frontier in replayed.frontiers] == [
        "nobody asked for its usage when it was recorded"
    ]


def test_a_context_manager_hands_out_a_value_again(tmp_path: Path) -> None:
    """A tool that is a context manager over plain data is served too."""

    @stepfork.tool
    @contextlib.contextmanager
    def ticket(number: int) -> Iterator[dict[str, int]]:
        bodies.ran.append(number)
        yield {"number": number}

    def agent() -> int:
        with ticket(7) as opened:
            return opened["number"]

    assert record(tmp_path / "run.jsonl", agent) == 7
    replayed, ran = bodies.ran_in(lambda: stepfork.replay(tmp_path / "run.jsonl", agent))

    assert (replayed.result, ran) == (7, 0)


@pytest.mark.anyio
async def test_a_coroutine_may_come_to_a_generator(tmp_path: Path) -> None:
    """It is recorded as it is consumed, not when it is handed out (B83)."""

    async def numbers() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def come() -> Any:
        return numbers()

    later = stepfork.tool(come, name="later")

    @stepfork.tool
    def sooner() -> Any:
        return come()

    recorded = Recorded(tmp_path / "run.jsonl")
    async with recorded:
        assert [number async for number in await later()] == [1, 2]
        assert [number async for number in await sooner()] == [1, 2]

    outcomes = [call.outcome for call in recorded.run.root.children]
    assert [outcome.items for outcome in outcomes] == [[1, 2], [1, 2]]
    assert [outcome.shape for outcome in outcomes] == ["astream", "aobject"]


class Countdown:
    """An iterator that is also data."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

    def __repr__(self) -> str:
        return f"Countdown({self.left})"


def test_an_iterator_is_copied_pickled_and_shown_as_without_a_run(tmp_path: Path) -> None:
    """What stands for it while it is recorded does not show."""
    given: Callable[[], Countdown] = stepfork.tool(lambda: Countdown(3), name="given")

    def agent() -> None:
        count = given()
        assert next(count) == 2
        assert repr(count) == "Countdown(2)"
        for again in (copy.copy(count), copy.deepcopy(count), pickle.loads(pickle.dumps(count))):
            assert type(again) is Countdown
            assert list(again) == [1, 0]
        assert list(count) == [1, 0]

    assert record_sync(tmp_path / "run.jsonl", agent).run.root.children[0].outcome.items == [2, 1, 0]


class Connection:
    """More than what comes out of it."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        pass

    def __iter__(self) -> Iterator[int]:
        return iter([])

    def execute(self, sql: str) -> str:
        return sql


def test_a_resource_is_handed_out_as_it_is(tmp_path: Path) -> None:
    """Files, cursors, sockets and responses are no streams: the very object reaches the agent."""
    connection = Connection()
    given: Callable[[], Connection] = stepfork.tool(lambda: connection, name="given")

    def agent() -> None:
        assert given() is connection

    assert record_sync(tmp_path / "run.jsonl", agent).tree == ["given#1"]
