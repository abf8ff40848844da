"""Gives recorded bytes back to what asks for them in a replay: no socket is opened, nothing waits."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepfork._served import chunks, served_chunks
from stepfork.adapters._credentials import hide_those_of
from stepfork.adapters._wire import joined, leave_exchange, library_of, read_error, under_way
from stepfork.adapters._wire_names import plain_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from stepfork._calls import Call
    from stepfork._context import Answer

_NOTHING: Any = object()
_TRANSPORTS: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "builtins", "ssl", "socket")


class Replies:
    """The answer to one call, for the client that sends its request.

    ``with replies:`` is the call, until its caller has the answer or what that can be read from.
    """

    def __init__(self, answer: Answer, client: Any, sdk: str | None) -> None:
        self.client = client
        self.is_carried = False
        self._answer = answer
        self._sdk = sdk

    def __enter__(self) -> None:
        self._inside = under_way.set(self)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        leave_exchange(self._inside)
        if error is not None:
            self.seen(error)

    @property
    def answered(self) -> Call | None:
        """The recorded call whose answer is given; None where a test put it there."""
        return getattr(self._answer, "call", None)

    @property
    def items(self) -> list[Any] | None:
        """What is given back; None where it is an error, or made only when it is asked for."""
        call = self.answered
        items = getattr(self._answer, "injected", None) if call is None else call.outcome.items
        return items if isinstance(items, list) else None

    def put_in_form(self, *, is_stream: bool) -> None:
        """Bring what a test put there into the form of what is recorded; raises it where it is an error.

        An error of the transport is left to the SDK, to make of it what it does.
        """
        injected = getattr(self._answer, "injected", _NOTHING)
        if injected is _NOTHING:
            return
        kind = injected if isinstance(injected, type) else type(injected)
        if not issubclass(kind, BaseException):
            self._answer.injected = as_items(injected, is_stream=is_stream)  # type: ignore[attr-defined]
        elif kind.__module__.partition(".")[0] not in _TRANSPORTS:
            self._answer.value()

    def seen(self, error: BaseException) -> None:
        """Note that this exception comes of the answer."""
        if isinstance(error, Exception):
            self._answer.seen(error)

    def send(self, request: Any, *, stream: bool) -> Any:
        """Return the response to a request."""
        items = chunks(self._answer)
        response = self._response(next(items, None), items, request, _SyncBody)
        if not stream:
            response.read()
        return response

    async def asend(self, request: Any, *, stream: bool) -> Any:
        """Return the response to a request of an async client."""
        items = served_chunks(self._answer)
        response = self._response(await anext(items, None), items, request, _AsyncBody)
        if not stream:
            await response.aread()
        return response

    def piece(self, item: Any, request: Any) -> bytes:
        """Return the bytes of a piece of a body; raises what the transport raised there."""
        if isinstance(item, str):
            return item.encode()
        if isinstance(item, bytes):
            return item
        raise self._of_transport(item["raised"], request)

    def closed(self) -> None:
        """Nobody reads on."""
        error = read_error(self._sdk)
        if error is not None:
            self.seen(error)

    def _response(self, head: Any, items: Any, request: Any, part: type) -> Any:
        hide_those_of(request)  # as when it was recorded: errors name them in a replay too
        if head is None:
            raise self._answer.stop("no response was recorded")
        if "raised" in head:
            raise self._of_transport(head["raised"], request)
        library = library_of(request)
        base = library.SyncByteStream if part is _SyncBody else library.AsyncByteStream
        body = joined(part, base)(self, items, request)
        response = library.Response(head["status"], headers=head["headers"], request=request, stream=body)
        response.elapsed = timedelta(0)
        response.default_encoding = getattr(self.client, "_default_encoding", "utf-8")
        return response

    def _of_transport(self, error: Any, request: Any) -> BaseException:
        if hasattr(type(error), "request"):
            error.request = request
        self.seen(error)
        return error  # type: ignore[no-any-return]


class _Body:
    def __init__(self, replies: Replies, items: Any, request: Any) -> None:
        self._replies = replies
        self._items = items
        self._request = request


class _SyncBody(_Body):
    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                item = next(self._items, None)
            except Exception:  # an SDK raises it again by itself, of the bytes that it has
                return
            if item is None:
                return
            yield self._replies.piece(item, self._request)

    def close(self) -> None:
        self._replies.closed()


class _AsyncBody(_Body):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                item = await anext(self._items, None)
            except Exception:  # see above
                return
            if item is None:
                return
            yield self._replies.piece(item, self._request)

    async def aclose(self) -> None:
        self._replies.closed()
        await self._items.aclose()


def as_items(value: Any, *, is_stream: bool) -> list[Any]:
    """Return the wire form of what a test put there: a body, or the events of a stream."""
    if not is_stream:
        return [_head("application/json"), _text(value)]
    if isinstance(value, str):
        return [_head("text/event-stream"), value]
    parts = [_event(part) for part in (value if isinstance(value, list | tuple) else [value])]
    if parts and not parts[0].startswith("event:"):
        parts.append("data: [DONE]\n\n")
    return [_head("text/event-stream"), *parts]


def _head(content_type: str) -> Mapping[str, Any]:
    return {"status": 200, "headers": {"content-type": content_type}}


def _text(value: Any) -> str | bytes:
    if isinstance(value, str | bytes):
        return value
    if hasattr(value, "model_dump_json"):
        return str(value.model_dump_json(by_alias=True))
    return msgspec.json.encode(plain_json(value)).decode()


def _event(value: Any) -> str:
    text = _text(value)
    if isinstance(text, bytes):
        text = text.decode()
    try:
        fields = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    kind = fields.get("type") if isinstance(fields, dict) else None
    return (f"event: {kind}\n" if isinstance(kind, str) else "") + f"data: {text}\n\n"
