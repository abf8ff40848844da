"""Draws the table of settings; run as a program, it writes it into ``docs/settings.md``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from stepfork._settings import SETTINGS, Setting

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
_BEGIN, _END = "<!-- settings -->\n", "<!-- /settings -->\n"
_HEAD = ("meaning", "default", "pyproject.toml", "environment", "configure(...)")


def toml(value: Any) -> str:
    """Write a value as TOML does on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in value.items()) + "}"
    return msgspec.json.encode(value, enc_hook=str).decode()


def environment(setting: Setting) -> str:
    """Write the example as the text of an environment variable."""
    value = setting.example
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)


def python(value: Any) -> str:
    """Write a value as Python does."""
    if isinstance(value, tuple):
        return repr(list(value))
    if isinstance(value, Path):
        return repr(str(value))
    return value.__name__ if callable(value) else repr(value)


def row(setting: Setting) -> tuple[str, ...]:
    """Return the cells of one setting, in the order of the head."""
    default = f"`{python(setting.default)}`" if setting.default not in (None, (), {}) else "none"
    return (
        f"{setting.doc} ({setting.kind.label})",
        default,
        f"`{setting.name} = {toml(setting.example)}`" if setting.in_pyproject else "",
        f"`{setting.env}={environment(setting)}`" if setting.env else "",
        f"`{setting.name}={python(setting.example)}`",
    )


def table() -> str:
    """Return the whole table as Markdown."""
    rows = [_HEAD, ("---",) * len(_HEAD), *map(row, SETTINGS)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n" for cells in rows)


def drawn() -> str:
    """Return ``docs/settings.md`` with the table as it should be."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}\n{table()}\n{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    DOCUMENT.write_text(drawn(), encoding="utf-8")
