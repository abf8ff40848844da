"""What calls are given and return: 1 KB, another at each call, with text that a look for secrets stops at."""

from __future__ import annotations

from typing import Any

_TEXT = (
    "Order {number}: the customer's key question is whether the refund = 12.50 EUR is paid; see "
    "https://shop.example/orders/{number}?view=full. They wrote twice last week and were told that it takes "
    "up to five working days, which is over now. Please look it up, and answer in two sentences. "
)


def payload(number: int) -> dict[str, Any]:
    """Return what a model is asked, about 1 KB as JSON."""
    text = _TEXT.format(number=number)
    return {
        "model": "large-1",
        "temperature": 0.2,
        "messages": [
            {"role": "system", "content": text[:200]},
            {"role": "user", "content": text},
            {"role": "assistant", "content": f"{number} {text[100:]}"},
        ],
        "order": {"id": number, "lines": [1, 2, 3], "open": True, "note": None},
    }


def payloads(count: int) -> list[dict[str, Any]]:
    """Return so many, no two alike."""
    return [payload(number) for number in range(count)]
