"""Dataclasses, attrs, msgspec, pydantic and plain objects, and what third parties register."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Generic, Literal, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from codec_values import Box, Hashed, Line, Model, Strict, assert_comes_back, through_json
from stepfork._codec import decode, encode, register_type, type_name
from stepfork.errors import ClassChanged

Kind = TypeVar("Kind")


def test_attributes_outside_of_the_declared_fields_come_back() -> None:
    """What __post_init__ or other code sets on a dataclass or a model is part of it (B32)."""
    line = Line("a")
    line.note = "late"  # type: ignore[attr-defined]
    assert through_json(line).note == "late"
    model = Model.model_validate({"x": 1, "more": 2})
    model._private = 9
    back = through_json(model)
    assert (back._private, back.__pydantic_extra__, back.model_fields_set) == (9, {"more": 2}, {"x", "more"})


def test_no_code_of_the_class_runs_when_a_value_is_read() -> None:
    """Neither __init__ nor __post_init__, a validator or __setstate__ runs."""
    strict = Strict(1)
    strict.a = 2  # __post_init__ would refuse it
    assert through_json(strict).a == 2
    assert through_json(Model.model_construct(x=99)).x == 99
    line = Line("a", 1)
    line.count = 5
    assert through_json(line).seen == ("a", 1)


def test_an_unset_field_stays_unset() -> None:
    """A declared field that was deleted is not an error on reading."""
    line = Line("a")
    del line.tags
    assert not hasattr(through_json(line), "tags")


def test_a_cached_hash_is_not_recorded() -> None:
    """Hashes of text differ from process to process."""
    hashed = Hashed(1)
    hash(hashed)
    assert encode(hashed).plain["extra"] == {"_attrs_cached_hash": None}
    assert hash(through_json(hashed)) == hash(hashed)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    age: int = 1


class Puppy(Dog):
    toys: list[Any] = []


class Owner(pydantic.BaseModel):
    pet: Cat | Dog = pydantic.Field(discriminator="kind")


class Sealed(pydantic.BaseModel, frozen=True):
    a: int = 1
    secret: pydantic.SecretBytes = pydantic.SecretBytes(b"x")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> int:
        return self.a * 2

    @functools.cached_property
    def slow(self) -> tuple[int, ...]:
        return (self.a,)


@pydantic.dataclasses.dataclass
class Checked:
    a: int


class ByPlace(msgspec.Struct, array_like=True):
    a: int = 1


class Renamed(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", weakref=True, dict=True):
    some_a: int = 1


class Holding(msgspec.Struct, Generic[Kind]):
    a: Kind


@attrs.define(slots=True, frozen=True)
class Private:
    a: int
    _b: int = attrs.field(default=3, alias="b")


@dataclasses.dataclass(kw_only=True, slots=True)
class Keyword(Generic[Kind]):
    a: Kind


@pytest.mark.parametrize(
    "value",
    [
        Owner(pet=Dog()),
        Owner.model_construct(pet=Puppy(age=2, toys=[(1,)])),
        Sealed(a=2),
        Checked(1),
        ByPlace(2),
        Renamed(some_a=3),
        Holding((1, 2)),
        Holding[int](5),
        Private(1, b=2),
        Keyword(a={1: Private(1)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_of_every_library_come_back_polymorphic(value: Any) -> None:
    """Unions, frozen and computed fields, tags, renamed and private names: each is of its own class (B32)."""
    back = through_json([value])[0]
    assert (type(back), back) == (type(value), value)
    if isinstance(value, Owner):
        assert type(back.pet) is type(value.pet)


def test_a_cached_property_comes_back_and_a_computed_field_is_computed() -> None:
    """What was worked out already is part of the object; what is computed anew is not recorded."""
    sealed = Sealed(a=2)
    assert sealed.slow == (2,)
    plain = encode(sealed).plain
    assert "doubled" not in plain["state"]
    back = decode(plain)
    assert (back.__dict__["slow"], back.doubled, back.model_fields_set) == ((2,), 4, {"a"})


def test_a_generic_model_is_found_by_its_parameters() -> None:
    """Pydantic's parametrised models are held by no module when they are made in a function."""
    assert_comes_back(Box[dict[str, Line]](content={"a": Line("a")}))


class Money:
    __slots__ = ("cents",)

    def __init__(self, cents: int) -> None:
        if not isinstance(cents, int):
            raise TypeError(cents)
        self.cents = cents


def test_a_third_party_registers_a_type_in_one_call() -> None:
    """The pair of functions is used for exactly that class, wherever it stands."""
    register_type(Money, lambda money: (money.cents, "EUR"), lambda parts: Money(parts[0]))
    back = through_json([{"price": Money(5)}])
    assert (type(back[0]["price"]), back[0]["price"].cents) == (Money, 5)
    with pytest.raises(ClassChanged, match="Money failed: TypeError"):
        decode({"$object": type_name(Money), "of": "value", "value": {"$tuple": ["x"]}})


class Euro(Money):
    pass


def test_a_registration_is_for_exactly_one_class() -> None:
    """A derived class is recorded by its own state, as it would be without the registration of its base."""
    register_type(Money, lambda money: money.cents, Money)
    back = through_json(Euro(7))
    assert (type(back), back.cents) == (Euro, 7)
    assert encode(Euro(7)).plain["state"] == {"cents": 7}


def test_a_class_that_was_met_before_can_still_be_registered() -> None:
    """The order of the first recording and the registration does not matter."""

    class Late:
        def __init__(self, a: int) -> None:
            self.a = a

    assert encode(Late(1)).plain["state"] == {"a": 1}
    register_type(Late, lambda late: late.a, Late)
    assert encode(Late(1)).plain == {"$object": type_name(Late), "of": "value", "value": 1}


@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemExit, GeneratorExit, RecursionError])
def test_a_registered_function_that_raises_costs_a_placeholder(fault: type[BaseException]) -> None:
    """A fault of a third party does not reach the agent (B11)."""

    class Broken: ...

    def fail(value: Broken) -> None:
        raise fault

    register_type(Broken, fail, lambda parts: Broken())
    assert encode([Broken(), 1]) == (
        [{"$opaque": type_name(Broken), "repr": f"<{Broken.__qualname__} object>"}, 1],
        True,
    )
