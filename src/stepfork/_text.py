"""Short, safe text for recorded data in messages."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._plain import is_tag, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Call, Plain

_UNITS = (("day", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_WORDS = {None: "None", True: "True", False: "False"}


def shown(plain: Plain, limit: int = 100) -> str:
    """Return a value on one line as Python would write it, cut at ``limit`` characters."""
    text = ""
    try:
        for piece in _pieces(readable(plain)):
            text += piece
            if len(text) > limit:
                return f"{text[: limit - 3]}..."
    except RecursionError:
        return "(too deep to be shown)"
    return text


def _pieces(plain: Plain) -> Iterator[str]:
    if isinstance(plain, dict):
        yield "{"
        for number, (key, value) in enumerate(plain.items()):
            yield f"{', ' if number else ''}{_quoted(key)}: "
            yield from _pieces(value)
        yield "}"
    elif isinstance(plain, list):
        yield "["
        for number, value in enumerate(plain):
            if number:
                yield ", "
            yield from _pieces(value)
        yield "]"
    elif isinstance(plain, str):
        yield _quoted(plain)
    else:
        yield _WORDS[plain] if plain is None or isinstance(plain, bool) else repr(plain)


def _quoted(text: str) -> str:
    return printable(msgspec.json.encode(text).decode("utf-8"))


def printable(text: str) -> str:
    """Return the text with everything escaped that a terminal would act on."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def shown_call(call: Call, limit: int = 120) -> str:
    """Return ``refund(order_id="A-17", amount=120)``."""
    return shown_arguments(call.name, call.input, limit)


def shown_arguments(name: str, input: dict[str, Any], limit: int = 120) -> str:
    """Return a call as one would write it, in ``limit`` characters: long values are cut in their middle."""
    texts = {key: shown(value, _WHOLE) for key, value in input.items()}
    room = limit - len(f"{name}()") - sum(len(f"{key}=, ") for key in texts)
    share = _share([len(text) for text in texts.values()], room)
    call = f"{name}({', '.join(f'{key}={_without_middle(text, share)}' for key, text in texts.items())})"
    return call if len(call) <= limit else f"{call[: limit - 4]}...)"


_WHOLE = 10_000
"""Characters of a value that are looked at."""

_FEWEST = 16
"""Characters of a value that say something."""


def _share(lengths: list[int], room: int) -> int:
    """Return to what length each text may be cut; what short ones leave over is for the long ones."""
    for number, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - number)
        if length > share:
            return max(share, _FEWEST)
        room -= length
    return max(lengths, default=0)


def _without_middle(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    tail = (limit - 3) // 2
    return f"{text[: limit - 3 - tail]}...{text[len(text) - tail :]}"


def shown_apart(old: Plain, new: Plain, limit: int = 100) -> tuple[str, str]:
    """Return two values on one line each, from a little before where they part."""
    texts = shown(old, _WHOLE), shown(new, _WHOLE)
    start = 0
    if max(map(len, texts)) > limit:
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
        start = max(sum(1 for _ in alike) - limit // 3, 0)
    before, after = (_from(text, start, limit) for text in texts)
    return before, after


def _from(text: str, start: int, limit: int) -> str:
    piece = f"...{text[start:]}" if start else text
    return piece if len(piece) <= limit else f"{piece[: limit - 3]}..."


def columns() -> int:
    """Return how wide a report may be: COLUMNS, or 100."""
    told = os.environ.get("COLUMNS", "")
    return max(int(told), 60) if told.isdecimal() and told != "0" else 100


def shown_path(path: tuple[str | int, ...], within: Plain = None) -> str:
    """Return ``input.order.items[2]`` for a path through ``within``; the codec's own steps are left out."""
    text = ""
    for part in path:
        is_ours = (isinstance(part, str) and is_tag(part)) or (
            part == "state" and isinstance(within, dict) and "$object" in within
        )
        within = _member(within, part)
        if is_ours:
            continue
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{_quoted(part)}]"
    return text


def _member(plain: Plain, part: str | int) -> Plain:
    try:
        return plain[part]
    except (TypeError, LookupError):
        return None


def shown_file(path: Path) -> str:
    """Return a path from the working directory, if it is inside."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


def ago(seconds: float) -> str:
    """Return how long ago something was: ``3 min ago``."""
    for unit, size in _UNITS:
        count = int(seconds // size) if seconds < 1e12 else 0
        if count >= 1:
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''} ago"
    return "just now"
