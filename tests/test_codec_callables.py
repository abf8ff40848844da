"""Functions, methods, partials and annotations: what stands for code, and is written by its name."""

from __future__ import annotations

import collections.abc
import functools
import math
import operator
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pytest

import stepfork
from codec_values import Box, Colour, Line, Model, Node, module_function, through_json
from stepfork._codec import Opaque, decode, encode

Kind = TypeVar("Kind")


class Shop:
    """A service whose methods are handed around."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.on_close: Any = None

    def greet(self, whom: str) -> str:
        return f"{self.name} greets {whom}"

    @classmethod
    def named(cls, name: str) -> Shop:
        return cls(name)


class Shelf(typing.Generic[Kind]):
    pass


class Subscripted:
    """Its subscription is code of the user's."""

    def __class_getitem__(cls, item: object) -> object:
        raise AssertionError("__class_getitem__ ran")


@stepfork.tool
def search(query: str) -> str:
    """A tool that an agent hands to another agent."""
    return query


@functools.lru_cache
def cached(number: int) -> int:
    return number


@pytest.mark.parametrize(
    "value",
    [
        math.sqrt,
        module_function,
        search,
        cached,
        str.upper,
        dict.fromkeys,
        Shop,
        Shop.greet,
        Shop.named,
        type(None),
        Kind,
        Any,
        typing.Optional,
        list[int],
        dict[str, Line],
        int | None,
        typing.Optional[Line],  # noqa: UP045
        typing.List[int],  # noqa: UP006
        Literal["a", 1],
        Annotated[int, "doc"],
        typing.Callable[[int], str],
        collections.abc.Callable[[int], str],
        tuple[int, ...],
        Shelf[int],
        Box[int],
    ],
    ids=lambda value: getattr(value, "__qualname__", None) or str(value),
)
def test_what_has_a_name_comes_back_as_that(value: Any) -> None:
    """Functions, tools, classes and annotations of a response are themselves again (B32, B72)."""
    back = through_json({"it": [value]})["it"][0]
    assert type(back) is type(value)
    assert back == value


def test_a_bound_method_comes_back_on_an_equal_object() -> None:
    """The object is written like any other, the method by its name (B72)."""
    back = through_json(Shop("A").greet)
    assert (back("B"), type(back.__self__)) == ("A greets B", Shop)
    assert through_json("-".join)(["a", "b"]) == "a-b"
    assert through_json(Shop.named)("C").name == "C"
    numbers = through_json([1].append)
    numbers(2)
    assert numbers.__self__ == [1, 2]


def test_a_method_of_what_cannot_be_recorded_is_a_placeholder_without_address() -> None:
    """A service with a connection in it is not half recorded for the sake of its method (B04, B72)."""
    shop = Shop("A")
    shop.on_close = lambda: None
    plain, lossy = encode([shop.greet, lambda: None, Node])
    assert lossy
    assert plain[0] == {"$opaque": "builtins:method", "repr": "<method Shop.greet>"}


def test_a_partial_comes_back_with_its_arguments() -> None:
    """The function by name, the arguments as values."""
    back = through_json(functools.partial(pow, 2, mod=5))
    assert (back(3), back.args, back.keywords) == (3, (2,), {"mod": 5})
    assert through_json(functools.partial(Shop("A").greet, "B"))() == "A greets B"
    assert through_json(operator.itemgetter(1, 0))("ab") == ("b", "a")
    assert encode(functools.partial(lambda: 0)).lossy


@pytest.mark.parametrize(
    "plain",
    [
        {"$object": "builtins:method", "of": "method", "self": {"$path": "/tmp/x"}, "name": "unlink"},
        {"$object": "builtins:method", "of": "method", "self": {"$global": "os:system"}, "name": "__call__"},
        {"$object": "builtins:builtin_function_or_method", "of": "method", "self": 1, "name": "nothing"},
    ],
)
def test_a_recording_cannot_name_a_method_that_acts_on_the_machine(plain: Any) -> None:
    """A stranger's file plants no call that deletes or starts something (B77)."""
    assert isinstance(decode(plain), Opaque)
    assert encode(Path("x").unlink).lossy


def test_a_subscription_that_would_run_code_is_refused() -> None:
    """A class of the user's is asked for no ``Class[...]`` on reading (B77)."""
    plain = encode(list[int]).plain
    plain["value"][0] = {"$global": f"{__name__}:Subscripted"}
    with pytest.raises(stepfork.StepforkError, match="would run its code"):
        decode(plain)


def test_a_factory_comes_back_by_its_name() -> None:
    """The factory of a defaultdict is a class or a function (B32)."""
    for factory in (list, Model, Colour, module_function):
        back = through_json(collections.defaultdict(factory, a=1))  # type: ignore[arg-type]
        assert (back.default_factory, back) == (factory, {"a": 1})
