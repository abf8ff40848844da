"""JSON that is held in a string: the arguments of a tool call, the body of a response."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NoReturn

from stepfork._plain import canonical

if TYPE_CHECKING:
    from stepfork._calls import Plain


def held_json(text: str) -> Plain | None:
    """Return the object or array that ``text`` spells, in Plain form; None for any other text.

    The standard library's reader, not msgspec's, which turns an integer beyond 64 bits into a float.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_refuse
        )
        canonical(value)
    except (ValueError, RecursionError):  # UnicodeEncodeError, for a lone surrogate, is a ValueError
        return None
    return value


def _object(pairs: list[tuple[str, Plain]]) -> Plain:
    # Plain's own tags begin with "$", so a user's key that does is doubled.
    made = {f"${key}" if key.startswith("$") else key: value for key, value in pairs}
    if len(made) < len(pairs):
        raise ValueError("the same key twice: which of them counts depends on the reader")
    return made


def _integer(digits: str) -> Plain:
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else {"$int": hex(value)}


def _float(digits: str) -> Plain:
    value = float(digits)
    return value if math.isfinite(value) else {"$decimal": digits}


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
