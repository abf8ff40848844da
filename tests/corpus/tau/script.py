"""The outside world, played from the recorded run that ``TAU_RUN`` names.

Nothing is counted in here: which message is due is told by what the agent hands in. Whatever executes
is noted in ``executed.log``, so that it can be seen that nothing did.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

Message = dict[str, Any]

LOG = Path(__file__).with_name("executed.log")
TABLES = {
    "get_order_details": ("orders", "order_id"),
    "get_product_details": ("products", "product_id"),
    "get_reservation_details": ("reservations", "reservation_id"),
    "get_user_details": ("users", "user_id"),
}


@functools.cache
def load(path: str) -> dict[str, Any]:
    """Return a recorded run or crash."""
    run: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    return run


def executed(name: str) -> dict[str, Any]:
    """Note that the body of ``name`` runs, and return the recorded run that plays it."""
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{name}\n")
    return load(os.environ["TAU_RUN"])


def _messages(run: dict[str, Any], role: str) -> list[Message]:
    return [message for message in run["traj"] if message["role"] == role]


def reply(number: int) -> Message:
    """Return the model's message of this number, from 0."""
    return _messages(executed("ask"), "assistant")[number]


def words_of_user(number: int) -> str:
    """Return the user's message of this number, from 0."""
    return str(_messages(executed("user"), "user")[number]["content"])


def database(run: str) -> dict[str, Any]:
    """Return the records that the run reads, as they are before it changes them, and the log of actions.

    ``TAU_FLIGHTS`` is the number of further rows, about 150 bytes each.
    """
    recorded = executed("load_database")
    data: dict[str, Any] = {"orders": {}, "products": {}, "reservations": {}, "users": {}, "log": []}
    for name, arguments, content in _tool_calls(recorded):
        if name in TABLES and content.startswith("{"):
            table, key = TABLES[name]
            data[table].setdefault(arguments[key], json.loads(content))
    data["flights"] = {f"HAT{n:05}": _flight(n) for n in range(int(os.environ.get("TAU_FLIGHTS", "0")))}
    return data


def _tool_calls(run: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    found = []
    for asked, answer in zip(run["traj"], run["traj"][1:], strict=False):
        if answer["role"] == "tool" and answer["name"] in TABLES:
            arguments = json.loads(asked["tool_calls"][0]["function"]["arguments"])
            found.append((answer["name"], arguments, answer["content"]))
    return found


def _flight(number: int) -> dict[str, Any]:
    seats = {"basic_economy": number % 17, "economy": number % 13, "business": number % 7}
    return {"number": number, "origin": "JFK", "destination": "SEA", "status": "available", "seats": seats}


def perform(name: str, data: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return what the tool answered, and change the database as it did."""
    message = _messages(executed(name), "tool")[len(data["log"])]
    if message["name"] != name:
        raise LookupError(f"the recorded run called {message['name']} here, not {name}")
    data["log"].append({"action": name, "arguments": arguments})
    content = str(message["content"])
    record = json.loads(content) if content.startswith("{") else {}
    for table, key in TABLES.values():
        if table in ("orders", "reservations") and key in record:
            data[table][record[key]] = record
    return content
