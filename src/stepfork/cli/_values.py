"""Recorded values as text: :func:`short` for a place in a line, :func:`pretty` for a whole screen.

Written from the Plain form, so that looking at a value needs none of its classes and runs no code.
"""

from __future__ import annotations

import base64
import binascii
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from stepfork._plain import tag as tag_of
from stepfork.cli._terminal import cells, clean, cut, glyphs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stepfork._calls import Plain

_DEEPEST = 50
_UNBOUNDED = 2**62
_LONGEST_ARGUMENT = 40
_BYTES_SHOWN = 32


def short(plain: Plain, limit: int = _UNBOUNDED) -> str:
    """Return the value in one line of at most ``limit`` cells, written much as Python writes it."""
    line = _OneLine(limit)
    line.value(plain)
    return cut("".join(line.pieces), limit)


def short_input(arguments: dict[str, Plain]) -> str:
    """Return the arguments of a call in one line, no single one of them long."""
    return ", ".join(f"{name}={short(value, _LONGEST_ARGUMENT)}" for name, value in arguments.items())


def short_type(name: str) -> str:
    """Return the class's own name: ``Order`` of ``shop.models:make.<locals>.Order``."""
    return name.rpartition(":")[2].rpartition("<locals>.")[2]


def exception_text(plain: Plain) -> str:
    """Return a recorded exception as the last line of a traceback: ``KeyError: 'amount'``."""
    if tag_of(plain) != "$exception":
        return short(plain)
    message = text_of(plain.get("message"))
    name = short_type(str(plain["$exception"]))
    return f"{name}: {message}" if message else name


def text_of(plain: Plain) -> str:
    """Return a recorded string; of one that is no valid Unicode, its escaped form."""
    if isinstance(plain, dict):
        plain = plain.get("$str")
    return plain if isinstance(plain, str) else ""


class _OneLine:
    """Collects the pieces of one line, and of a large value no more than the line can hold."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pieces: list[str] = []
        self._room = limit
        self._depth = 0

    @property
    def is_full(self) -> bool:
        return self._room < 0

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self._room -= len(piece)

    def value(self, plain: Plain) -> None:
        if isinstance(plain, str):
            self.add(_quoted(plain, self.limit))
        elif isinstance(plain, list | dict):
            self._container(plain)
        else:
            self.add(repr(plain))

    def _container(self, plain: Plain) -> None:
        tag = tag_of(plain) or ""
        if tag in _WORDS:
            self.add(_word(plain, tag, self.limit))
        elif tag == "$exception":
            self.add(cut(exception_text(plain), self.limit))
        elif tag in _LISTED and not isinstance(plain[tag], list):
            self.add(f"<a damaged {tag[1:]}>")
        elif self._depth == _DEEPEST:
            self.add(glyphs().ellipsis)
        else:
            self._depth += 1
            self._parts(plain, tag)
            self._depth -= 1

    def _parts(self, plain: Plain, tag: str) -> None:
        parts = _parts(plain)
        start, between, end = _BRACKETS.get(tag, (f"{parts.head}(", "=", ")"))
        self.add("[" if isinstance(plain, list) else start)
        for number, (name, item) in enumerate(parts.items):
            if self.is_full:
                return
            self.add(", " if number else "")
            if name is not None:
                self.add((name if tag else _quoted(name, self.limit)) + between)
            self.value(item)
        self.add("]" if isinstance(plain, list) else end)


def _quoted(text: str, limit: int) -> str:
    escaped = text[: limit + 1].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{clean(escaped)}"'


def _bytes(plain: dict[str, Plain], tag: str, _limit: int) -> str:
    try:
        data = base64.b64decode(plain[tag], validate=True)
    except (TypeError, ValueError, binascii.Error):
        return "bytes that cannot be read"
    if len(data) > _BYTES_SHOWN:
        return f"{data[:_BYTES_SHOWN]!r}{glyphs().ellipsis} ({len(data)} bytes)"
    return repr(data)


def _hexadecimal(plain: dict[str, Plain], tag: str, _limit: int) -> str:
    text = str(plain[tag])
    return str(int(text, 16)) if len(text) < 1000 else text


def _inner(plain: dict[str, Plain], tag: str, limit: int) -> str:
    value = plain[tag]
    return value if isinstance(value, str) else short(value, limit)


def _text_with_escapes(plain: dict[str, Plain], tag: str, limit: int) -> str:
    return f'"{clean(str(plain[tag])[: limit + 1])}"'


def _called(plain: dict[str, Plain], tag: str, limit: int) -> str:
    return f'{tag[1:].capitalize()}("{_inner(plain, tag, limit)}")'


def _enum(plain: dict[str, Plain], tag: str, limit: int) -> str:
    return f"{short_type(str(plain[tag]))}.{_inner(plain, 'name', limit)}"


def _opaque(plain: dict[str, Plain], tag: str, _limit: int) -> str:
    return text_of(plain.get("repr")) or f"<{short_type(str(plain[tag]))}>"


_WORDS: dict[str, Callable[[dict[str, Plain], str, int], str]] = {
    "$float": _inner,
    "$int": _hexadecimal,
    "$str": _text_with_escapes,
    "$bytes": _bytes,
    "$bytearray": _bytes,
    "$datetime": _inner,
    "$date": _inner,
    "$time": _inner,
    "$decimal": _called,
    "$uuid": _inner,
    "$path": _called,
    "$enum": _enum,
    "$global": lambda plain, tag, limit: short_type(str(plain[tag])),
    "$opaque": _opaque,
    "$ref": lambda plain, tag, limit: f"<the value {plain[tag]!r} again>",
}

_BRACKETS = {
    "": ("{", ": ", "}"),
    "$dict": ("{", ": ", "}"),
    "$tuple": ("(", "", ")"),
    "$set": ("{", "", "}"),
    "$frozenset": ("frozenset({", "", "})"),
}
"""What stands before, inside and behind a container; all others are written as calls."""


_LISTED = _BRACKETS.keys() - {""}


def _word(plain: dict[str, Plain], tag: str, limit: int) -> str:
    try:
        return clean(_WORDS[tag](plain, tag, limit))
    except (KeyError, TypeError, ValueError):
        return clean(f"<a damaged {tag[1:]}>")


class _Parts(NamedTuple):
    """A value that is made of others."""

    head: str
    """What kind of value; empty for lists and dicts."""
    items: Iterable[tuple[str | None, Plain]]
    """Name and value; no name where only its place tells a value from its neighbours.

    Made one by one, for of a large value only the beginning may be wanted.
    """


def _parts(plain: Plain) -> _Parts:
    if isinstance(plain, list):
        return _Parts("", ((None, value) for value in plain))
    tag = tag_of(plain) or ""
    inner = plain.get(tag)
    if tag in _LISTED and not isinstance(inner, list):
        return _Parts("", ())
    if tag == "$dict":
        pairs = (pair for pair in inner if isinstance(pair, list) and len(pair) == 2)
        return _Parts("", ((short(key, _LONGEST_ARGUMENT), value) for key, value in pairs))
    if tag in _LISTED:
        return _Parts(tag[1:], ((None, value) for value in inner))
    if not tag:
        return _Parts("", ((key[1:] if key.startswith("$$") else key, value) for key, value in plain.items()))
    return _tagged_parts(plain, tag)


def _tagged_parts(plain: dict[str, Plain], tag: str) -> _Parts:
    head = short_type(inner) if isinstance(inner := plain[tag], str) else tag[1:]
    shown_elsewhere = {tag, "state", "message"} | ({"args"} if _message_says_all(plain) else set())
    others: dict[str | None, Plain] = {
        key: value for key, value in plain.items() if key not in shown_elsewhere and value
    }
    state = plain.get("state")
    if isinstance(state, dict) and not tag_of(state):
        others = {**state, **others}
    elif state is not None:
        others["state"] = state
    if not isinstance(inner, str):
        others = {None: inner, **others}
    return _Parts(exception_text(plain) if tag == "$exception" else head, others.items())


def _message_says_all(plain: dict[str, Plain]) -> bool:
    args = plain.get("args")
    return isinstance(args, list) and len(args) == 1 and text_of(args[0]) in text_of(plain.get("message"))


class _Text(NamedTuple):
    """A value in lines."""

    head: str
    """What stands behind the value's name; empty where all stands below."""
    below: Sequence[str] = ()


def pretty(plain: Plain, width: int) -> list[str]:
    """Return the value in lines: what fits stays in one, text of several lines is shown as lines."""
    head, below = _pretty(plain, width, 0)
    return [head, *_indented(below)] if head else [*below]


def pretty_fields(values: Mapping[str, Plain], width: int) -> list[str]:
    """Return values with their names in lines, each name on a line of its own."""
    return [line for name, value in values.items() for line in _entry(name, value, width, 0)]


def _pretty(plain: Plain, width: int, depth: int) -> _Text:
    if isinstance(plain, str) and "\n" in plain:
        return _Text("", [f"{glyphs().bar}{line.expandtabs(4)}" for line in plain.split("\n")])
    line = short(plain, max(width, 20) + 1)
    if depth > _DEEPEST or _is_one_line(plain, line, width):
        return _Text(short(plain))
    parts = _parts(plain)
    head, *more = parts.head.split("\n")
    entries = [line for name, value in parts.items for line in _entry(name, value, width, depth)]
    return _Text(head, more + entries) if head or more or entries else _Text(short(plain))


def _is_one_line(plain: Plain, line: str, width: int) -> bool:
    if not isinstance(plain, list | dict) or not plain or tag_of(plain) in _WORDS:
        return True
    return cells(line) <= width and "\\n" not in line and "\n" not in line and tag_of(plain) != "$exception"


def _entry(name: str | None, value: Plain, width: int, depth: int) -> list[str]:
    label = "- " if name is None else f"{clean(name)}: "
    head, below = _pretty(value, max(width - cells(label), 0), depth + 1)
    if name is None and not head:
        head, *below = below
    return [f"{label}{head}".rstrip(), *_indented(below)]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def first_lines(text: str, most: int) -> list[str]:
    """Return the lines of a text, the last one saying how many were left out."""
    lines = text.split("\n")
    left_out = len(lines) - most
    return lines if left_out <= 0 else [*islice(lines, most), f"{glyphs().ellipsis} {left_out} more lines"]
