"""Finds how many tokens a model took in what it answered: each provider tells it under names of its own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from stepfork._calls import Usage
from stepfork._plain import tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepfork._calls import Plain


class _Names(NamedTuple):
    """How one family of providers calls the numbers; a dot leads inwards."""

    input: tuple[str, ...]
    """They add up."""
    output: tuple[str, ...]
    """These too."""
    cached: tuple[str, ...]
    """The first one that is told counts."""

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.input, *self.output, *self.cached)))


_FAMILIES: Final = (
    _Names(  # OpenAI chat, and all that copy it
        ("prompt_tokens",),
        ("completion_tokens",),
        ("prompt_tokens_details.cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"),
    ),
    _Names(  # OpenAI responses, LangChain, pydantic-ai; Anthropic, whose input is without what its caches did
        ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        ("output_tokens",),
        (
            "cache_read_input_tokens",
            "input_tokens_details.cached_tokens",
            "input_token_details.cache_read",
            "cache_read_tokens",
        ),
    ),
    _Names(  # Bedrock
        ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
        ("outputTokens",),
        ("cacheReadInputTokens",),
    ),
    _Names(  # Gemini
        ("promptTokenCount", "toolUsePromptTokenCount"),
        ("candidatesTokenCount", "thoughtsTokenCount"),
        ("cachedContentTokenCount",),
    ),
    _Names(
        ("prompt_token_count", "tool_use_prompt_token_count"),
        ("candidates_token_count", "thoughts_token_count"),
        ("cached_content_token_count",),
    ),
    _Names(("prompt_eval_count",), ("eval_count",), ()),  # Ollama
)

_UNDER: Final = ("usage", "usageMetadata", "usage_metadata", "token_usage")
_ADDED_UP: Final = "usage_metadata", "input_tokens"
"""Each chunk of LangChain tells what came with it; those of all others tell what it is by then."""

_FIRST: Final = frozenset().union(*((family.input[0], family.output[0]) for family in _FAMILIES))
_KNOWN: Final = _FIRST.union(_UNDER)

_MARKS: Final = ("_tokens", "putTokens", "TokenCount", "token_count", "eval_count")
"""Where none of them stands, no number of tokens is told."""

_MOST_TEXT: Final = 16 * 2**20
"""Letters that are held; what a longer text tells is found unless it is cut there."""

_DEEPEST = 8
_DEEPEST_TEXT = 1
_MOST_TOKENS: Final = 2**53


class Tally:
    """What one call took, from all that was told while it went on: an answer, or the chunks of one.

    Chunks that are texts are pieces of one text, cut anywhere: JSON, a line of JSON each, or server-sent
    events. They are held until it can be read, a line at least.
    """

    __slots__ = ("_family", "_given", "_numbers", "_size", "_texts")

    def __init__(self) -> None:
        self._given: Usage | None = None
        self._family: _Names | None = None
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._size = 0

    @property
    def usage(self) -> Usage | None:
        """What an adapter said, else what was found; None where nobody told anything."""
        self._read()
        if self._given is not None or self._family is None:
            return self._given
        family, numbers = self._family, self._numbers
        cached = [numbers[name] for name in family.cached if name in numbers]
        return Usage(
            input=sum(numbers.get(name, 0) for name in family.input),
            output=sum(numbers.get(name, 0) for name in family.output),
            cached=cached[0] if cached else 0,
        )

    def add(self, usage: Usage) -> None:
        """Count what an adapter says; what makes no sense is not counted."""
        if isinstance(usage, Usage) and all(map(_is_number, (usage.input, usage.output, usage.cached))):
            self._given = usage if self._given is None else self._given + usage

    def look(self, plain: Plain) -> None:
        """Look for it in an answer, or in the next chunk of one."""
        if type(plain) is str:
            self._hold(plain)
        else:
            self._read()
            self._look(plain)

    def _hold(self, text: str) -> None:
        self._texts.append(text)
        self._size += len(text)
        if self._size > _MOST_TEXT:
            self._read()

    def _read(self) -> None:
        if self._texts:
            text = "".join(self._texts)
            self._texts.clear()
            self._size = 0
            self._look_in_text(text)

    def _look(self, plain: Plain, deep: int = 0) -> bool:
        """Look for it; returns whether it was there."""
        if type(plain) is str:
            return deep <= _DEEPEST_TEXT and self._look_in_text(plain)
        if deep > _DEEPEST or type(plain) not in _CONTAINERS:
            return False
        parts = _parts(plain)
        if isinstance(parts, list):
            is_vector = bool(parts) and type(parts[0]) is float  # thousands of them in an embedding
            return not is_vector and self._look_in_each(parts, deep + 1)
        if self._note(parts):
            return True
        inner = [part for part in parts.values() if type(part) in _CONTAINERS]
        for part in inner:  # what says it right away comes before what has answers of its own in it
            if self._note(_parts(part)):
                return True
        for part in inner:
            if self._look(part, deep + 1):
                return True
        body = parts.get("content")  # of a response, as httpx has it
        return deep == 0 and type(body) is str and self._look_in_text(body)

    def _look_in_text(self, text: str) -> bool:
        if not any(mark in text for mark in _MARKS):
            return False
        return self._look_in_each(_documents(text), _DEEPEST_TEXT + 1)

    def _look_in_each(self, parts: Iterable[Plain], deep: int) -> bool:
        found = False  # no any(): the last chunk of a stream may tell more than the first
        for part in parts:
            if type(part) in _LOOKED_INTO:
                found |= self._look(part, deep)
        return found

    def _note(self, parts: dict[str, Plain] | list[Plain]) -> bool:
        """Note the numbers that stand right here, or in a part that is named for them."""
        if not isinstance(parts, dict) or _KNOWN.isdisjoint(parts):
            return False
        for name in _UNDER:
            if name in parts and self._note_numbers(_parts(parts[name]), name):
                return True
        return self._note_numbers(parts)

    def _note_numbers(self, parts: dict[str, Plain] | list[Plain], name: str | None = None) -> bool:
        if not isinstance(parts, dict) or _FIRST.isdisjoint(parts):
            return False
        for family in _FAMILIES:
            first = family.input[0], family.output[0]
            told = [each for each in first if _is_number(parts.get(each))]
            if told and (name is not None or len(told) == len(first)):
                self._merge(family, _numbers(family, parts), adds=(name, first[0]) == _ADDED_UP)
                return True
        return False

    def _merge(self, family: _Names, numbers: dict[str, int], *, adds: bool) -> None:
        if family is not self._family:
            self._family, self._numbers = family, {}
        if adds:
            numbers = {name: self._numbers.get(name, 0) + number for name, number in numbers.items()}
        self._numbers.update(numbers)


_CONTAINERS: Final = frozenset({dict, list})
_LOOKED_INTO: Final = _CONTAINERS | {str}


def _parts(plain: Plain) -> dict[str, Plain] | list[Plain]:
    """Return what is in a value: by name for a dict or an object, else as a list."""
    if type(plain) is list:
        return plain
    if type(plain) is not dict:
        return []
    match tag(plain):
        case None:
            return plain
        case "$object":
            named: dict[str, Plain] = {}
            for each in ("base", "value", "extra", "state"):
                if type(held := plain.get(each)) is dict:
                    named |= held
            return named
        case "$tuple":
            return _parts(plain["$tuple"])
        case "$shared":
            return [plain.get("value"), *_parts(plain["$shared"])]
    return []


def _numbers(family: _Names, parts: dict[str, Plain]) -> dict[str, int]:
    found = {}
    for name in family.all:
        value: Plain = parts
        for step in name.split("."):
            inner = _parts(value)
            value = inner.get(step) if isinstance(inner, dict) else None
        if _is_number(value):
            found[name] = value
    return found


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_TOKENS


def _documents(text: str) -> Iterator[Plain]:
    text = text.strip()
    if text.startswith(("{", "[")):
        try:
            yield msgspec.json.decode(text)
        except _NO_JSON:
            pass
        else:
            return
    for line in text.replace("\r", "\n").split("\n"):
        if any(mark in line for mark in _MARKS):
            yield from _in_line(line)


def _in_line(line: str) -> Iterator[Plain]:
    """Yield what a line holds; several documents where chunks were lines and had no ends."""
    end = 0
    while begin := _BEGIN.match(line, end) or _DATA.search(line, end):
        try:
            document, end = _DECODER.raw_decode(line, begin.end())
        except _NO_JSON:
            end = begin.end() + 1
        else:
            yield document


_BEGIN: Final = re.compile(r"\s*(?=[{\[])")
_DATA: Final = re.compile(r"data:\s*(?=[{\[])")
_DECODER: Final = json.JSONDecoder()
_NO_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
