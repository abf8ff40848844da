"""What a provider is asked, and what it is told to answer: values that every protocol can write."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Usage(NamedTuple):
    """Tokens that a reply says it took; of the input, so many came from the provider's cache."""

    input: int
    output: int
    cached: int = 0


class ToolCall(NamedTuple):
    """A tool that the model asks for; a text as its arguments is sent as it is, whether JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str

    @property
    def written(self) -> str:
        """The arguments as a protocol that writes them as text sends them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Event(NamedTuple):
    """One event of a stream; a text as its data is sent as it is."""

    data: Mapping[str, Any] | str
    name: str | None = None

    def encoded(self) -> bytes:
        """Return the event as a stream of server-sent events holds it."""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {data}\n\n".encode()


@dataclass(frozen=True)
class Request:
    """What was asked: the body is None where it was not JSON; as it came, in ``pieces``."""

    path: str
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[bytes] = ()

    @property
    def streams(self) -> bool:
        """Whether the answer is to come in pieces."""
        return isinstance(self.body, dict) and self.body.get("stream") is True

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str((self.body or {}).get("model", "test-model"))

    @property
    def text(self) -> str:
        """All that the body says, to be looked for words in."""
        return json.dumps(self.body)


@dataclass(frozen=True)
class Reply:
    """One answer, whatever protocol it is asked in.

    ``body`` is sent as it is: bytes or a text, a list of these as chunks, anything else as JSON. Without it
    the protocol of the request writes ``text`` and ``calls``; with a ``status`` of 400 or more, an error that
    says ``text``. ``cut_after`` and ``fails_after`` count the events of a stream: the connection is cut after
    so many, or the provider reports an error there. A connection cut after 0 events has sent nothing at all.
    ``delay`` passes before the answer, ``pause`` between two events; in seconds.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    usage: Usage | None = None
    cut_after: int | None = None
    fails_after: int | None = None
    delay: float = 0
    pause: float = 0

    def tokens(self, request: Request) -> Usage:
        """Return what the reply says it took: about four letters to a token where nothing was said."""
        if self.usage is not None:
            return self.usage
        written = self.text + "".join(call.written for call in self.calls)
        return Usage(len(request.text) // 4 + 1, len(written) // 4 + 1)


Script = Iterable[Reply] | Callable[[Request], Reply]
"""Replies in the order of the requests, or a function that chooses one."""


def says(text: str, **more: Any) -> Reply:
    """Return a reply in words."""
    return Reply(text=text, **more)


def asks(*calls: tuple[str, Mapping[str, Any] | str], text: str = "", **more: Any) -> Reply:
    """Return a reply that asks for tools, by name and arguments."""
    return Reply(text=text, calls=tuple(ToolCall(*call) for call in calls), **more)


def fails(status: int, text: str = "the provider is not well", *, retry_after: float = 0) -> Reply:
    """Return an error of the provider; retries come at once unless told otherwise."""
    headers = {"retry-after": str(retry_after), "retry-after-ms": str(round(retry_after * 1000) or 1)}
    return Reply(text=text, status=status, headers=headers)


def garbled(body: str = '{"id": "') -> Reply:
    """Return an answer with status 200 that no client can read."""
    return Reply(body=body, headers={"content-type": "application/json"})


def as_reply(value: Mapping[str, Any]) -> Reply:
    """Return the reply that a JSON object describes; ``calls`` are pairs of name and arguments."""
    fields = dict(value)
    fields["calls"] = tuple(ToolCall(*call) for call in fields.get("calls", ()))
    if fields.get("usage") is not None:
        fields["usage"] = Usage(*fields["usage"])
    return Reply(**fields)


def fresh_id(prefix: str) -> str:
    """Return an id such as providers give: another one each time."""
    return prefix + secrets.token_hex(12)


def pieces(text: str, size: int = 7) -> Iterator[str]:
    """Cut a text as a stream does, with no regard for words."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
