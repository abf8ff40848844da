"""Journals written event by event: runs of every ending, at the times that a test needs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stepfork._calls import Failure, Usage
from stepfork._events import (
    FORMAT_VERSION,
    CallEnded,
    CallStarted,
    Event,
    RunEnded,
    RunStarted,
    encode_line,
)
from stepfork._journal import store_blob
from stepfork._paths import blobs_dir

KEY_ERROR = {"$exception": "builtins:KeyError", "args": ["amount"], "message": "'amount'"}
TIMEOUT = {
    "$exception": "builtins:TimeoutError",
    "args": ["order service is down"],
    "message": "order service is down",
}


def header(run_id: str, *, name: str = "handle", minutes_ago: float = 3) -> RunStarted:
    """Return the first line of a journal."""
    return RunStarted(FORMAT_VERSION, run_id, name, "0.1.0", time.time() - 60 * minutes_ago)


def refund(*ends: Event, order: Any = None, usage: Usage | None = None) -> list[Event]:
    """Return the calls of a refund agent up to its decision, and then ``ends``."""
    order = {"id": "A-17", "items": [{"sku": "x", "price": 12.5}]} if order is None else order
    return [
        CallStarted(
            "handle#1", "step", {"ticket": {"$object": "agent:Ticket", "state": {"order_id": "A-17"}}}
        ),
        CallStarted("handle#1/lookup_order#1", "tool", {"order_id": "A-17", "region": None}, at=0.001),
        CallEnded("handle#1/lookup_order#1", "raised", TIMEOUT, origin="handle#1/lookup_order#1", at=0.313),
        CallStarted("handle#1/lookup_order#2", "tool", {"order_id": "A-17", "region": "eu"}, at=0.32),
        CallEnded("handle#1/lookup_order#2", "returned", order, at=0.33),
        CallStarted(
            "handle#1/ask#1",
            "model",
            {"messages": [{"role": "user", "content": "Dear shop,\nplease refund"}]},
        ),
        CallEnded("handle#1/ask#1", "returned", "approve", at=1.2, usage=usage),
        CallStarted("handle#1/decide#1", "step", {"order": order}, at=1.21),
        *ends,
    ]


def raised(usage: Usage | None = None) -> list[Event]:
    """Return the events of a run that ended with a KeyError in ``decide#1``; its model used so much."""
    at = "handle#1/decide#1"
    return refund(
        CallEnded(at, "raised", KEY_ERROR, origin=at, at=1.22),
        CallEnded("handle#1", "raised", KEY_ERROR, origin=at, at=1.23),
        RunEnded(1.23, Failure("raised", at, "builtins:KeyError", "'amount'")),
        usage=usage,
    )


def returned() -> list[Event]:
    """Return the events of a run that ended well."""
    return refund(
        CallEnded("handle#1/decide#1", "returned", True, at=1.22),
        CallEnded("handle#1", "returned", "done", at=1.23),
        RunEnded(1.23),
    )


def killed() -> list[Event]:
    """Return the events of a run whose process was killed in ``decide#1``."""
    return refund()


def write_journal(
    folder: Path, run_id: str, events: list[Event], *, torn: bytes = b"", **kwargs: Any
) -> Path:
    """Write a journal as a recording process would, and what tore when it was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run_id}.jsonl"
    path.write_bytes(b"".join(map(encode_line, [header(run_id, **kwargs), *events])) + torn)
    return path


def with_blobs(path: Path, limit: int = 10) -> None:
    """Rewrite a journal so that every payload over ``limit`` bytes is a blob."""
    from stepfork._events import decode_line

    lines = []
    for line in path.read_bytes().splitlines():
        event = decode_line(line)
        if isinstance(event, CallStarted):
            event.input = {
                key: store_blob(blobs_dir(path), value, limit) for key, value in event.input.items()
            }
        elif isinstance(event, CallEnded):
            event.value = store_blob(blobs_dir(path), event.value, limit)
        lines.append(encode_line(event))
    path.write_bytes(b"".join(lines))
