"""Reads off a request to a model which tools it declares, and which results of tools it carries.

The request is foreign data: whatever is not as the providers document it is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_TOOLS = 1000
"""How many declared tools are looked for; providers take fewer."""

_LONGEST_NAME = 256
_TAIL = 64
"""How many of the last messages are searched for results: they are those of the last turn."""

_SILENT = 8
"""After how many messages without a word of tools there is none."""

_HOSTED = ("web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset", "advisor")
"""How the types of the tools begin that a provider runs itself, although they have a name."""


def declared(body: object) -> list[str]:
    """Return the names of the tools in a request's JSON body that its sender is to run, each once."""
    return list(dict.fromkeys(_names(body))) if isinstance(body, Mapping) else []


def _names(body: Mapping[Any, Any]) -> Iterator[str]:
    config = body.get("toolConfig")  # Bedrock
    lists = [body.get("tools"), body.get("functions"), config.get("tools") if type(config) is dict else None]
    for tools in lists:
        for tool in tools[:MOST_TOOLS] if type(tools) is list else ():
            if type(tool) is dict:
                yield from _names_of(tool)


def _names_of(tool: dict[Any, Any]) -> Iterator[str]:
    kind = tool.get("type")
    if isinstance(kind, str) and kind.startswith(_HOSTED):
        return
    for holder in (tool, tool.get("function"), tool.get("custom"), tool.get("toolSpec")):
        if type(holder) is dict:
            yield from _name(holder)
    for spelling in ("functionDeclarations", "function_declarations"):  # Gemini
        functions = tool.get(spelling)
        for function in functions[:MOST_TOOLS] if type(functions) is list else ():
            if type(function) is dict:
                yield from _name(function)


def _name(holder: dict[Any, Any], key: str = "name") -> Iterator[str]:
    name = holder.get(key)
    if type(name) is str and 0 < len(name) <= _LONGEST_NAME:
        yield name


class Turn(NamedTuple):
    """Tools that a model asked for, by the id of the call, and the ids whose results are there."""

    asked: dict[str, str]
    answered: set[str]


def last_turn(body: object) -> Turn:
    """Return what the end of the conversation in a request's JSON body says of tools."""
    turn = Turn({}, set())
    for key in ("messages", "input", "contents"):
        messages = body.get(key) if isinstance(body, Mapping) else None
        end: list[object] = messages[-_TAIL:] if type(messages) is list else []
        silent = 0
        for message in reversed(end):
            before = len(turn.asked) + len(turn.answered)
            for part in (message, *_parts(message)) if type(message) is dict else ():
                _read(part, turn)
            silent = 0 if len(turn.asked) + len(turn.answered) > before else silent + 1
            if silent and (turn.asked or silent > _SILENT):
                break
    return turn


def _parts(message: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    for key in ("content", "parts", "tool_calls"):
        parts = message.get(key)
        for part in parts if type(parts) is list else ():
            if type(part) is dict:
                yield part


def _read(part: dict[Any, Any], turn: Turn) -> None:
    kind, function = part.get("type"), part.get("function") or part.get("custom")
    if kind == "tool_use":  # Anthropic
        _note_asked(turn, part.get("id"), part)
    elif kind in ("function_call", "custom_tool_call"):  # OpenAI responses
        _note_asked(turn, part.get("call_id"), part)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        turn.answered.update(_name(part, "call_id"))
    elif type(function) is dict:  # OpenAI chat
        _note_asked(turn, part.get("id"), function)
    for key in ("tool_call_id", "tool_use_id"):
        if key in part:
            turn.answered.update(_name(part, key))
    asked, result = part.get("toolUse"), part.get("toolResult")  # Bedrock
    if type(asked) is dict:
        _note_asked(turn, asked.get("toolUseId"), asked)
    if type(result) is dict:
        turn.answered.update(_name(result, "toolUseId"))


def _note_asked(turn: Turn, id: object, holder: dict[Any, Any]) -> None:
    if type(id) is str:
        for name in _name(holder):
            turn.asked[id] = name
