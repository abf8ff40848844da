"""The agent: asks the model, acts on a database or answers the user, until the user or a transfer ends it."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import Any

import stepfork

from . import script
from .policy import Action, corrected
from .script import Message

Database = dict[str, Any]

MOST_TURNS = 30
TRANSFER = "transfer_to_human_agents"
NAMES = (
    "book_reservation",
    "calculate",
    "cancel_pending_order",
    "cancel_reservation",
    "exchange_delivered_order_items",
    "find_user_id_by_email",
    "find_user_id_by_name_zip",
    "get_order_details",
    "get_product_details",
    "get_reservation_details",
    "get_user_details",
    "modify_pending_order_address",
    "modify_pending_order_items",
    "return_delivered_order_items",
    "search_direct_flight",
    "search_onestop_flight",
    "think",
    TRANSFER,
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
)


def _tool(name: str) -> Callable[..., str]:
    def perform(data: Database, **arguments: Any) -> str:
        return script.perform(name, data, arguments)

    return stepfork.tool(perform, name=name)


TOOLS = {name: _tool(name) for name in NAMES}


@stepfork.tool
def load_database(run: str) -> Database:
    """Return the tables that the tools read, and change in place."""
    return script.database(run)


@stepfork.tool
def user(number: int, said: str | None) -> str:
    """Return what the user says next, having heard ``said``."""
    return script.words_of_user(number)


@stepfork.model
def ask(messages: list[Message]) -> Message:
    """Return the model's next message."""
    return script.reply(sum(message["role"] == "assistant" for message in messages))


class Environment:
    """The world of one conversation: its database, and the user."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.data = load_database(run)
        self.heard = 0

    @stepfork.step
    def answer(self, said: str | None) -> Message:
        """Let the user speak."""
        content = user(self.heard, said)
        self.heard += 1
        return {"role": "user", "content": content}

    @stepfork.step
    def act(self, call: dict[str, Any]) -> Message:
        """Take the action that the model asked for, and return what came of it."""
        function = call["function"]
        action = corrected(self.run, Action(function["name"], arguments_of(function["arguments"])))
        if action is None:
            name, content = function["name"], "Error: this action is against the policy"
        else:
            name, content = action.name, TOOLS[action.name](self.data, **action.arguments)
        return {"role": "tool", "tool_call_id": call["id"], "name": name, "content": content}


@stepfork.step
def solve(run: str, policy: str) -> list[Message]:
    """Return the whole conversation with one user."""
    world = Environment(run)
    messages = [{"role": "system", "content": policy}, world.answer(None)]
    for _ in range(MOST_TURNS):
        reply = ask(messages)
        calls = reply.get("tool_calls")
        messages += [reply, world.act(calls[0]) if calls else world.answer(reply["content"])]
        if is_over(messages[-1]):
            break
    return messages


def is_over(last: Message) -> bool:
    """Whether the conversation ends with this message."""
    return "###STOP###" in last["content"] if last["role"] == "user" else last["name"] == TRANSFER


def arguments_of(text: str) -> dict[str, Any]:
    """Read the arguments of a tool call: JSON, or what Python's repr made of a dict."""
    try:
        arguments = json.loads(text)
    except json.JSONDecodeError:
        arguments = ast.literal_eval(text)
    return dict(arguments)
