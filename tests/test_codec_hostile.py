"""Values that fight back, and what cannot be recorded."""

from __future__ import annotations

import collections
import itertools
import re
import socket
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest

from codec_values import Line, Node, Table, Unique
from stepfork._codec import Opaque, decode, encode, register_type, type_name


class Guarded:
    """A class that does something when an instance is deleted."""

    def __del__(self) -> None:
        self.__dict__.get("deleted", []).append(True)


class Endless:
    """Answers every attribute with itself."""

    def __getattr__(self, name: str) -> Endless:
        return self


class Hostile:
    """Raises whatever is asked of it."""

    def __init__(self) -> None:
        self.value = 1

    def __repr__(self) -> str:
        raise SystemExit

    __str__ = __repr__
    __bool__ = __len__ = __iter__ = __call__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise SystemExit

    def __hash__(self) -> int:
        raise SystemExit

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit


def test_an_object_that_fights_back_does_not_disturb() -> None:
    """Attributes, repr and comparison of a value are never asked for (B11)."""
    assert decode(encode(Endless()).plain).anything is not None
    plain, lossy = encode({"x": [Hostile()]})
    assert (plain["x"][0]["state"], lossy) == ({"value": 1}, False)


def never(*args: object, **kwargs: object) -> Any:
    """Do not come back."""
    while True:
        pass


class Waiting(type):
    """The class of classes that answer no question either."""

    __getattr__ = never
    __instancecheck__ = __subclasscheck__ = never


ASKED = (
    "__repr__",
    "__str__",
    "__format__",
    "__eq__",
    "__hash__",
    "__len__",
    "__iter__",
    "__bool__",
    "__getattr__",
    "__getattribute__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__copy__",
    "__deepcopy__",
    "__dir__",
    "__call__",
    "__contains__",
    "__getitem__",
    "items",
    "keys",
    "values",
    "copy",
    "__lt__",
    "__index__",
    "__int__",
    "__float__",
    "__fspath__",
    "__array__",
)


@pytest.mark.parametrize("base", [object, dict, list, set, str, int, float, bytes, collections.OrderedDict])
def test_an_object_that_never_answers_does_not_hold_up_the_agent(base: type) -> None:
    """Whatever would be asked of a value, of its parts or of its class is not asked (B11)."""
    members: dict[str, Any] = dict.fromkeys(ASKED, never)
    cls = Waiting("Patient", (base,), {"__module__": __name__, "__class__": property(never), **members})
    value = base.__new__(cls)  # type: ignore[call-overload]
    for encoded in (encode(value), encode({"in": [value, (value,)]}), encode(types.MethodType(never, value))):
        assert msgspec.json.encode(encoded.plain)


@pytest.mark.parametrize(
    "holder",
    [
        lambda key: {key: 1},
        lambda key: {key},
        lambda key: frozenset([key]),
        lambda key: collections.defaultdict(int, {key: 1}),
        lambda key: Table({key: 1}),
        lambda key: Unique([key]),
        lambda key: types.MappingProxyType({key: 1}),
    ],
    ids=["dict", "set", "frozenset", "defaultdict", "own dict", "own set", "proxy"],
)
def test_a_key_is_not_hashed_or_compared_anew(holder: Callable[[Any], Any]) -> None:
    """Keys of a class whose hash or comparison has come to act are written without asking them (B11)."""

    class Key:
        armed = False

        def __hash__(self) -> int:
            return never() if self.armed else 1

        def __eq__(self, other: object) -> bool:
            return never() if self.armed else self is other

    value = holder(Key())
    Key.armed = True
    assert not encode(value).lossy


def test_a_test_double_is_a_placeholder() -> None:
    """A Mock has any attribute, so its state says nothing (B11)."""
    for double in (mock.Mock(), mock.MagicMock(spec=Line), mock.AsyncMock()):
        plain, lossy = encode(double)
        assert (lossy, plain["repr"]) == (True, f"<{type(double).__name__} object>")


def test_resources_are_placeholders_without_addresses() -> None:
    """Locks, files, sockets, threads, generators and lambdas are named, not written (B04, B72)."""
    with tempfile.TemporaryFile() as file, socket.socket() as sock:
        values = [
            file,
            sock,
            threading.Lock(),
            threading.Thread(),
            (n for n in "a"),
            lambda: 0,
            sys,
            sys.stdout.write,
        ]
        encoded = encode(values)
    assert encoded.lossy
    assert all(isinstance(part, Opaque) for part in decode(encoded.plain))
    assert not re.search(r"0x[0-9a-f]{5}|/", msgspec.json.encode(encoded.plain).decode())


def test_one_resource_does_not_cost_the_rest_of_an_object() -> None:
    """A service object keeps its data; what cannot be recorded in it is a placeholder (B04)."""
    plain, lossy = encode(Node(name="shop", lock=threading.Lock()))
    back = decode(plain)
    assert (lossy, back.name, type(back.lock)) == (True, "shop", Opaque)


def test_a_client_with_a_connection_is_not_walked_through() -> None:
    """What can be closed and entered stands for something outside (B11)."""

    class Client:
        def __init__(self) -> None:
            self.api_key = "sk-1"

        def close(self) -> None: ...

        def __enter__(self) -> None: ...

    plain, lossy = encode(Client())
    assert lossy
    assert "sk-1" not in str(plain)


def test_a_class_that_acts_on_deletion_is_not_rebuilt() -> None:
    """A recording cannot plant an object whose deletion does something (B77)."""
    plain, lossy = encode(Guarded())
    assert (lossy, "$opaque" in plain) == (True, True)
    planted: list[bool] = []
    back = decode({"$object": type_name(Guarded), "state": {"deleted": planted}})
    assert isinstance(back, Opaque)


def test_ctrl_c_passes_through() -> None:
    """A person who stops the agent in the middle of a recording stops it."""

    class Stopped: ...

    def stop(value: Stopped) -> None:
        raise KeyboardInterrupt

    register_type(Stopped, stop, lambda parts: Stopped())
    with pytest.raises(KeyboardInterrupt):
        encode([Stopped()])


def test_what_only_a_library_can_rebuild_is_a_placeholder() -> None:
    """A class whose state lies in C is not written as an object without state."""
    values = [np.random.default_rng(0), iter([1]), itertools.count()]
    plain, lossy = encode(values)
    assert lossy
    assert all("$opaque" in part for part in plain)
