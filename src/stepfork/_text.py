"""Short, safe text for recorded data in messages."""

from __future__ import annotations

from typing import Any

import msgspec

from stepfork._calls import Call, Plain
from stepfork._judge import readable


def shown(plain: Plain, limit: int = 100) -> str:
    """Return a value on one line, control characters escaped, cut at ``limit`` characters."""
    text = msgspec.json.encode(readable(plain)).decode("utf-8")
    text = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def shown_call(call: Call, limit: int = 120) -> str:
    """Return ``refund(order_id="A-17", amount=120)``."""
    return shown_arguments(call.name, call.input, limit)


def shown_arguments(name: str, input: dict[str, Any], limit: int = 120) -> str:
    """Return a call as one would write it."""
    each = max(20, limit // max(len(input), 1))
    arguments = ", ".join(f"{key}={shown(value, each)}" for key, value in input.items())
    return f"{name}({arguments})"


def shown_path(path: tuple[str | int, ...]) -> str:
    """Return ``input.order.items[2]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text
