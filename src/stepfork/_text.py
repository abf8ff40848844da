"""Short, safe text for recorded data in messages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._plain import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Call, Plain

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
    """Return a call as one would write it."""
    each = max(20, limit // max(len(input), 1))
    arguments = ", ".join(f"{key}={shown(value, each)}" for key, value in input.items())
    return f"{name}({arguments})"


def shown_path(path: tuple[str | int, ...], within: Plain = None) -> str:
    """Return ``input.order.items[2]`` for a path through ``within``; the codec's own steps are left out."""
    text = ""
    for part in path:
        is_ours = _is_tag(part) or (part == "state" and isinstance(within, dict) and "$object" in within)
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


def _is_tag(part: str | int) -> bool:
    return isinstance(part, str) and part.startswith("$") and not part.startswith("$$")


def _member(plain: Plain, part: str | int) -> Plain:
    try:
        return plain[part]
    except (TypeError, LookupError):
        return None


def shown_file(path: Path) -> str:
    """Return a path from the working directory, if it is inside."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
