"""The checks for adapters: a good adapter passes all, and each fault is found by the check that is for it."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from stepfork.adapters import Adapter, Boundary, Patches
from stepfork.testing import Sample, adapter_checks

HERE = sys.modules[__name__]
PLUGGED = [True]


class Shop:
    """A library: some of its functions reach outside."""

    def look(self, item: str) -> str:
        return reach(item)

    def look_up(self, item: str) -> str:
        return self.look(item)

    async def look_later(self, item: str) -> str:
        await asyncio.sleep(0)
        return reach(item)

    def each(self, item: str) -> Iterator[str]:
        yield reach(item)
        yield reach(item + "s")

    def refuse(self, item: str) -> str:
        raise LookupError(reach(item))

    def handle(self, item: str) -> Any:
        return Opaque(reach(item))


class Opaque:
    """Cannot be recorded as it is."""

    __slots__ = ("__weakref__", "item")

    def __init__(self, item: str) -> None:
        self.item = itertools.count(len(item))

    def __reduce__(self) -> Any:
        raise TypeError("not to be copied")


def reach(item: str) -> str:
    """Reach outside."""
    if not PLUGGED[0]:
        raise AssertionError(f"asked for {item}")
    return item * 2


@contextmanager
def unplugged() -> Iterator[None]:
    """Nothing is reached."""
    PLUGGED[0] = False
    yield
    PLUGGED[0] = True


SAMPLES = {
    "look": Sample(lambda: Shop().look("tea")),
    "look_up": Sample(lambda: Shop().look_up("pot"), records=("shop",)),
    "look_later": Sample(lambda: Shop().look_later("cup")),
    "each": Sample(lambda: Shop().each("cake")),
    "refuse": Sample(lambda: Shop().refuse("milk")),
}


def described(name: Callable[[], str] = lambda: "shop") -> Boundary:
    """Return the boundary of all its functions."""
    return Boundary("tool", lambda _shop, args, _kwargs: (name(), {"item": args[0]}))


def failing(
    hook: Callable[[ModuleType, Patches], None], samples: dict[str, Sample] | None = None
) -> set[str]:
    """Return the promises, of those that need no installed package, that an adapter does not keep."""
    broken = set()
    for check in adapter_checks(
        Adapter("shop", {__name__: hook}), SAMPLES if samples is None else samples, unplugged=unplugged
    ):
        if "name" in str(check) or "imported" in str(check) or "comes first" in str(check):
            continue
        try:
            check()
        except AssertionError:
            broken.add(str(check))
        finally:
            PLUGGED[0] = True
    return broken


def hook(_module: ModuleType, patches: Patches) -> None:
    """Do it right."""
    for name in ("look", "look_up", "look_later", "each", "refuse"):
        patches.call(Shop, name, described())


def test_a_good_adapter_keeps_all_promises() -> None:
    """Calls, coroutines, streams and exceptions; one that is stacked on another."""
    assert failing(hook) == set()


@pytest.mark.filterwarnings("ignore:said by the library")
def test_warnings_of_the_library_are_its_own() -> None:
    """However many there are, none of them is a fault of the adapter."""

    def look() -> str:
        for number in range(3):
            warnings.warn(f"said by the library: {number}", stacklevel=1)
        return Shop().look("old")

    assert failing(hook, {"look": Sample(look)}) == set()


def test_what_is_not_hooked_is_found() -> None:
    """It is not recorded, and a replay would reach outside."""

    def lazy(_module: ModuleType, patches: Patches) -> None:
        patches.call(Shop, "each", described())

    broken = failing(lazy, {"look": SAMPLES["look"]})
    assert broken == {
        "look: one call is one record",
        "look: a replay gives the same and reaches nothing",
        "calls in threads keep their own outcomes",
        "calls in tasks keep their own outcomes",
    }


def test_a_call_that_is_recorded_twice_is_found() -> None:
    """Two names for one call are two records, side by side."""

    def twice(_module: ModuleType, patches: Patches) -> None:
        patches.call(Shop, "look", described())
        patches.wrap(
            Shop, "look_up", lambda wrapped, shop, args, _kwargs: (shop.look("more"), wrapped(*args))[1]
        )

    assert "look_up: one call is one record" in failing(twice, {"look_up": SAMPLES["look_up"]})


def test_names_that_change_are_found() -> None:
    """A replay would find none of them again."""
    numbers = itertools.count()

    def counted(_module: ModuleType, patches: Patches) -> None:
        patches.call(Shop, "look", described(lambda: f"shop{next(numbers)}"))

    broken = failing(counted, {"look": SAMPLES["look"]})
    assert {"look: two runs record the same", "look: a replay gives the same and reaches nothing"} < broken


def test_what_is_left_behind_is_found() -> None:
    """A method that is exchanged by hand stays exchanged."""
    look = Shop.look

    def by_hand(_module: ModuleType, patches: Patches) -> None:
        patches.call(Shop, "look_later", described())
        Shop.look = lambda self, item: look(self, item)  # type: ignore[method-assign]

    try:
        broken = failing(by_hand, {"look_later": SAMPLES["look_later"]})
    finally:
        Shop.look = look  # type: ignore[method-assign]
    assert broken == {"it takes away what it has put"}


def test_another_result_is_found() -> None:
    """Also where it looks alike: the type counts."""

    def changed(_module: ModuleType, patches: Patches) -> None:
        class Text(str):
            pass

        def as_text(wrapped: Any, _shop: Any, args: Any, _kwargs: Any) -> Any:
            return Text(wrapped(*args))

        patches.call(Shop, "look", described())
        patches.wrap(Shop, "look", as_text)

    assert "look: without a run nothing changes" in failing(changed, {"look": SAMPLES["look"]})


def test_a_result_that_comes_back_otherwise_is_found() -> None:
    """What is rebuilt has to be what it was, and what cannot be recorded has to be rebuilt."""

    def otherwise(_module: ModuleType, patches: Patches) -> None:
        patches.call(Shop, "look", Boundary("tool", lambda _s, args, _k: ("look", {"item": args[0]}), len))
        patches.call(Shop, "handle", described())

    broken = failing(otherwise, {"look": SAMPLES["look"], "handle": Sample(lambda: Shop().handle("tea"))})
    assert "look: a replay gives the same and reaches nothing" in broken
    assert "handle: a replay gives the same and reaches nothing" in broken


def test_a_wrapper_that_relies_on_the_recording_is_found() -> None:
    """A fault in recording leaves it without a frame."""
    from stepfork._invoke import begin
    from stepfork._spec import hooked

    def relying(_module: ModuleType, patches: Patches) -> None:
        def call(wrapped: Any, _shop: Any, args: Any, _kwargs: Any) -> Any:
            frame = begin(hooked("tool", "shop"), (), {"item": args[0]})
            result = wrapped(*args)
            assert frame is not None, "no frame"
            frame.returned(result, "value")
            return result

        patches.wrap(Shop, "look", call)

    broken = failing(relying, {"look": SAMPLES["look"]})
    assert {"look: a fault in recording is not the agent's", "look: without a run nothing changes"} < broken


def test_outcomes_that_are_mixed_up_are_found() -> None:
    """What is kept on the adapter rather than with the call comes to the wrong caller."""
    last: list[str] = []

    def mixed(_module: ModuleType, patches: Patches) -> None:
        def call(wrapped: Any, _shop: Any, args: Any, _kwargs: Any) -> Any:
            last[:] = args
            time.sleep(0.05)
            return wrapped(*last)

        patches.call(Shop, "look", described())
        patches.wrap(Shop, "look", call)

    samples = {text: Sample(partial(Shop().look, text)) for text in ("a", "b", "c")}
    assert "calls in threads keep their own outcomes" in failing(mixed, samples)


def test_the_promises_of_an_installed_package_are_checked_too() -> None:
    """One that no entry point names is not found, in none of the processes that look for it."""
    broken = []
    for check in adapter_checks(Adapter("shop", {__name__: hook}), {}, unplugged=unplugged)[:3]:
        with pytest.raises(AssertionError, match="there is no adapter 'shop'"):
            check()
        broken.append(str(check))
    assert broken == [
        "it can be found by its name",
        "nothing is imported for it",
        "it works whichever comes first, the library or the adapter",
    ]
