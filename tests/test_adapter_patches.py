"""What an adapter has put around functions of a library, and taken away again."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from recorded import record
from stepfork.adapters import Boundary, Patches


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
