"""What is printed: lines of styled spans, in colour on a terminal, as plain text everywhere else.

Every text passes :func:`clean` on its way out, so nothing that was recorded can steer the terminal.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import unicodedata
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Style: TypeAlias = Literal["", "strong", "faint", "failed", "warning", "passed", "tool", "model"]

_RICH_STYLES: dict[Style, str] = {
    "": "",
    "strong": "bold",
    "faint": "dim",
    "failed": "bold red",
    "warning": "yellow",
    "passed": "green",
    "tool": "cyan",
    "model": "magenta",
}

_WIDTH_OF_A_FILE = 160


class Span(NamedTuple):
    """A piece of one line."""

    text: str
    style: Style = ""


Line: TypeAlias = "Sequence[Span]"


class Glyphs(NamedTuple):
    """The characters that are drawn rather than written."""

    branch: str
    last_branch: str
    trunk: str
    bar: str
    arrow: str
    ellipsis: str


_UNICODE = Glyphs("├─ ", "└─ ", "│  ", "│ ", "◀", "…")
_ASCII = Glyphs("|- ", "`- ", "|  ", "| ", "<", "...")


def glyphs() -> Glyphs:
    """Return the characters that standard output can show."""
    try:
        "".join(_UNICODE).encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return _UNICODE


def width() -> int:
    """Return how many cells a line may take."""
    return shutil.get_terminal_size((_WIDTH_OF_A_FILE, 24)).columns


# Controls, lone surrogates, line separators, and what reorders the text around it.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def clean(text: str) -> str:
    r"""Return ``text`` as one harmless line: every control character as an escape like ``\x1b``."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def cells(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, limit: int) -> str:
    """Return the beginning of ``text`` that fits into ``limit`` cells."""
    return _cut(text, limit, keep_end=False)


def cut_start(text: str, limit: int) -> str:
    """Return the end of ``text`` that fits into ``limit`` cells."""
    return _cut(text, limit, keep_end=True)


def _cut(text: str, limit: int, *, keep_end: bool) -> str:
    text = clean(text)
    if cells(text) <= limit:
        return text
    ellipsis = glyphs().ellipsis
    room = max(limit - len(ellipsis), 0)
    kept = []
    for character in reversed(text) if keep_end else text:
        room -= _cells_of(character)
        if room < 0:
            break
        kept.append(character)
    return ellipsis + "".join(reversed(kept)) if keep_end else "".join(kept) + ellipsis


def columns(rows: Sequence[Sequence[Line]], *, right: frozenset[int] = frozenset()) -> list[Line]:
    """Return rows of cells as lines whose columns are aligned, those in ``right`` to the right."""
    widths = [max(map(_width_of, column)) for column in zip(*rows, strict=True)]
    return [_aligned(row, widths, right) for row in rows]


def _aligned(row: Sequence[Line], widths: list[int], right: frozenset[int]) -> Line:
    line: list[Span] = []
    for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
        padding = Span(" " * (width - _width_of(cell)))
        gap = [Span("  ")] if number else []
        line += [*gap, padding, *cell] if number in right else [*gap, *cell, padding]
    return line


def _width_of(cell: Line) -> int:
    return sum(cells(clean(span.text)) for span in cell)


def show(lines: Iterable[Line], stream: TextIO | None = None) -> None:
    """Print lines to standard output, or to ``stream``."""
    stream = stream or sys.stdout
    if _is_coloured(stream):
        _show_with_rich(lines, stream)
    else:
        for line in lines:
            stream.write("".join(clean(span.text) for span in line).rstrip() + "\n")


def _is_coloured(stream: TextIO) -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return not plain and importlib.util.find_spec("rich") is not None


def _show_with_rich(lines: Iterable[Line], stream: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for line in lines:
        text = Text.assemble(*((clean(span.text), _RICH_STYLES[span.style]) for span in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def show_json(document: Any) -> None:
    """Print one JSON document to standard output, on one line where a program reads it."""
    data = msgspec.json.encode(document, enc_hook=str)
    write_json_text((msgspec.json.format(data) if sys.stdout.isatty() else data) + b"\n")


def write_json_text(data: bytes) -> None:
    """Write JSON to standard output as it is; to a terminal with every control character as an escape."""
    if sys.stdout.isatty():
        # Outside of strings JSON holds none of them but line ends.
        text = re.sub(f"(?!\n){_UNSAFE.pattern}", lambda found: f"\\u{ord(found[0]):04x}", data.decode())
        data = text.encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
