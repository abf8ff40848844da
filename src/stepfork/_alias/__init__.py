"""Ids, addresses, temp paths and times that the code itself made: given the same alias in every run.

What stands in the root input or in a recorded outcome is a fact and stays as it is. Of everything
else that looks made, only the identity counts: ``<uuid:1>`` is the same id wherever it stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from stepfork._alias.tokens import hint, made_text
from stepfork._plain import SET_TAGS, canonical

if TYPE_CHECKING:
    import re
    from collections.abc import Container, Iterator, Mapping

    from stepfork._calls import Plain

_TextRule: TypeAlias = Callable[[str], str]
_NumberRule: TypeAlias = Callable[[float], Any]
_Namer: TypeAlias = Callable[[str, str | float], str]

_CLOCK_SLACK: Final = 2.0
_EPOCH_FROM: Final = 1e9  # 2001; smaller numbers are no clock's
_EPOCH_MS_FROM: Final = 1e12


class Token(NamedTuple):
    """A piece of text that looks made: ``kind`` is ``uuid``, ``time``, ``path``, ..."""

    kind: str
    text: str


def tokens(plain: Plain) -> Iterator[Token]:
    """Yield the tokens in the strings and keys of a value, in an order that does not depend on their text."""
    if isinstance(plain, str):
        yield from (Token(_kind(match), match[0]) for match in _found(plain))
    elif isinstance(plain, dict):
        for key in _in_order(plain):
            yield from tokens(key)
            yield from tokens(_set_in_order(plain[key]) if key in SET_TAGS else plain[key])
    elif isinstance(plain, list):
        for value in plain:
            yield from tokens(value)


class Facts:
    """The tokens, and the numbers that could be clock readings, which no alias may stand for."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[str | int | float] = set()

    def __contains__(self, token: str | float) -> bool:
        return token in self._known

    def add(self, plain: Plain, *, unless: Container[str] = ()) -> None:
        """Make every token and clock-like number of the root input, or of a recorded outcome, a fact.

        ``unless`` holds the texts that the code is known to have made, which an outcome only echoes.
        """
        work = [plain]
        while work:
            value = work.pop()
            if isinstance(value, str):
                self._known.update(token.text for token in tokens(value) if token.text not in unless)
            elif isinstance(value, dict):
                work.extend(value)
                work.extend(value.values())
            elif isinstance(value, list):
                work.extend(value)
            elif _is_number(value) and value >= _EPOCH_FROM:
                self._known.update({value, repr(value)} if repr(value) not in unless else {value})


class Aliases:
    """The aliases of one side, the recorded or the replayed one.

    Args:
        facts: what is never aliased.
        clock: between which seconds since the epoch this side ran; an end in the future if it still
            does. A number within (and two seconds around) it that is no fact, in seconds or
            milliseconds, is a time that the code read.
    """

    __slots__ = ("_clock", "_facts", "_numbers", "_settled")

    def __init__(self, facts: Facts, *, clock: tuple[float, float] | None = None) -> None:
        self._facts = facts
        self._clock = clock
        self._numbers: dict[str, dict[str | int | float, str]] = {}
        # Texts in which nothing was made: a conversation is looked at again with each call that repeats it.
        self._settled: set[str] = set()

    def blank(self, plain: Plain) -> Plain:
        """Return the value with each made token as its bare kind, ``<uuid>``; itself if there is none."""
        return self._rewritten(plain, lambda kind, _: f"<{kind}>")

    def number(self, plain: Plain) -> Plain:
        """Return the value with each made token numbered by first sight, ``<uuid:1>``; itself without one."""
        return self._rewritten(plain, self._numbered)

    def _rewritten(self, plain: Plain, name: _Namer) -> Plain:
        try:
            return _rewrite(plain, partial(self._text, name), partial(self._time, name))
        except RecursionError:  # too deep to be looked through: compared as it is
            return plain

    def _numbered(self, kind: str, token: str | float) -> str:
        seen = self._numbers.setdefault(kind, {})
        return seen.setdefault(token, f"<{kind}:{len(seen) + 1}>")

    def _text(self, name: _Namer, text: str) -> str:
        if text in self._settled:
            return text
        made = self._with_aliases(name, text)
        if made != text:
            return made
        if self._clock is None or not _holds_epoch(text):
            self._settled.add(text)
        return text

    def _with_aliases(self, name: _Namer, text: str) -> str:
        def alias(match: re.Match[str]) -> str:
            token = match[0]
            kind = _kind(match)
            if token in self._facts or (kind == "epoch" and not self._is_now(float(token))):
                return token
            # Brackets in front of an alias are doubled, as those of literal text that looks like one:
            # an odd number means alias, an even one means text.
            before = text[: match.start()]
            return "<" * (len(before) - len(before.rstrip("<"))) + name(kind, token)

        return made_text().sub(
            lambda match: match[0] * 2 if match.lastgroup == "literal" else alias(match), text
        )

    def _time(self, name: _Namer, number: float) -> Plain:
        if self._clock is None or not self._is_now(number) or number in self._facts:
            return number
        unit = "-ms" if number >= _EPOCH_MS_FROM else ""
        return name(f"epoch{unit}{'-float' if isinstance(number, float) else ''}", number)

    def _is_now(self, number: float) -> bool:
        if self._clock is None:
            return False
        unit = 1000 if number >= _EPOCH_MS_FROM else 1  # an integer may be too large to be divided
        began, ended = self._clock
        return (began - _CLOCK_SLACK) * unit <= number <= (min(ended, time.time()) + _CLOCK_SLACK) * unit


def pair(recorded: Plain, now: Plain) -> dict[str, str]:
    """Return what each made token of ``recorded`` is in ``now``, by position.

    Both are the same value but for their tokens: their ``blank`` forms are equal.
    """
    mapping: dict[str, str] = {}
    for then, current in zip(tokens(recorded), tokens(now), strict=False):
        if then.kind != current.kind:
            break
        if then.text != current.text:
            mapping.setdefault(then.text, current.text)
    return mapping


def rebind(plain: Plain, mapping: Mapping[str, str]) -> Plain:
    """Return the value with whole tokens replaced; itself if it holds none of them."""
    if not mapping:
        return plain

    def text(value: str) -> str:
        return made_text().sub(lambda match: mapping.get(match[0], match[0]), value)

    try:
        return _rewrite(plain, text, lambda number: number)
    except RecursionError:
        return plain


def _rewrite(plain: Plain, text: _TextRule, number: _NumberRule) -> Plain:
    kind = type(plain)
    if kind is str:
        return plain if hint(plain) is None else text(plain)
    if kind is dict:
        return _rewrite_dict(plain, text, number)
    if kind is list:
        return _rewrite_list(plain, text, number)
    return number(plain) if _is_number(plain) and plain >= _EPOCH_FROM else plain


def _rewrite_list(plain: list[Plain], text: _TextRule, number: _NumberRule) -> list[Plain]:
    made = [_rewrite(value, text, number) for value in plain]
    return made if any(map(is_not, made, plain)) else plain


def _rewrite_dict(plain: dict[str, Plain], text: _TextRule, number: _NumberRule) -> Plain:
    changed: dict[str, tuple[str, Plain]] = {}
    for key in _in_order(plain):
        value = plain[key]
        new_value = (_rewrite_set if key in SET_TAGS else _rewrite)(value, text, number)
        new_key = key if hint(key) is None else text(key)
        if new_value is not value or new_key is not key:
            changed[key] = new_key, new_value
    return _dict_of([changed.get(key, (key, value)) for key, value in plain.items()]) if changed else plain


def _rewrite_set(plain: list[Plain], text: _TextRule, number: _NumberRule) -> list[Plain]:
    made = sorted([_rewrite(value, text, number) for value in _set_in_order(plain)], key=canonical)
    return plain if made == plain else made


def _dict_of(items: list[tuple[str, Plain]]) -> Plain:
    made = dict(items)
    if len(made) == len(items):
        return made
    return {"$dict": sorted(([key, value] for key, value in items), key=canonical)}  # no value is lost


def _in_order(plain: dict[str, Plain]) -> list[str]:
    keys = sorted(plain)
    if hint("\n".join(keys)) is None:
        return keys
    return sorted(keys, key=lambda key: canonical([_ANONYMOUS.blank(key), _ANONYMOUS.blank(plain[key])]))


def _set_in_order(values: list[Plain]) -> list[Plain]:
    return sorted(values, key=lambda value: canonical(_ANONYMOUS.blank(value)))


def _found(text: str) -> Iterator[re.Match[str]]:
    if hint(text) is not None:
        yield from (match for match in made_text().finditer(text) if match.lastgroup != "literal")


def _holds_epoch(text: str) -> bool:
    """Whether it holds a time in seconds, which the clock may yet reach."""
    return any(_kind(match) == "epoch" for match in _found(text))


def _kind(match: re.Match[str]) -> str:
    return (match.lastgroup or "").rstrip("0123456789")


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


_ANONYMOUS: Final = Aliases(Facts())
