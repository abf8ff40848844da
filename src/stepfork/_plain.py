"""How to look at a value in its Plain form: what it is, what text or number it holds, what is in it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepfork._calls import Plain

SEQUENCE_TAGS: Final = frozenset({"$tuple", "$set", "$frozenset"})
SET_TAGS: Final = frozenset({"$set", "$frozenset"})
TEXT_TAGS: Final = frozenset({"$str", "$datetime", "$date", "$time", "$decimal", "$uuid", "$path"})
_CONTAINER_TAGS: Final = SEQUENCE_TAGS | {"$dict", "$object", "$exception", "$shared"}
_CLASS_TAGS: Final = frozenset({"$object", "$enum", "$exception", "$opaque"})


_LISTS: Final = SEQUENCE_TAGS | {"$dict", "$timedelta", "$complex", "$shared"}
_TEXTS: Final = TEXT_TAGS | _CLASS_TAGS | {"$int", "$float", "$bytes", "$bytearray"}


_DEEPEST: Final = 400
"""What the codec writes is never as deep: what is deeper stands in the table of ``$shared``."""


def damage(plain: Plain) -> str | None:
    """Say what is wrong with a value that nobody can have written so; None: it has the form of one.

    What is inside a text is not looked at: a secret in it may have been replaced.
    """
    level = [plain]
    for _ in range(_DEEPEST):
        deeper: list[Plain] = []
        for value in level:
            parts = value
            if type(value) is dict:
                name = tag(value)
                if name is not None and not _has_form(name, value):
                    return f"a malformed {name}"
                parts = value.values()
            elif type(value) is not list:
                continue
            deeper += [part for part in parts if type(part) is dict or type(part) is list]
        if not deeper:
            return None
        level = deeper
    return f"values that are nested more than {_DEEPEST} deep"


def _has_form(name: str, plain: dict[str, Plain]) -> bool:
    held = plain[name]
    if name in _LISTS and not isinstance(held, list):
        return False
    if name in _TEXTS and not isinstance(held, str):
        return False
    match name:
        case "$dict":
            return all(isinstance(pair, list) and len(pair) == 2 for pair in held)
        case "$timedelta":
            return len(held) == 3 and all(isinstance(part, int) for part in held)
        case "$shared":
            return "value" in plain
    return True


def canonical(plain: Plain) -> bytes:
    """Return the bytes that two values have in common exactly when they are the same."""
    return msgspec.json.encode(plain, order="sorted")


def is_tag(key: str) -> bool:
    """Whether the first key of a dict says that it stands for something else; a user's ``$`` is doubled."""
    return key.startswith("$") and not key.startswith("$$")


def tag(plain: Plain) -> str | None:
    """Return the ``$tag`` of a tagged value, None for every other value."""
    if isinstance(plain, dict):
        first = next(iter(plain), "")
        if is_tag(first):
            return str(first)
    return None


def kind(plain: Plain) -> str:
    """Name the type of the value that ``plain`` stands for: ``int``, ``tuple``, ``shop.models:Order``."""
    name = tag(plain)
    if name is None:
        return "null" if plain is None else type(plain).__name__
    if name == "$shared":
        return kind(plain["value"])
    return str(plain[name]) if name in _CLASS_TAGS else name[1:]


def is_container(plain: Plain) -> bool:
    """Whether there are values inside that have paths of their own."""
    if isinstance(plain, dict):
        name = tag(plain)
        return name is None or name in _CONTAINER_TAGS
    return isinstance(plain, list)


def text(plain: Plain) -> str | None:
    """Return the text of a string, or of a value that is written as one (a UUID, a date, a path)."""
    if isinstance(plain, str):
        return plain
    name = tag(plain)
    return str(plain[name]) if name in TEXT_TAGS else None


def number(plain: Plain) -> Fraction | float | None:
    """Return the number exactly as it is written; a float only for NaN and the infinities; else None."""
    if isinstance(plain, int | float):
        return None if isinstance(plain, bool) else _exact(plain)
    match tag(plain):
        case "$int":
            return _read(lambda digits: Fraction(int(digits, 16)), plain["$int"])
        case "$float":
            return _read(float, plain["$float"])
        case "$decimal":
            return _read(_decimal, plain["$decimal"])
        case "$timedelta":
            days, seconds, micros = plain["$timedelta"]
            return Fraction(days * 86_400_000_000 + seconds * 1_000_000 + micros, 1_000_000)
    return None


def _read(read: Callable[[str], Fraction | float], digits: str) -> Fraction | float | None:
    try:
        return read(digits)
    except (ValueError, OverflowError):  # a secret was replaced in it, or somebody edited the file
        return None


def _exact(value: float) -> Fraction:
    # By its digits, not its bits: the user who allows 0.1 between 1.0 and 1.1 means decimals.
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _decimal(digits: str) -> Fraction | float:
    try:
        return Fraction(digits)
    except ValueError:  # Decimal("NaN"), Decimal("-Infinity"), Decimal("sNaN")
        return float(digits.lower().replace("snan", "nan"))


def elements(plain: Plain) -> tuple[tuple[str, ...], list[Plain]] | None:
    """Return the items of a list, tuple or set, and the steps that lead to them; else None."""
    if isinstance(plain, list):
        return (), plain
    name = tag(plain)
    return ((name,), plain[name]) if name in SEQUENCE_TAGS else None


def fields(plain: Plain) -> Iterator[tuple[str | int, tuple[str | int, ...], Plain]]:
    """Yield what is in a value as its user sees it: name or index, steps to it in the Plain form, value.

    Tags are looked through: an object has its attributes, a tuple its items, a dict its own keys.
    """
    items = elements(plain)
    if items is not None:
        prefix, values = items
        for index, value in enumerate(values):
            yield index, (*prefix, index), value
    elif tag(plain) == "$shared":
        for name, steps, value in fields(plain["value"]):
            yield name, ("value", *steps), value
        for index, value in enumerate(plain["$shared"]):
            yield index, ("$shared", index), value
    elif is_container(plain):
        yield from _named_fields(plain)


def _named_fields(plain: dict[str, Plain]) -> Iterator[tuple[str, tuple[str | int, ...], Plain]]:
    name = tag(plain)
    if name is None:
        for key, value in plain.items():
            yield key[1:] if key.startswith("$$") else key, (key,), value
    elif name == "$dict":
        for index, (key, value) in enumerate(plain[name]):
            yield key if isinstance(key, str) else canonical(key).decode(), (name, index, 1), value
    else:
        for key, value in plain.items():
            if key == "state" and isinstance(value, dict):
                yield from ((field, ("state", field), inner) for field, inner in value.items())
            elif key not in (name, "of"):
                yield key, (key,), value


def readable(plain: Plain) -> Plain:
    """Return a value as a person would write it in JSON: fields of an object by name, no type tags."""
    if isinstance(plain, list):
        return [readable(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tag = next(iter(plain), "")
    if tag == "$object" and isinstance(plain.get("state"), dict):
        return {key: readable(value) for key, value in plain["state"].items()}
    if tag == "$enum":
        return plain.get("name")
    if is_tag(tag) and len(plain) == 1:
        return readable(plain[tag])
    return {
        key.removeprefix("$") if key.startswith("$$") else key: readable(value)
        for key, value in plain.items()
    }
