"""What holds for a plain function holds for a coroutine, a generator and an async generator."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepfork
from recorded import record
from replays import Bodies
from stepfork._codec import decode

bodies = Bodies()
REFUSED = ConnectionError("refused")


def body(order: str) -> str:
    """What each of them does."""
    bodies.ran.append(order)
    if order == "bad":
        raise REFUSED
    return leaf(order)


@stepfork.tool
def leaf(order: str) -> str:
    return order.lower()


@stepfork.tool
def sync(order: str, *, region: str = "eu") -> str:
    return body(order)


@stepfork.tool
async def coroutine(order: str, *, region: str = "eu") -> str:
    await asyncio.sleep(0)
    return body(order)


@stepfork.tool
def generator(order: str, *, region: str = "eu") -> Iterator[str]:
    yield "first"
    yield body(order)


@stepfork.tool
async def async_generator(order: str, *, region: str = "eu") -> AsyncIterator[str]:
    yield "first"
    await asyncio.sleep(0)
    yield body(order)


@stepfork.tool
def returns_a_coroutine(order: str, *, region: str = "eu") -> Awaitable[str]:
    return UNDECORATED["coroutine"](order)  # type: ignore[no-any-return]


@stepfork.tool
def returns_a_generator(order: str, *, region: str = "eu") -> Iterator[str]:
    return UNDECORATED["generator"](order)  # type: ignore[no-any-return]


FOUR: list[Any] = [sync, coroutine, generator, async_generator]
SIX = [*FOUR, returns_a_coroutine, returns_a_generator]
UNDECORATED: dict[str, Any] = {tool.__name__: tool.__wrapped__ for tool in FOUR}


class Shop:
    """The four as methods."""

    sync, coroutine, generator, async_generator = (
        stepfork.tool(function, name=f"Shop.{function.__name__}")
        for function in (
            lambda self, order: body(order),
            lambda self, order: UNDECORATED["coroutine"](order),
            lambda self, order: UNDECORATED["generator"](order),
            lambda self, order: UNDECORATED["async_generator"](order),
        )
    )


def got(made: Any) -> list[Any]:
    """Everything that comes out of it."""
    if inspect.isawaitable(made) or hasattr(made, "__aiter__"):
        return asyncio.run(drawn(made))
    return list(made) if inspect.isgenerator(made) else [made]


async def drawn(made: Any) -> list[Any]:
    return [await made] if inspect.isawaitable(made) else [item async for item in made]


def name_of(tool: Any) -> str:
    return str(tool.__name__)


@pytest.mark.parametrize("tool", SIX, ids=name_of)
def test_a_tool_of_any_kind_is_served_without_its_body(tmp_path: Path, tool: Any) -> None:
    """What comes out in the replay is what came out, and the body does not run (B10, B83)."""
    results = []
    record(tmp_path / "run.jsonl", lambda: results.append(got(tool("A-17"))))

    replayed, ran = bodies.ran_in(lambda: stepfork.replay(tmp_path / "run.jsonl", lambda: got(tool("A-17"))))

    assert [replayed.result] == results
    assert ran == 0


@pytest.mark.parametrize("tool", SIX, ids=name_of)
def test_what_a_body_calls_is_its_child(tmp_path: Path, tool: Any) -> None:
    """Of whatever kind it is, and whoever drives it (B14)."""
    recorded = record(tmp_path / "run.jsonl", lambda: got(tool("A-17")))

    assert recorded.tree == [{f"{tool.__name__}#1": ["leaf#1"]}]
    assert recorded.inputs(tool.__name__) == [{"order": "A-17", "region": "eu"}]


@pytest.mark.parametrize("tool", SIX, ids=name_of)
def test_what_a_body_raises_is_the_very_object(tmp_path: Path, tool: Any) -> None:
    """With one frame of ours in its traceback, recorded as raised, and raised again in the replay (B12)."""

    def agent() -> str:
        try:
            got(tool("bad"))
        except ConnectionError as error:
            caught.append(error)
        return "went on"

    caught: list[BaseException] = []
    REFUSED.__traceback__ = None
    recorded = record(tmp_path / "run.jsonl", agent)

    assert caught == [REFUSED]
    ours = [
        frame.name for frame in traceback.extract_tb(REFUSED.__traceback__) if "/stepfork/" in frame.filename
    ]
    assert len(ours) == 1, ours
    assert recorded.call(f"{tool.__name__}#1").outcome.status == "raised"
    assert stepfork.replay(tmp_path / "run.jsonl", agent).result == "went on"
    assert str(caught[1]) == "refused"


@pytest.mark.parametrize("tool", FOUR, ids=name_of)
@pytest.mark.parametrize("wrong", [(), ("A", "B"), ("A", {"oder": 1})], ids=["none", "many", "misspelt"])
def test_arguments_that_do_not_fit_are_an_error_at_the_call(tool: Any, wrong: Any) -> None:
    """Not when it is awaited or iterated over: as without the decorator (B05)."""
    kwargs = wrong[1] if len(wrong) == 2 and isinstance(wrong[1], dict) else {}
    args = wrong[:1] if kwargs else wrong

    with pytest.raises(TypeError) as decorated:
        tool(*args, **kwargs)
    with pytest.raises(TypeError) as plain:
        tool.__wrapped__(*args, **kwargs)

    assert str(decorated.value) == str(plain.value)


@pytest.mark.parametrize("tool", SIX, ids=name_of)
def test_every_spelling_of_a_call_is_one_call(tmp_path: Path, tool: Any) -> None:
    """Whatever kind it is of: recorded with all defaults, and found by another spelling (B05)."""

    def spelled() -> Any:
        return [got(tool("A-17")), got(tool(order="A-17", region="eu"))]

    def otherwise() -> Any:
        return [got(tool(order="A-17")), got(tool("A-17", region="eu"))]

    recorded = record(tmp_path / "run.jsonl", spelled)

    assert recorded.inputs(tool.__name__) == [{"order": "A-17", "region": "eu"}] * 2
    replayed = stepfork.replay(tmp_path / "run.jsonl", otherwise)
    assert replayed.frontiers == []
    assert len(replayed.result) == 2


@pytest.mark.parametrize("name", ["sync", "coroutine", "generator", "async_generator"])
def test_a_method_of_any_kind_records_its_arguments_alone(tmp_path: Path, name: str) -> None:
    """``self`` is in no file (B03, B04)."""
    recorded = record(tmp_path / "run.jsonl", lambda: got(getattr(Shop(), name)("A-17")))

    assert [call.input for call in recorded.run.root.children] == [{"order": "A-17"}]


@pytest.mark.parametrize("tool", SIX, ids=name_of)
def test_a_tool_of_any_kind_pickles_and_is_a_plain_call_without_a_run(tool: Any) -> None:
    """It comes back as itself, and what it makes is what the undecorated one makes (B01)."""
    assert pickle.loads(pickle.dumps(tool)) is copy.deepcopy(tool) is tool
    made, plain = tool("A-17"), tool.__wrapped__("A-17")

    assert type(made) is type(plain)
    assert getattr(made, "__qualname__", None) == getattr(plain, "__qualname__", None)
    assert got(made) == got(plain)


@pytest.mark.parametrize("tool", [generator, async_generator, returns_a_generator], ids=name_of)
def test_a_stream_left_early_is_served_as_far_as_it_was_taken(tmp_path: Path, tool: Any) -> None:
    """Its next chunk was never seen: asking for it is a frontier, not the end of the stream (B82)."""

    def first() -> Any:
        made = tool("A-17")
        return next(made) if inspect.isgenerator(made) else asyncio.run(first_of(made))

    async def first_of(made: Any) -> Any:
        item = await anext(made)
        await made.aclose()
        return item

    recorded = record(tmp_path / "run.jsonl", first)
    outcome = recorded.run.root.children[0].outcome
    assert outcome.status == "closed_early"
    assert [decode(item) for item in outcome.items or ()] == ["first"]

    assert stepfork.replay(tmp_path / "run.jsonl", first).result == "first"
    greedy = stepfork.replay(tmp_path / "run.jsonl", lambda: got(tool("A-17")))
    assert [frontier.call.label for frontier in greedy.frontiers] == [f"{tool.__name__}#1"]


def test_a_coroutine_that_is_cancelled_before_it_began_is_not_complained_of(tmp_path: Path) -> None:
    """Nothing of ours is left unawaited, and nothing is recorded of a call that did not begin."""

    async def agent() -> None:
        task = asyncio.create_task(coroutine("A-17"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        coroutine("A-18").close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorded = record(tmp_path / "run.jsonl", lambda: asyncio.run(agent()))
        gc.collect()

    assert recorded.tree == []


def test_a_forgotten_await_is_told_with_the_name_of_the_function(tmp_path: Path) -> None:
    """Python's own warning, once, about the agent's coroutine."""

    def agent() -> None:
        coroutine("A-17")  # type: ignore[unused-coroutine]
        gc.collect()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        record(tmp_path / "run.jsonl", agent)

    assert [str(each.message) for each in told] == ["coroutine 'coroutine' was never awaited"]


def test_a_generator_may_answer_to_its_close(tmp_path: Path) -> None:
    """What it does with a GeneratorExit that was thrown, or with ``close``, is its own affair (B82)."""

    def stubborn() -> Iterator[str]:
        try:
            yield "first"
        except GeneratorExit:
            yield "still here"

    def agent(function: Any) -> list[Any]:
        thrown, closed = function(), function()
        next(closed)
        seen = [next(thrown), thrown.throw(GeneratorExit)]
        with pytest.raises(RuntimeError, match="generator ignored GeneratorExit"):
            closed.close()
        return seen

    results = [agent(stubborn)]
    record(tmp_path / "run.jsonl", lambda: results.append(agent(stepfork.tool(stubborn))))

    assert results == [["first", "still here"]] * 2


def test_the_state_of_a_generator_is_told_as_before(tmp_path: Path) -> None:
    """``inspect`` asks the generator that the agent holds."""

    def agent() -> None:
        made: Any
        for made in (generator("A-17"), UNDECORATED["generator"]("A-17")):
            states = [inspect.getgeneratorstate(made)]
            next(made)
            states.append(inspect.getgeneratorstate(made))
            made.close()
            states.append(inspect.getgeneratorstate(made))
            assert states == ["GEN_CREATED", "GEN_SUSPENDED", "GEN_CLOSED"]

    record(tmp_path / "run.jsonl", agent)
