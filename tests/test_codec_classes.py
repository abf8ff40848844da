"""Classes found by name or hint, those that are not there, and those that have changed."""

from __future__ import annotations

import dataclasses
import fractions
import pickle
import typing
from collections.abc import Callable
from typing import Annotated, Any
from unittest import mock

import msgspec
import numpy as np
import pydantic
import pytest

from codec_values import (
    Bounded,
    Colour,
    Frozen,
    Hashed,
    Line,
    Model,
    Node,
    Pair,
    Point,
    Tagged,
    run_python,
    through_json,
)
from stepfork._codec import Opaque, collect_hint_classes, decode, encode, type_name
from stepfork.errors import ClassChanged, StandInTouched


def test_nothing_is_imported_by_reading() -> None:
    """A class whose module is not loaded is a stand-in that says so when touched (B77)."""
    plain = msgspec.json.encode(encode([Line("a"), fractions.Fraction(1, 3), np.float64(1)]).plain).decode()
    output = run_python(
        f"""
        import sys, msgspec
        from stepfork._codec import *
        from stepfork.errors import StandInTouched
        before = set(sys.modules)
        line, fraction, number = decode(msgspec.json.decode({plain!r}))
        assert set(sys.modules) == before, set(sys.modules) - before
        assert encode([line, fraction, number]) == (msgspec.json.decode({plain!r}), False)
        try:
            line.sku
        except StandInTouched as error:
            print(error)
        """
    )
    assert "stand-in for codec_values:Line: its class is not loaded" in output
    assert "'sku'" in output


def test_a_stand_in_is_handed_on_as_what_it_stands_for() -> None:
    """The next call is found by the arguments that were recorded, stand-in or not."""
    plain = {"$object": "nowhere:Order", "state": {"id": {"$tuple": [1]}}}
    stand_in = decode(plain)
    assert encode({"order": stand_in}) == ({"order": plain}, False)
    assert stand_in == decode(plain)
    assert len({stand_in, decode(plain)}) == 1
    assert pickle.loads(pickle.dumps(stand_in)) == stand_in
    assert bool(stand_in)
    assert encode(decode({"$opaque": "a:B", "repr": "<B object>"})).lossy


@pytest.mark.parametrize(
    "touch",
    [
        lambda it: it.total,
        lambda it: it.total(),
        lambda it: it["total"],
        lambda it: list(it),
        lambda it: len(it),
        lambda it: it(),
        lambda it: setattr(it, "total", 1),
    ],
)
def test_touching_a_stand_in_says_what_it_stands_for(touch: Callable[[Any], object]) -> None:
    """The error names the class, and what to do."""
    with pytest.raises(StandInTouched, match="shop:Order") as caught:
        touch(decode({"$object": "shop:Order", "state": {}}))
    assert caught.value.ways_on


def test_a_stand_in_from_a_knot_can_be_written_again() -> None:
    """A part of a cycle keeps what it refers to."""
    plain = {"$shared": [[{"$object": "gone:A", "state": {"all": {"$ref": 0}}}]], "value": {"$ref": 0}}
    stand_in = decode(plain)[0]
    again = decode(encode(stand_in).plain)
    assert again == stand_in
    assert "gone:A" in repr(again)


def test_a_local_class_is_found_through_the_hints() -> None:
    """A class that no module holds comes back where the recorded function names it."""

    @dataclasses.dataclass
    class Local:
        a: int

    def ask(items: Any) -> None: ...

    ask.__annotations__["items"] = list[Annotated[dict[str, Local | None], "doc"]]
    assert isinstance(through_json(Local(1)), Opaque)
    assert through_json(Local(1), hints=[Local]) == Local(1)
    assert through_json(Local(1), hints=[dict[str, list[Local]]]) == Local(1)
    assert through_json([Local(1)], hints=collect_hint_classes(ask)) == [Local(1)]


def test_hints_lead_through_unions_type_variables_and_fields() -> None:
    """Every class that an annotation names, however deep, is collected once, the nearest first."""

    class Holder(pydantic.BaseModel):
        lines: list[Line]

    def ask(one: Any, *rest: Bounded, then: Callable[[Frozen], Pair | None]) -> Model | None: ...

    ask.__annotations__["one"] = Holder
    classes = collect_hint_classes(ask)
    assert {Holder, Line, Colour, Frozen, Pair, Model} <= set(classes)
    assert len(classes) == len(set(classes))


def test_hints_that_cannot_be_evaluated_are_left_out() -> None:
    """A name that exists for type checkers alone does not hide the others (B06)."""

    def ask(one: NotThere, two: Line) -> None: ...  # type: ignore[name-defined] # noqa: F821

    assert Line in collect_hint_classes(ask)
    assert collect_hint_classes(len) == []
    alias = typing.NewType("alias", Pair)

    def narrow(one: Any) -> None: ...

    narrow.__annotations__["one"] = alias
    assert Pair in collect_hint_classes(narrow)
    assert collect_hint_classes(mock.Mock()) == []


def test_a_class_that_has_moved_is_found_by_its_alias() -> None:
    """The name as recorded is mapped to the one now."""
    plain = {"$object": "old.place:Row", "state": {"sku": "a", "count": 2, "tags": []}, "extra": {"seen": 1}}
    back = decode(plain, aliases={"old.place:Row": type_name(Line)})
    assert (type(back), back.count) == (Line, 2)
    assert decode({"$enum": "old:Col", "name": "RED"}, aliases={"old:Col": type_name(Colour)}) is Colour.RED


@pytest.mark.parametrize(
    ("cls", "state", "filled"),
    [
        (Line, {"sku": "a"}, {"count": 1, "tags": []}),
        (Frozen, {"a": 1}, {"b": ()}),
        (Point, {"x": 1}, {"_hidden": "h"}),
        (Hashed, {"x": 4}, {"twice": 8}),
        (Tagged, {"a": 1}, {"b": [], "c": msgspec.UNSET}),
        (Model, {"x": 1}, {"url": None, "_private": 3}),
    ],
)
def test_a_field_that_is_new_takes_its_default(
    cls: type, state: dict[str, Any], filled: dict[str, Any]
) -> None:
    """A class may gain a field with a default after it was recorded."""
    back = decode({"$object": type_name(cls), "state": state})
    assert {name: getattr(back, name) for name in filled} == filled


def test_a_named_tuple_may_gain_a_field() -> None:
    """Its fields are recorded by name."""
    assert decode({"$object": type_name(Pair), "of": "namedtuple", "state": {"left": 1}}) == Pair(1, "r")


@pytest.mark.parametrize("cls", [Line, Frozen, Point, Tagged, Model, Pair])
def test_a_class_that_no_longer_fits_is_an_error_that_names_the_field(cls: type) -> None:
    """A required field that is new, or a recorded one that is gone, is said by type and name."""
    kind = {"of": "namedtuple"} if cls is Pair else {}
    required = {Line: "sku", Frozen: "a", Point: "x", Tagged: "a", Model: "x", Pair: "left"}[cls]
    with pytest.raises(ClassChanged, match=f"{cls.__name__} has changed.*'{required}' is new") as caught:
        decode({"$object": type_name(cls), **kind, "state": {}})
    assert (caught.value.type, caught.value.field) == (type_name(cls), required)
    with pytest.raises(ClassChanged, match="'bygone' is gone"):
        decode({"$object": type_name(cls), **kind, "state": {required: 1, "bygone": 2}})


def test_a_class_that_changed_its_built_in_base_is_an_error() -> None:
    """What was a text and is a plain object now cannot hold what was recorded."""
    with pytest.raises(ClassChanged, match="another built-in class"):
        decode({"$object": type_name(Node), "of": "str", "base": "x", "state": {}})


def test_a_member_of_an_enum_that_is_gone_is_an_error() -> None:
    """The enum and the member are named."""
    with pytest.raises(ClassChanged, match=r"Colour has changed.*'GREEN'"):
        decode({"$enum": type_name(Colour), "name": "GREEN"})
