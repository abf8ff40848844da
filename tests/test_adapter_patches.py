"""What an adapter has put around functions of a library, and taken away again."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from properties import thoroughly
from recorded import record
from stepfork.adapters import Adapter, Boundary, Patches, _switch
from stepfork.adapters._switch import tried


class Base(ABC):
    """Of a library."""

    made: ClassVar[list[str]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Base.made.append(cls.__name__)

    @abstractmethod
    def ask(self, question: str) -> str:
        """Only subclasses have one."""

    @staticmethod
    def size(text: str) -> int:
        """One that needs no instance."""
        return len(text)

    @classmethod
    def named(cls, name: str) -> str:
        """One that needs the class."""
        return f"{cls.__name__} {name}"


class Loud(Base):
    """There before the adapter."""

    def ask(self, question: str) -> str:
        return question.upper()


class Louder(Loud):
    """Calls what it inherits."""

    def ask(self, question: str) -> str:
        return super().ask(question) + "!"


class Silent(Loud):
    """Has no method of its own."""


def described(_instance: Any, args: tuple[Any, ...], _kwargs: Any) -> tuple[str, dict[str, Any]]:
    """Say what any call here is."""
    return "ask", {"question": args[0]}


TOOL = Boundary("tool", described)


@pytest.fixture
def patches() -> Iterator[Patches]:
    """What is undone after the test at the latest."""
    made = Patches()
    yield made
    made.undo()


def state() -> list[dict[str, Any]]:
    """Return the attributes of the classes here, to be compared by identity."""
    return [dict(vars(kind)) for kind in (Base, Loud, Louder, Silent)]


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether the very same objects stand there."""
    return all(
        old.keys() == new.keys() and all(old[key] is new[key] for key in old)
        for old, new in zip(one, other, strict=True)
    )


def test_a_family_is_hooked_where_its_methods_are_defined(tmp_path: Path, patches: Patches) -> None:
    """Subclasses that are there and that come later; not the abstract method, and no call twice."""
    before = state()
    patches.family_calls(Base, ["ask"], TOOL)
    assert vars(Base)["ask"] is before[0]["ask"]
    assert "ask" not in vars(Silent)

    class Later(Loud):
        def ask(self, question: str) -> str:
            return "later " + super().ask(question)

    def agent() -> None:
        assert [kind().ask("a") for kind in (Loud, Louder, Silent, Later)] == ["A", "A!", "A", "later A"]

    recorded = record(tmp_path / "run.jsonl", agent)
    assert recorded.tree == ["ask#1", "ask#2", "ask#3", "ask#4"]
    assert Base.made[-1] == "Later"
    patches.undo()
    assert same(before, state())
    assert type(vars(Later)["ask"]).__name__ == "function"


def test_methods_of_every_kind_stay_what_they_are(tmp_path: Path, patches: Patches) -> None:
    """A staticmethod, a classmethod and a function of a module are called as ever."""
    patches.call(Base, "size", TOOL)
    patches.call(Base, "named", TOOL)
    patches.call(sys.modules[__name__], "helper", TOOL)

    def agent() -> None:
        assert (Base.size("abc"), Loud.size("ab"), Loud.named("x"), helper("q")) == (3, 2, "Loud x", "q?")

    assert record(tmp_path / "run.jsonl", agent).inputs("ask") == [
        {"question": text} for text in ("abc", "ab", "x", "q")
    ]


def helper(question: str) -> str:
    """A function of a module."""
    return f"{question}?"


def test_what_is_wrapped_is_undone_exactly(patches: Patches) -> None:
    """The very same objects stand where they stood, also where a subclass had only inherited."""
    before = state()
    patches.call(Silent, "ask", TOOL)
    patches.wrap(Loud, "ask", lambda wrapped, _instance, args, kwargs: wrapped(*args, **kwargs) + "?")
    patches.wrap(Loud, "ask", lambda wrapped, _instance, args, kwargs: wrapped(*args, **kwargs) + "!")
    assert Loud().ask("a") == "A?!"
    patches.undo()
    assert same(before, state())


def test_what_somebody_has_wrapped_since_stays(patches: Patches, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another's wrapper around ours is left where it is, and ours does nothing any more."""
    patches.wrap(Loud, "ask", lambda _wrapped, _instance, _args, _kwargs: "ours")
    ours = vars(Loud)["ask"]
    monkeypatch.setattr(Loud, "ask", lambda self, question: "theirs: " + ours.__get__(self, Loud)(question))
    assert Loud().ask("a") == "theirs: ours"
    patches.undo()
    assert Loud().ask("a") == "theirs: A"


def test_a_function_that_is_not_there_is_an_error_of_the_adapter(patches: Patches) -> None:
    """Another version of a library may have it elsewhere."""
    with pytest.raises(AttributeError, match="absent"):
        patches.call(Loud, "absent", TOOL)


# -- several adapters at once


def adding(mark: str) -> Any:
    """Return a wrapper that adds a mark to what is returned."""
    return lambda wrapped, _instance, args, kwargs: wrapped(*args, **kwargs) + mark


def one_mark(mark: str) -> Any:
    """Return what makes the same wrapper for each function."""
    wrapper = adding(mark)
    return lambda _raw: wrapper


MARKS = "?!*"


@thoroughly(200)
@given(st.lists(st.tuples(st.sampled_from(MARKS), st.booleans()), max_size=12))
def test_adapters_that_overlap_are_on_exactly_from_on_to_off(steps: list[tuple[str, bool]]) -> None:
    """In whatever order: those that are on do their work, each in its turn; nothing is left when none is."""
    before = state()
    on: dict[str, Patches] = {}
    try:
        for mark, is_family in steps:
            if mark in on:
                on.pop(mark).undo()
            else:
                on[mark] = Patches()
                if is_family:
                    on[mark].family(Base, ["ask"], one_mark(mark))
                else:
                    on[mark].wrap(Loud, "ask", adding(mark))
            assert Loud().ask("a") == "A" + "".join(on)
    finally:
        for patches in on.values():
            patches.undo()
    assert same(before, state())


def test_later_classes_are_adopted_by_all_that_are_on_and_given_back_by_each(patches: Patches) -> None:
    """Also by the one that was switched on first, and is switched off first."""
    before = state()
    other = Patches()
    patches.family(Base, ["ask"], one_mark("?"))
    other.family(Base, ["ask"], one_mark("!"))

    class Later(Loud):
        def ask(self, question: str) -> str:
            return "later"

    assert sorted(Later().ask("a").removeprefix("later")) == ["!", "?"]
    patches.undo()
    assert Later().ask("a") == "later!"
    other.undo()
    assert type(vars(Later)["ask"]).__name__ == "function"
    assert same(before, state())


def test_what_two_adapters_put_there_alike_is_called_once(patches: Patches) -> None:
    """It stays until neither needs it, and a traceback names it once."""
    other, wrapper = Patches(), adding("?")
    for each in (patches, other):
        each.wrap(Loud, "ask", wrapper)
    assert Loud().ask("a") == "A?"
    patches.undo()
    assert Loud().ask("a") == "A?"
    other.undo()
    assert Loud().ask("a") == "A"


def test_an_adapter_that_comes_back_hooks_what_others_hold(
    patches: Patches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's own wrapper around one of ours that is off does not keep a later one from its work."""
    patches.family(Base, ["ask"], one_mark("?"))
    ours = vars(Loud)["ask"]
    monkeypatch.setattr(Loud, "ask", lambda self, question: "theirs: " + ours.__get__(self, Loud)(question))
    patches.undo()
    again = Patches()
    again.family(Base, ["ask"], one_mark("!"))
    assert Loud().ask("a") == "theirs: A!"
    again.undo()
    assert Loud().ask("a") == "theirs: A"
    monkeypatch.undo()
    assert Loud().ask("a") == "A"


def hooks(name: str) -> Adapter:
    """Return an adapter of the classes here."""
    return Adapter(
        name, {__name__: lambda _, patches: patches.family_calls(Base, ["ask"], described_as(name))}
    )


def described_as(name: str) -> Boundary:
    """Return a boundary of an adapter's own, that finds what others find too."""
    return Boundary(
        "tool", lambda _instance, args, _kwargs: ("ask", {"question": args[0]}), lambda value: value
    )


@pytest.mark.parametrize("ends_first", ["one", "two"])
@pytest.mark.parametrize("is_instrumented", [False, True])
def test_replays_overlap_in_threads_and_end_in_either_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_first: str, is_instrumented: bool
) -> None:
    """Each keeps its adapter until its own end, whatever the program itself switches on meanwhile."""
    before = state()
    adapters = {name: hooks(name) for name in ("one", "two")}
    for name, adapter in adapters.items():
        with tried(adapter):
            assert record(tmp_path / f"{name}.jsonl", lambda: Loud().ask("a")).tree == ["ask#1"]
    have_begun, may_end = threading.Barrier(3), {name: threading.Event() for name in adapters}
    saw: dict[str, Any] = {}

    def agent(name: str) -> list[str]:
        have_begun.wait(10)
        assert may_end[name].wait(10)
        return [Loud().ask("a")]

    def replayed(name: str) -> None:
        with tried(adapters[name]):
            saw[name] = stepfork.replay(tmp_path / f"{name}.jsonl", lambda: agent(name))

    threads = {name: threading.Thread(target=replayed, args=[name]) for name in adapters}
    for thread in threads.values():
        thread.start()
    have_begun.wait(10)
    if is_instrumented:
        monkeypatch.setitem(_switch._others, "three", hooks("three"))
        stepfork.instrument("three")
    for name in (ends_first, *(adapters.keys() - {ends_first})):
        may_end[name].set()
        threads[name].join()
    assert {name: (told.value, told.frontiers) for name, told in saw.items()} == {
        name: (["A"], []) for name in adapters
    }
    assert [told.unused_calls for told in saw.values()] == [[], []]
    if is_instrumented:
        assert record(tmp_path / "three.jsonl", lambda: Loud().ask("a")).tree == ["ask#1"]
        _switch._for_good.discard("three")
        _switch._switch_off(_switch._others["three"])
    assert same(before, state())
