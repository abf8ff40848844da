"""What decorating leaves as it was, and what it refuses."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import typing
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pydantic
import pytest

import stepfork
from recorded import Recorded, record
from stepfork.errors import DecorationError, OptionError


def plain(order_id: str, *, region: str = "eu") -> dict[str, str]:
    """Look an order up."""
    return {order_id: region}


async def coroutine(order_id: str) -> str:
    """Ask."""
    return order_id


def generator(order_id: str) -> Iterator[str]:
    """Stream."""
    yield order_id


async def async_generator(order_id: str) -> AsyncIterator[str]:
    """Stream later."""
    yield order_id


FUNCTIONS = [plain, coroutine, generator, async_generator]
DECORATORS = [stepfork.step, stepfork.tool, stepfork.model]


@stepfork.tool
def double(number: int) -> int:
    return 2 * number


class Shop:
    """Holds something that cannot be encoded."""

    discount = 1

    def __init__(self) -> None:
        self.connection = open(__file__, encoding="utf-8")  # noqa: PTH123, SIM115

    @stepfork.tool
    def price(self, sku: str, amount: int = 1) -> int:
        return len(sku) * amount

    @stepfork.tool
    @classmethod
    def inner_class_method(cls, sku: str) -> str:
        return f"{cls.__name__} {sku}"

    @classmethod
    @stepfork.tool
    def outer_class_method(cls, sku: str) -> str:
        return f"{cls.__name__} {sku}"

    @stepfork.tool
    @staticmethod
    def inner_static_method(sku: str) -> str:
        return sku

    @staticmethod
    @stepfork.tool
    def outer_static_method(sku: str) -> str:
        return sku

    @property
    @stepfork.tool
    def inside_property(self) -> int:
        return 1

    @stepfork.tool  # type: ignore[prop-decorator]
    @property
    def around_property(self) -> int:
        return 2


@pytest.mark.parametrize("decorate", DECORATORS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_decorated_function_answers_inspect_as_before(function: Any, decorate: Any) -> None:
    """Signature, hints, docs, names and kind are those of the undecorated function (B02, B06, B07)."""
    decorated = decorate(function)

    assert inspect.signature(decorated) == inspect.signature(function)
    assert typing.get_type_hints(decorated) == typing.get_type_hints(function)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(decorated, name) == getattr(function, name)
    for question in (
        inspect.isfunction,
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
    ):
        assert question(decorated) == question(function), question.__name__


@pytest.mark.parametrize("decorate", DECORATORS)
def test_a_schema_is_built_from_the_function_in_either_order(decorate: Any) -> None:
    """Above or below another decorator its parameters, their types and its text are seen (B06)."""
    orders = [
        pydantic.validate_call(decorate(plain)),
        decorate(pydantic.validate_call(plain)),
        decorate(name="other")(plain),
    ]
    for decorated in orders:
        assert inspect.signature(decorated) == inspect.signature(plain)
        assert "config" not in inspect.signature(decorated).parameters
        assert typing.get_type_hints(decorated) == {"order_id": str, "region": str, "return": dict[str, str]}
        assert decorated.__doc__ == "Look an order up."
        schema = pydantic.TypeAdapter(decorated).json_schema()
        assert schema["properties"]["order_id"] == {"title": "Order Id", "type": "string"}
        assert (schema["required"], schema["additionalProperties"]) == (["order_id"], False)
        assert decorated("A-17", region="us") == {"A-17": "us"}
    for validating in orders[:2]:
        with pytest.raises(pydantic.ValidationError):
            validating(17)


class Asked:
    async def __call__(self, order_id: str) -> str:
        return order_id


ASYNC_CALLABLES = {
    "partial": functools.partial(coroutine, "A-17"),
    "object": functools.partial(Asked(), "A-17"),
    "bound": functools.partial(Asked().__call__, order_id="A-17"),
    "lambda": lambda: coroutine("A-17"),
}


@pytest.mark.parametrize("way", sorted(ASYNC_CALLABLES))
def test_what_is_awaited_is_known_by_what_comes_back(tmp_path: Path, way: str) -> None:
    """A partial, an object with an async ``__call__``, a lambda that returns a coroutine (B02)."""
    function: Any = ASYNC_CALLABLES[way]
    ask: Any = stepfork.tool(function, name="ask")

    async def agent() -> str:
        return str(await ask())

    assert inspect.iscoroutinefunction(ask) == inspect.iscoroutinefunction(function)
    recorded = record(tmp_path / "run.jsonl", lambda: asyncio.run(agent()))

    assert recorded.outputs("ask") == ["A-17"]
    assert stepfork.replay(recorded.path, agent).result == "A-17"


def test_a_decorated_function_pickles_by_name_and_is_its_own_copy() -> None:
    """Pickling gives the same object back and copying changes nothing (B01)."""
    assert pickle.loads(pickle.dumps(double)) is double
    assert copy.deepcopy({"tool": double})["tool"] is double
    assert copy.copy(double) is double


def test_a_decorated_function_goes_through_a_process_pool() -> None:
    """In a spawned worker without a run it is a plain call (B01)."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(double, [1, 2])) == [2, 4]


def test_a_bound_decorated_method_pickles_with_its_owner() -> None:
    """A bound method comes back bound to a copy of its instance (B01)."""
    method = Priced(3).total

    assert pickle.loads(pickle.dumps(method))(2) == 6
    assert copy.deepcopy(method)(2) == 6


class Priced:
    def __init__(self, price: int) -> None:
        self.price = price

    @stepfork.tool
    def total(self, amount: int) -> int:
        return self.price * amount


def test_methods_record_their_arguments_and_never_their_instance(tmp_path: Path) -> None:
    """Either order of the decorators works, and the instance is not in the file (B03, B04)."""
    shop = Shop()

    def agent() -> None:
        assert shop.price("abc", amount=2) == 6
        assert Shop.price(shop, "abc") == 3
        assert Shop.inner_class_method("a") == shop.inner_class_method("a") == "Shop a"
        assert Shop.outer_class_method("a") == "Shop a"
        assert Shop.inner_static_method("b") == shop.outer_static_method("b") == "b"
        assert (shop.inside_property, shop.around_property) == (1, 2)

    recorded = record(tmp_path / "run.jsonl", agent)

    assert recorded.inputs("Shop.price") == [{"sku": "abc", "amount": 2}, {"sku": "abc", "amount": 1}]
    assert recorded.inputs("Shop.inner_class_method") == [{"sku": "a"}, {"sku": "a"}]
    assert recorded.inputs("Shop.outer_static_method") == [{"sku": "b"}]
    assert recorded.inputs("Shop.around_property") == recorded.inputs("Shop.inside_property") == [{}]
    text = recorded.path.read_text()
    assert "connection" not in text
    assert "0x" not in text
    shop.connection.close()


def test_every_spelling_of_a_call_is_recorded_alike(tmp_path: Path) -> None:
    """Arguments are bound by the signature with their defaults (B05)."""

    @stepfork.tool
    def spelled(a: int, /, b: int = 2, *, c: int = 9, d: int) -> int:
        return a + b + c + d

    def agent() -> None:
        assert spelled(1, d=4) == spelled(1, 2, d=4, c=9) == spelled(1, b=2, d=4) == 16

    assert record(tmp_path / "run.jsonl", agent).inputs("spelled") == [{"a": 1, "b": 2, "c": 9, "d": 4}] * 3


def test_no_parameter_name_is_reserved(tmp_path: Path) -> None:
    """Parameters may be called like those of our own wrappers (B05)."""

    @stepfork.tool
    def odd(
        spec: int, function: int, args: int, kwargs: int, wrapped: int, instance: int, name: int, self: int
    ) -> int:
        return spec + function + args + kwargs + wrapped + instance + name + self

    values = dict.fromkeys(("spec", "function", "args", "kwargs", "wrapped", "instance", "name", "self"), 1)

    assert record(tmp_path / "run.jsonl", lambda: odd(**values)).inputs("odd") == [values]


def test_star_arguments_are_recorded_under_their_names(tmp_path: Path) -> None:
    """A variable number of arguments is a tuple and a dict in the record."""

    @stepfork.tool
    def many(*parts: int, **more: int) -> int:
        return sum(parts) + sum(more.values())

    recorded = record(tmp_path / "run.jsonl", lambda: many(1, 2, x=3))

    assert recorded.inputs("many") == [{"parts": (1, 2), "more": {"x": 3}}]


def test_a_call_that_does_not_fit_raises_the_functions_own_error(tmp_path: Path) -> None:
    """A wrong call is recorded as it was spelled and raises what Python raises."""

    @stepfork.tool
    def one(order_id: str) -> str:
        return order_id

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded, pytest.raises(TypeError, match="unexpected keyword argument 'oder_id'"):
        one(oder_id="A-17")  # type: ignore[call-arg]

    assert recorded.inputs("one") == [{"args": [], "kwargs": {"oder_id": "A-17"}}]


def test_third_party_callables_are_wrapped_in_place(tmp_path: Path) -> None:
    """A bound method, a partial, a built-in and a callable object can be tools."""

    class Client:
        def search(self, query: str) -> str:
            return query.upper()

        def __call__(self, query: str) -> str:
            return query.title()

    search = stepfork.tool(Client().search, name="search")
    called = stepfork.tool(Client())
    part = stepfork.tool(functools.partial(Client().search, query="p"), name="part")
    length = stepfork.tool(len)

    def agent() -> None:
        assert (search("a"), called("b c"), part(), length([1, 2])) == ("A", "B C", "P", 2)

    recorded = record(tmp_path / "run.jsonl", agent)

    assert recorded.tree == ["search#1", "Client#1", "part#1", "len#1"]
    assert recorded.inputs("search") == [{"query": "a"}]


@pytest.mark.parametrize("decorate", DECORATORS)
def test_decorating_a_class_is_refused(decorate: Any) -> None:
    """A class becomes no call and could not be subclassed any more (B09)."""
    with pytest.raises(
        DecorationError, match=r"SF101.*decorates functions, and .*Priced is a class"
    ) as caught:
        decorate(Priced)

    assert isinstance(caught.value, TypeError)


def test_decorating_what_cannot_be_called_is_refused() -> None:
    """A value is no function."""
    with pytest.raises(DecorationError, match="this is a int"):
        stepfork.tool(3)  # type: ignore[call-overload]


@pytest.mark.parametrize("option", ["ignore", "match", "mutates"])
def test_an_option_that_names_no_parameter_is_refused(option: str) -> None:
    """A misspelt parameter name would otherwise do nothing without a word."""
    with pytest.raises(OptionError, match=f"{option}='oder_id' names no parameter of plain"):
        stepfork.tool(**{option: ("oder_id",)})(plain)  # type: ignore[call-overload]


def test_a_bare_string_for_a_tuple_of_names_is_refused() -> None:
    """``ignore="conn"`` would be four names of one letter."""
    with pytest.raises(OptionError, match=r"write ignore=\('order_id',\)"):
        stepfork.tool(ignore="order_id")(plain)


def test_a_name_may_hold_what_addresses_are_made_of(tmp_path: Path) -> None:
    """A slash or hash in a name is escaped, so that addresses stay unambiguous."""
    search = stepfork.tool(plain, name="web/search#1")

    assert record(tmp_path / "run.jsonl", lambda: search("A")).tree == ["web%2Fsearch%231#1"]


@pytest.mark.parametrize("tolerance", [{"score": 0.1}, {1: lambda old, new: True}, ["score"]])
@pytest.mark.parametrize("decorator", [stepfork.step, stepfork.tool, stepfork.model])
def test_a_tolerance_that_is_none_is_refused_where_it_stands(decorator: Any, tolerance: Any) -> None:
    """The line of the decorator is shown, not a replay that ended badly."""
    with pytest.raises(OptionError, match="tolerance"):
        decorator(tolerance=tolerance)


def test_what_is_ignored_is_left_out_of_a_call_that_does_not_fit_too(tmp_path: Path) -> None:
    """A model that makes up an argument gets its TypeError, and nothing else is recorded for it."""

    @stepfork.tool(ignore=("conn",))
    def look(conn: object, order_id: str) -> str:
        return order_id

    def agent() -> None:
        with pytest.raises(TypeError, match="look"):
            look(1, "A-17", 3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="look"):
            look(conn=1, order="A-17")  # type: ignore[call-arg]

    inputs = [call.input for call in record(tmp_path / "run.jsonl", agent).run.root.children]
    assert inputs == [{"args": ["A-17", 3], "kwargs": {}}, {"args": [], "kwargs": {"order": "A-17"}}]
