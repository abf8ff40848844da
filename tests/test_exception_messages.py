"""The text of an exception: had without running what the user has written."""

from __future__ import annotations

import subprocess
from typing import Any

import pydantic
import pytest

from stepfork._codec import decode_exception, encode_exception
from stepfork._codec.messages import message_of
from test_exceptions import Item, raised


class Silent(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Endless(Exception):
    """Whoever asks for its text, or for any attribute, waits for ever."""

    armed = False

    def __str__(self) -> str:
        while True:
            pass

    __repr__ = __str__

    def __getattribute__(self, name: str) -> Any:
        while Endless.armed:
            pass
        return super().__getattribute__(name)


def test_memory_addresses_are_taken_out_of_messages() -> None:
    """A default repr in a message changes from run to run (B72)."""
    plain = encode_exception(ValueError(f"no handler for {object()}")).plain
    assert plain["message"] == "no handler for <object object>"


def test_an_exception_whose_text_acts_is_recorded_without_asking_for_it() -> None:
    """A ``__str__`` of the user's is not run, whatever it would do: raise, exit or never end (B11)."""
    plain, lossy = encode_exception(Silent("x"))
    assert (plain["message"], plain["args"], lossy) == ("x", ["x"], False)


def test_an_exception_that_never_answers_does_not_hold_up_the_agent() -> None:
    """Neither its text nor an attribute is asked of it, nor of what it holds (B11)."""
    inner = Endless("inner", 2)
    outer = ValueError(inner)
    outer.__cause__ = inner
    Endless.armed = True
    try:
        plain = encode_exception(outer).plain
        alone = encode_exception(inner).plain
    finally:
        Endless.armed = False
    assert (plain["message"], plain["cause"]["message"]) == ("('inner', 2)", "('inner', 2)")
    assert alone["args"] == ["inner", 2]


class Told(Exception):
    """Has a text of its own, made of what it was given by name."""

    def __init__(self, *, tool: str, seconds: float) -> None:
        self.tool, self.seconds = tool, seconds

    def __str__(self) -> str:
        return f"{self.tool} took {self.seconds} s"


class Basket:
    pass


@pytest.mark.parametrize(
    ("exc", "message"),
    [
        (ValueError(), ""),
        (ValueError("a", 1), "('a', 1)"),
        (KeyError("amount"), "'amount'"),
        (KeyError(("a", 1)), "('a', 1)"),
        (ValueError({"a": [1, None]}), "{'a': [1, None]}"),
        (ValueError(ValueError("inner")), "inner"),
        (ValueError(Basket()), "<Basket object>"),
        (ValueError("no", Basket()), "('no', <Basket object>)"),
        (ValueError([Basket()]), "<list object>"),
        (Told(tool="search", seconds=2.5), "tool='search', seconds=2.5"),
        (subprocess.CalledProcessError(1, ["ls"]), "Command '['ls']' returned non-zero exit status 1."),
        (ExceptionGroup("two", [ValueError(Basket())]), "two (1 sub-exception)"),
        (raised("None.x"), "'NoneType' object has no attribute 'x'"),
        (ValueError("\ud800" * 3), "\ud800" * 3),
    ],
    ids=lambda part: type(part).__name__,
)
def test_the_message_is_what_python_says_where_that_runs_no_code_of_the_users(
    exc: BaseException, message: str
) -> None:
    """The texts of Python and libraries are kept; else the arguments are told, or the attributes (B11)."""
    assert message_of(exc) == message


def test_a_validation_error_on_a_hostile_input_is_recorded() -> None:
    """Pydantic's text would ask the input for its repr (B11)."""
    with pytest.raises(pydantic.ValidationError) as caught:
        Item(count=Endless("x"))  # type: ignore[arg-type]
    assert message_of(caught.value) == ""
    assert decode_exception(encode_exception(caught.value).plain).error_count() == 1  # type: ignore[attr-defined]
