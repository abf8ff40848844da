"""Rules that say how far a value may be from the recorded one.

Each is given under a JSONPath over ``{"input": ..., "output": ...}``; a plain name stands for
``$..name``::

    @stepfork.step(tolerance={"score": approx(rel=0.01), "$.output.tags": unordered()})

A rule judges the recorded and the new value together: both must fit it. It is never asked about a
field that is missing on one side, nor, except for :func:`anything`, :func:`one_of` and :func:`a`,
about one whose type has changed (int and float are both numbers). Besides these, any
``callable(old, new) -> bool`` is a rule; it gets the values as they are written in the recording.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import time as dt_time
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Union, get_args, get_origin
from uuid import UUID

from stepfork._compare.embedding import Embed, cosine, installed_embedding
from stepfork._compare.multiset import leftovers
from stepfork._compare.rules import Rule, Rules, describe, is_retyped
from stepfork._plain import canonical, is_container, kind, number, tag, text
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stepfork._calls import Plain

__all__ = [
    "Rule",
    "Rules",
    "a",
    "anything",
    "approx",
    "describe",
    "from_text",
    "one_of",
    "regex",
    "semantic",
    "similar",
    "unordered",
]


_WORDS_FROM: Final = 2_000


def approx(*, rel: float | None = None, abs: float | None = None) -> Rule:
    """Numbers that are close: within ``rel`` of the larger one, or within ``abs`` of each other.

    Under a container it holds for every number inside. Numbers of opposite sign, and zero against
    anything else, are close only by ``abs``. A bool is not a number. NaN is close to NaN.

    Raises:
        OptionError: no bound is given, one is negative or not finite, or ``rel`` is 1 or more.
    """
    if rel is None and abs is None:
        raise OptionError("approx() needs rel=, abs= or both")
    for name, bound in (("rel", rel), ("abs", abs)):
        if bound is not None and not (_is_real(bound) and 0 <= bound < math.inf):
            raise OptionError(f"approx({name}={bound!r}): a bound is a number, zero or more")
    if rel is not None and rel >= 1:
        raise OptionError(f"approx(rel={rel!r}) would accept any value: rel is a fraction below 1")
    return Approx(rel, abs)


def unordered() -> Rule:
    """Lists, tuples or sets with the same elements in any order; how often each occurs counts."""
    return Unordered()


def one_of(*values: object) -> Rule:
    """Both values are among those listed.

    Raises:
        OptionError: none is listed.
    """
    if not values:
        raise OptionError("one_of() needs at least one value")
    return OneOf(tuple(canonical(_encoded(value)) for value in values))


def regex(pattern: str) -> Rule:
    """Both texts match the whole pattern; dates, UUIDs, paths and decimals count as their text.

    Raises:
        OptionError: the pattern does not compile.
    """
    try:
        return Regex(re.compile(pattern))
    except (re.error, TypeError) as error:
        raise OptionError(f"regex({pattern!r}): {error}") from error


def a(type_: Any) -> Rule:
    """Both values are of this type; a union (``str | None``) allows each of its members.

    A class of your own is meant exactly, not its subclasses. ``float`` includes int, as in type hints.

    Raises:
        OptionError: it is not a type, or a generic one such as ``list[int]``.
    """
    members = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    members = tuple(NoneType if member is None else member for member in members)
    for member in members:
        if not isinstance(member, type) or get_origin(member) is not None:
            raise OptionError(f"a({type_!r}): give a class such as str, or a union of classes")
    return A(frozenset(name for member in members for name in _kinds(member)), _type_text(members))


def similar(ratio: float) -> Rule:
    """Texts that have at least this share in common (0 to 1; ``difflib``'s ratio, of words when long).

    Raises:
        OptionError: the ratio is not above 0 and at most 1.
    """
    return Similar(_share("similar", ratio))


def semantic(score: float, *, embed: Embed | None = None) -> Rule:
    """Texts that mean the same: the cosine of their embeddings is at least ``score``.

    Args:
        score: above 0 and at most 1.
        embed: texts to vectors; without it, fastembed or sentence-transformers is used if installed.

    Raises:
        OptionError: the score is out of range. When it judges: there is nothing to embed with.
    """
    if embed is not None and not callable(embed):
        raise OptionError(f"semantic(embed={embed!r}): embed is a callable from texts to vectors")
    return Semantic(_share("semantic", score), embed)


def anything() -> Rule:
    """Whatever stands there, as long as something of the same type does."""
    return Anything()


@dataclass(frozen=True, slots=True)
class Approx:
    """See :func:`approx`."""

    rel: float | None
    abs: float | None

    def __call__(self, old: Plain, new: Plain) -> bool:
        if kind(old) == kind(new) and (is_container(old) or tag(old) == "$complex"):
            return self._inside(old, new)
        left, right = number(old), number(new)
        if left is None or right is None or is_retyped(old, new):
            return canonical(old) == canonical(new)
        return self.covers(left, right)

    def _inside(self, old: Plain, new: Plain) -> bool:
        if type(old) is not type(new) or len(old) != len(new):
            return False
        if isinstance(old, list):
            return all(map(self, old, new))
        return old.keys() == new.keys() and all(self(old[key], new[key]) for key in old)

    def covers(self, left: Any, right: Any) -> bool:
        """Whether two numbers are close."""
        if left == right or (left != left and right != right):
            return True
        if isinstance(left, float) or isinstance(right, float):  # NaN and infinities are near nothing else
            return False
        rel, absolute = (Fraction(repr(float(bound or 0))) for bound in (self.rel, self.abs))
        return bool(abs(left - right) <= max(rel * max(abs(left), abs(right)), absolute))

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        bounds = {"rel": self.rel, "abs": self.abs}
        given = [f"{name}={bound!r}" for name, bound in bounds.items() if bound is not None]
        return f"approx({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Unordered:
    """See :func:`unordered`."""

    def __call__(self, old: Plain, new: Plain) -> bool:
        if is_retyped(old, new):
            return False
        removed, added = leftovers(old, new) or ([0], [0])
        return not removed and not added

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        return "unordered()"


@dataclass(frozen=True, slots=True)
class OneOf:
    """See :func:`one_of`."""

    judges_type: ClassVar[bool] = True
    values: tuple[bytes, ...]

    def __call__(self, old: Plain, new: Plain) -> bool:
        return canonical(old) in self.values and canonical(new) in self.values

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        return f"one_of({', '.join(value.decode() for value in self.values)})"


@dataclass(frozen=True, slots=True)
class Regex:
    """See :func:`regex`."""

    pattern: re.Pattern[str]

    def __call__(self, old: Plain, new: Plain) -> bool:
        texts = text(old), text(new)
        return all(found is not None and self.pattern.fullmatch(found) for found in texts)

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        return f"regex({self.pattern.pattern!r})"


@dataclass(frozen=True, slots=True)
class A:
    """See :func:`a`."""

    judges_type: ClassVar[bool] = True
    kinds: frozenset[str]
    type_text: str

    def __call__(self, old: Plain, new: Plain) -> bool:
        return kind(old) in self.kinds and kind(new) in self.kinds

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        return f"a({self.type_text})"


@dataclass(frozen=True, slots=True)
class Similar:
    """See :func:`similar`."""

    ratio: float

    def __call__(self, old: Plain, new: Plain) -> bool:
        left, right = text(old), text(new)
        if left is None or right is None:
            return False
        long = max(len(left), len(right)) > _WORDS_FROM
        pieces: tuple[Sequence[str], Sequence[str]] = (left.split(), right.split()) if long else (left, right)
        matcher = difflib.SequenceMatcher(None, *pieces, autojunk=long)
        bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
        return all(bound() >= self.ratio for bound in bounds)

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        return f"similar({self.ratio!r})"


@dataclass(frozen=True, slots=True)
class Semantic:
    """See :func:`semantic`."""

    score: float
    embed: Embed | None = field(repr=False, compare=False)

    def __call__(self, old: Plain, new: Plain) -> bool:
        left, right = text(old), text(new)
        if left is None or right is None:
            return False
        if left == right:
            return True
        first, second = (self.embed or installed_embedding())([left, right])
        return cosine([float(x) for x in first], [float(x) for x in second]) >= self.score

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        return f"semantic({self.score!r})"


@dataclass(frozen=True, slots=True)
class Anything:
    """See :func:`anything`."""

    def __call__(self, old: Plain, new: Plain) -> bool:
        return True

    def describe(self) -> str:
        """Return the rule as it is written into a snapshot."""
        return "anything()"


def from_text(text: str) -> Rule:
    """Return the rule that a setting spells: ``approx(rel=0.01)``, ``a(str)``, ``one_of("a", "b")``.

    Raises:
        OptionError: it is no call of a rule in this module with plain arguments.
    """
    hint = f"write one of {', '.join(sorted(_BY_NAME))} as a call, as in approx(rel=0.01)"
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("it is no call")
        maker = _BY_NAME[call.func.id]
        values = [_type_or_literal(node) for node in call.args]
        options = {str(keyword.arg): _type_or_literal(keyword.value) for keyword in call.keywords}
        made: Rule = maker(*values, **options)
    except (SyntaxError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"tolerance {text!r} is no rule: {error}", ways_on=[hint]) from error
    return made


def _type_or_literal(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _type_or_literal(node.left) | _type_or_literal(node.right)
    if isinstance(node, ast.Name):
        return _TYPES_BY_NAME[node.id]
    return ast.literal_eval(node)


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share(name: str, value: float) -> float:
    if not _is_real(value) or not 0 < value <= 1:
        raise OptionError(f"{name}({value!r}): give a number above 0 and at most 1")
    return value


def _encoded(value: object) -> Plain:
    from stepfork._codec import encode

    return encode(value).plain


def _kinds(cls: type) -> Iterator[str]:
    if cls is NoneType:
        yield "null"
    elif issubclass(cls, PurePath):
        yield "path"
    elif cls.__module__ in _TAGGED_MODULES and not issubclass(cls, BaseException):
        yield cls.__name__.lower()
    else:
        yield f"{cls.__module__}:{cls.__qualname__}"
    if cls is float:
        yield "int"


_TAGGED_MODULES: Final = ("builtins", "datetime", "decimal", "uuid")


def _type_text(members: Iterable[type]) -> str:
    return " | ".join("None" if member is NoneType else member.__qualname__ for member in members)


_BY_NAME: Final[dict[str, Callable[..., Rule]]] = {
    "approx": approx,
    "unordered": unordered,
    "one_of": one_of,
    "regex": regex,
    "a": a,
    "similar": similar,
    "semantic": semantic,
    "anything": anything,
}

_TYPES_BY_NAME: Final = {
    cls.__name__: cls
    for cls in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
        *(date, datetime, dt_time, timedelta, Decimal, UUID, PurePath),
    )
}
