"""A function whose code is exchanged is the function that it was, in all that can be asked of it."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from recorded import Recorded, record
from stepfork.adapters import _plain_tools_turn as turn

NAMES = ["a", "b", "call", "call_", "args", "kwargs", "self", "tool", "x1", "é"]


@pytest.fixture(autouse=True)
def _as_they_were() -> Iterator[None]:
    yield
    turn.turn_back()


def turned(function: Any, name: str, *, is_method: bool = False) -> turn.PlainTool | None:
    return turn.turn_into_tool(function, name, is_method=is_method)


@st.composite
def signatures(draw: st.DrawFn) -> str:
    names = draw(st.permutations(NAMES))
    kinds = sorted(draw(st.lists(st.sampled_from("ppnnk"), max_size=6)), key="pnk".index)
    spelled, has_default = [], False
    for name, kind in zip(names, kinds, strict=False):
        default = draw(st.booleans())
        if kind != "k":
            has_default = default = default or has_default
        spelled.append((kind, f"{name}={name!r}" if default else name))
    parts = [text for kind, text in spelled if kind == "p"]
    parts += ["/"] if parts else []
    parts += [text for kind, text in spelled if kind == "n"]
    rest, by_keyword = draw(st.booleans()), [text for kind, text in spelled if kind == "k"]
    parts += ["*rest"] if rest else ["*"] if by_keyword else []
    parts += by_keyword + (["**more"] if draw(st.booleans()) else [])
    return ", ".join(parts)


values = st.integers(0, 9)
calls = st.tuples(st.lists(values, max_size=7), st.dictionaries(st.sampled_from([*NAMES, "new"]), values))
prefixes = st.sampled_from(["def", "async def"])


def made(prefix: str, signature: str) -> Any:
    names: dict[str, Any] = {"__name__": __name__}
    exec(f"{prefix} function({signature}):\n    return dict(sorted(locals().items()))", names)
    return names["function"]


def outcome(function: Callable[..., Any], args: list[int], kwargs: dict[str, int]) -> Any:
    try:
        result = function(*args, **kwargs)
        return asyncio.run(result) if inspect.iscoroutine(result) else result
    except TypeError as error:
        return str(error)


@given(prefixes, signatures(), st.lists(calls, max_size=5))
def test_it_takes_and_refuses_the_same_calls(
    prefix: str, signature: str, calls: list[tuple[list[int], dict[str, int]]]
) -> None:
    """Whatever its parameters are: the same values reach them, and the same errors are raised."""
    function, other = made(prefix, signature), made(prefix, signature)
    assert turned(other, "tool") is not None
    assert inspect.signature(other) == inspect.signature(function)
    for args, kwargs in calls:
        assert outcome(other, args, kwargs) == outcome(function, args, kwargs)


@given(signatures(), calls)
def test_its_calls_are_recorded_as_those_of_a_decorated_function(
    signature: str, call: tuple[list[int], dict[str, int]]
) -> None:
    """The same arguments under the same names, whether a person marked it or a request named it."""
    function, other = made("def", signature), made("def", signature)
    args, kwargs = call
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return
    tool = turned(other, "tool")
    assert tool is not None
    seen: list[Any] = []
    tool._call = lambda original, instance, args, kwargs: seen.append(tool.spec.bind(args, kwargs))
    other(*args, **kwargs)
    assert seen == [stepfork.tool(function)._self_spec.bind(tuple(args), kwargs)]


def plain(order_id: str, *, region: str = "eu") -> dict[str, str]:
    """Look an order up."""
    return {order_id: region}


async def coroutine(order_id: str) -> str:
    """Ask."""
    return order_id


def generator(order_id: str) -> Iterator[str]:
    """Stream."""
    got = yield order_id
    yield str(got)


async def async_generator(order_id: str) -> AsyncIterator[str]:
    """Stream later."""
    yield order_id


@pytest.mark.parametrize("function", [plain, coroutine, generator, async_generator])
def test_what_can_be_asked_of_it_stays_as_it_was(function: Any) -> None:
    """Name, place, hints, kind, defaults and source; pickles and copies are the function itself."""

    def about() -> list[Any]:
        code = function.__code__
        return [
            inspect.signature(function),
            inspect.getsource(function),
            [ask(function) for ask in (inspect.iscoroutinefunction, inspect.isgeneratorfunction)],
            [ask(function) for ask in (inspect.isasyncgenfunction, asyncio.iscoroutinefunction)],
            (function.__name__, function.__qualname__, function.__module__, function.__doc__),
            (function.__defaults__, function.__kwdefaults__, function.__annotations__),
            (code.co_filename, code.co_firstlineno, code.co_name, code.co_qualname),
            pickle.dumps(function),
        ]

    before = about()
    turned(function, "tool")
    assert about() == before
    assert copy.deepcopy(function) is function
    assert pickle.loads(pickle.dumps(function)) is function


def test_it_can_be_sent_by_its_code_to_another_process() -> None:
    """As packages do that pickle functions of the program itself: nothing of this process is in it."""
    tool = turned(plain, "tool")
    assert tool is not None
    make, parts = tool.__reduce__()
    original, *rest = parts
    assert (original.__code__, rest) == (tool.original.__code__, ["tool", False])
    assert make(*parts)(("A-17",), {"region": "us"}) == {"A-17": "us"}


def test_every_kind_of_function_is_served_and_never_runs(tmp_path: Path) -> None:
    """Values, coroutines, both kinds of streams with what is sent into them."""
    ran: list[str] = []

    def make() -> list[Any]:
        def value(order_id: str) -> str:
            ran.append("value")
            return order_id

        async def later(order_id: str) -> str:
            ran.append("later")
            return order_id

        def stream(order_id: str) -> Iterator[str]:
            ran.append("stream")
            got = yield order_id
            yield str(got)

        async def later_stream(order_id: str) -> AsyncIterator[str]:
            ran.append("later_stream")
            yield order_id

        functions = [value, later, stream, later_stream]
        for function in functions:
            turned(function, function.__name__)
        return functions

    @stepfork.step
    async def agent() -> list[Any]:
        value, later, stream, later_stream = make()
        parts = stream("c")
        return [
            value("a"),
            await later("b"),
            [next(parts), parts.send("sent"), next(parts, "end")],
            [each async for each in later_stream("d")],
        ]

    with Recorded(tmp_path / "run.jsonl"):
        result = asyncio.run(agent())
    assert ran == ["value", "later", "stream", "later_stream"]
    replayed = stepfork.replay(tmp_path / "run.jsonl", agent)
    assert (replayed.error, replayed.value, len(ran)) == (None, result, 4)
    assert result == ["a", "b", ["c", "sent", "end"], ["d"]]


class Desk:
    def greet(self) -> str:
        return "desk"


class Shop(Desk):
    def greet(this, *, twice: bool = False) -> str:  # noqa: N805
        return super().greet() * (1 + twice) + str(__class__.__name__)  # type: ignore[name-defined]


def test_a_method_keeps_its_class_and_its_object_is_not_recorded(tmp_path: Path) -> None:
    """``super()`` works, and the first parameter is left out whatever its name is."""
    turned(Shop.greet, "greet", is_method=True)
    recorded = record(tmp_path / "run.jsonl", lambda: Shop().greet(twice=True))
    assert recorded.inputs("greet") == [{"twice": True}]
    assert recorded.outputs("greet") == ["deskdeskShop"]
    assert Shop.greet(Shop()) == "deskShop"


def test_an_exception_keeps_its_object_and_the_line_that_raised(tmp_path: Path) -> None:
    """The traceback leads to the author's line; the exception is the one that was raised."""
    error = KeyError("A-17")

    def fails() -> None:
        raise error

    turned(fails, "fails")

    def agent() -> None:
        with pytest.raises(KeyError) as caught:
            fails()
        assert caught.value is error
        assert traceback.extract_tb(error.__traceback__)[-1].line == "raise error"

    recorded = record(tmp_path / "run.jsonl", agent)
    assert recorded.call("fails#1").outcome.status == "raised"


def test_the_place_of_a_call_is_that_of_its_caller(tmp_path: Path) -> None:
    """A report names the line that called the tool, not that of its ``def``."""
    turned(plain, "plain")

    @stepfork.step
    def agent() -> Any:
        return plain("A-17")  # this line

    record(tmp_path / "run.jsonl", agent)
    replayed = stepfork.replay(tmp_path / "run.jsonl", agent)
    (call,) = [call for call in replayed.run.walk() if call.kind == "tool"]
    number = next(
        n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "# this line" in line
    )
    assert (call.site or "").endswith(f"{Path(__file__).name}:{number}")


def test_a_function_that_is_under_way_goes_on_with_its_own_code(tmp_path: Path) -> None:
    """A generator begun before, and a function further down its own stack, are not disturbed."""

    def counts() -> Iterator[int]:
        yield 1
        yield 2

    def down(depth: int) -> int:
        if depth == 2:
            turned(down, "down")
        return depth if depth == 5 else down(depth + 1)

    def agent() -> None:
        stream = counts()
        assert next(stream) == 1
        turned(counts, "counts")
        assert list(stream) == [2]
        assert down(0) == 5

    recorded = record(tmp_path / "run.jsonl", agent)
    assert recorded.tree == ["down#1"]


def test_a_wrapper_is_recorded_as_it_is_called(tmp_path: Path) -> None:
    """Where a function has decorators of others, what its caller calls is the tool."""

    def retried(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def again(*args: Any, **kwargs: Any) -> str:
            for _ in range(2):
                try:
                    return function(*args, **kwargs)
                except OSError:
                    continue
            return "never"

        return again

    tries: list[str] = []

    @retried
    def fetch(url: str, timeout: int = 3) -> str:
        tries.append(url)
        if len(tries) == 1:
            raise OSError(url)
        return f"{url} {timeout}"

    turned(fetch, "fetch")
    recorded = record(tmp_path / "run.jsonl", lambda: fetch("a"))
    assert recorded.inputs("fetch") == [{"url": "a", "timeout": 3}]
    assert recorded.outputs("fetch") == ["a 3"]
    assert len(tries) == 2


def test_nothing_is_recorded_and_nothing_warned_of_outside_of_a_run() -> None:
    """A tool outside of any run is the function that it was."""
    turned(plain, "plain")
    turned(coroutine, "coroutine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain("A") == {"A": "eu"}
        assert asyncio.run(coroutine("A")) == "A"


def test_code_that_somebody_exchanged_meanwhile_stays() -> None:
    """A reload that gave the function new code has the last word."""

    def old() -> str:
        return "old"

    def new() -> str:
        return "new"

    turned(old, "old")
    old.__code__ = new.__code__
    turn.turn_back()
    assert old() == "new"
