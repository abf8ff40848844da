"""What a provider answered, in a few words: its text, the tools that it asked for, or its error.

Understood are the bodies, plain and as a stream of events, of OpenAI's chat completions and responses and
of Anthropic's messages, which many other providers copy, of Gemini, and of Bedrock where it is no stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepfork._calls import Plain

_OK = 200
_Json = dict[str, Any]


class Answer(NamedTuple):
    """What came over the wire, put together."""

    status: int
    text: str
    asked: list[tuple[str, str]]
    """The tools that the model asked for, with their arguments as JSON."""
    error: str

    @property
    def lines(self) -> list[str]:
        """What it says, by lines."""
        head = [] if self.status == _OK and not self.error else [f"{self.status} {self.error}".strip()]
        asked = [f"{tool}({arguments})" for tool, arguments in self.asked]
        return [*head, *([self.text] if self.text else []), *asked]


def answer_of(items: list[Plain] | None) -> Answer | None:
    """Return what the chunks of a call say; None where they are no provider's answer, or not understood."""
    head, *pieces = items or [None]
    if not isinstance(head, dict) or not isinstance(head.get("status"), int) or "headers" not in head:
        return None
    reader = _Reader()
    for document in _documents("".join(piece for piece in pieces if isinstance(piece, str))):
        reader.read(document)
    answer = Answer(head["status"], reader.text, reader.asked, reader.error)
    return answer if answer.lines else None


def _documents(body: str) -> Iterator[_Json]:
    """Yield the JSON objects of a body: itself, or those of its events."""
    events = [line[5:] for line in body.splitlines() if line.startswith("data:")]
    for text in events or [body]:
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        yield from _objects(document if isinstance(document, list) else [document])


class _Reader:
    """Puts together what documents say one after the other."""

    def __init__(self) -> None:
        self.text = ""
        self.error = ""
        self._calls: dict[Any, list[str]] = {}
        """Name and arguments of each tool that was asked for."""

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(name, arguments) for name, arguments in self._calls.values()]

    def read(self, document: _Json) -> None:
        """Read a body, or an event."""
        response = document.get("response")
        if isinstance(response, dict):  # what the last event of a stream holds is the whole body
            document = response
        error = document.get("error")
        if error:
            self.error = _text(error.get("message")) if isinstance(error, dict) else _text(error)
        for choice in _objects(document.get("choices")):
            self._part_of_chat(choice.get("message") or choice.get("delta"))
        for item in _objects(document.get("output")):
            self._item_of_response(item)
        for number, block in enumerate(_objects(document.get("content"))):
            self._block(number, block)
        self._parts(document.get("output"))
        for candidate in _objects(document.get("candidates")):
            self._parts({"message": candidate.get("content")})
        if document.get("type") == "content_block_start":
            self._block(document.get("index"), document.get("content_block"))
        elif document.get("type") == "content_block_delta":
            self._delta(document.get("index"), document.get("delta"))

    def _part_of_chat(self, part: Any) -> None:
        if not isinstance(part, dict):
            return
        self.text += _text(part.get("content"))
        for number, call in enumerate(_objects(part.get("tool_calls"))):
            self._ask_in(call.get("index", number), call.get("function") or call.get("custom"))
        self._ask_in("function_call", part.get("function_call"))  # before there were several

    def _parts(self, holder: Any) -> None:
        """Read the message of Bedrock and Gemini, which hold their parts in different lists."""
        message = holder.get("message") if isinstance(holder, dict) else None
        for part in (
            _objects(message.get("content", message.get("parts"))) if isinstance(message, dict) else ()
        ):
            self.text += _text(part.get("text"))
            call = part.get("toolUse") or part.get("functionCall")
            if isinstance(call, dict):
                given = call.get("input", call.get("args"))
                self._ask(None, call.get("name"), _json(given))

    def _item_of_response(self, item: _Json) -> None:
        if item.get("type") in ("function_call", "custom_tool_call"):
            self._ask(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
        for block in _objects(item.get("content")):
            self.text += _text(block.get("text"))

    def _block(self, number: Any, block: Any) -> None:
        if not isinstance(block, dict):
            return
        self.text += _text(block.get("text"))
        if block.get("type") == "tool_use":
            self._ask(number, block.get("name"), _json(block.get("input")))

    def _delta(self, number: Any, delta: Any) -> None:
        if isinstance(delta, dict):
            self.text += _text(delta.get("text"))
            if isinstance(number, int) and number in self._calls:
                self._ask(number, "", delta.get("partial_json"))

    def _ask_in(self, key: Any, call: Any) -> None:
        if isinstance(call, dict):
            self._ask(key, call.get("name"), call.get("arguments", call.get("input")))

    def _ask(self, key: Any, name: Any, arguments: Any) -> None:
        call = self._calls.setdefault(key if isinstance(key, int | str) else len(self._calls), ["", ""])
        call[0] += _text(name)
        call[1] += _text(arguments)


def _objects(value: Any) -> Iterable[_Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode() if value else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
