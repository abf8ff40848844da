"""Records what a provider answered, as it came over the wire: a head, then pieces of text.

The bytes of a stream reach the consumer as they come, and are noted before it has them. Of a request that
was tried several times only the last attempt is kept.
"""

from __future__ import annotations

import codecs
import sys
import weakref
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from stepfork._codec.http import KEPT_HEADERS
from stepfork._context import _frame, leave

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from stepfork._calls import Shape
    from stepfork._context import Frame

_ERROR: Final = 400
_DONE: Final = "[DONE]"
_DONE_WITHIN: Final = 16

under_way: ContextVar[Any] = ContextVar("stepfork_exchange", default=None)
"""The exchange with a provider that goes on here; never set across a ``yield``."""


class Exchange:
    """One call while it is recorded: the attempts that are made for it, and what came of the last.

    ``with exchange:`` is the call, until its caller has the answer or what that can be read from.
    """

    def __init__(self, frame: Frame, client: Any, shape: Shape, sdk: str | None) -> None:
        self.frame = frame
        self.client = client
        """What sends the requests of this call; other requests that are made meanwhile are no part of it."""
        self.shape = shape
        self.sdk = sdk
        """The package whose errors are read in the answer; None: nothing stands above the transport."""
        self.is_carried = False
        """A request of it is on its way: what sends it further in leaves it alone."""
        self._attempt: Attempt | None = None

    def __enter__(self) -> None:
        self._token, self._inside = _frame.set(self.frame), under_way.set(self)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        leave_exchange(self._inside)
        leave(self._token)
        if error is None:
            guarded(self.frame, self._returned)
        else:
            guarded(self.frame, self._raised, error)

    def begin_attempt(self) -> Attempt:
        """Forget the one before, that was in vain."""
        self._attempt = Attempt(self.frame, self.shape)
        return self._attempt

    def _returned(self) -> None:
        """The call gave its caller something: the answer, or what it can be read from."""
        if self._attempt is None:
            self.frame.returned(None, self.shape)
        else:
            self._attempt.keep()
            self._attempt.hand_over()

    def _raised(self, error: BaseException) -> None:
        """The call raised; an attempt before the one that was cancelled is not what it ended with."""
        if self._attempt is not None and isinstance(error, Exception):
            self._attempt.keep()
        if not self.frame.is_ended:
            self.frame.raised(error, self.shape)


def is_inside(client: Any) -> bool:
    """Whether an exchange of this client is under way here: what is seen further in is the same once more."""
    exchange = under_way.get()
    return exchange is not None and exchange.client is client


def leave_exchange(token: Any) -> None:
    """Undo ``under_way.set``; harmless where a dropped coroutine is closed in a foreign context."""
    with suppress(ValueError):
        under_way.reset(token)


class Attempt:
    """One request and its response."""

    def __init__(self, frame: Frame, shape: Shape) -> None:
        self.frame = frame
        self._shape = shape
        self._items: list[Any] | None = []
        """Kept back as long as it may have been in vain; then None."""
        self._texts = Texts()
        self._is_read = True
        self._is_handed_over = False
        self._is_done = False
        """The provider has said that this was all: clients read no further."""

    def came(self, response: Any, *, is_stream: bool) -> None:
        """Note the head of a response, and the rest where that is here already."""
        kept = {name: value for name, value in response.headers.items() if name.lower() in KEPT_HEADERS}
        self._put({"status": response.status_code, "headers": kept})
        if not is_stream or response.is_closed:
            self.chunk(response.content)
            self._end_texts()
            return
        self._is_read = False
        if response.status_code < _ERROR:
            self.keep()

    def chunk(self, data: bytes) -> None:
        """Note what the consumer is about to have."""
        piece = self._texts.next(data)
        if piece:
            self._put(piece)
            self._is_done = isinstance(piece, str) and _DONE in piece[-_DONE_WITHIN:]

    def broke(self, error: Exception) -> None:
        """Note what the transport raised, at the place where it did."""
        self._end_texts()
        self._put({"raised": bare(error)})

    def keep(self) -> None:
        """It was not in vain: write what was kept back, and whatever comes from now on."""
        if self._items is None:
            return
        items, self._items = self._items, None
        self.frame.streaming(self._shape)
        for item in items:
            self._put(item)

    def hand_over(self) -> None:
        """The caller has it: from now on its end is the call's end."""
        self._is_handed_over = True
        if self._is_read and not self.frame.is_ended:
            self.frame.returned(None, self._shape)

    def ended(self) -> None:
        """All of it was read."""
        self._end_texts()
        self._is_read = True
        if self._is_handed_over and not self.frame.is_ended:
            self.frame.returned(None, self._shape)

    def failed(self, error: BaseException) -> None:
        """Reading it raised."""
        if isinstance(error, Exception):
            self.broke(error)
        self._is_read = True
        if self._is_handed_over and not self.frame.is_ended:
            self.frame.raised(error, self._shape)

    def closed(self, error: BaseException | None) -> None:
        """Nobody reads on: because of an error that was read in it, or since the consumer left."""
        if self._is_read:
            return
        self._is_read = True
        if not self._is_handed_over or self.frame.is_ended:
            return
        if error is not None:
            self.frame.raised(error, self._shape)
        elif self._is_done:
            self.frame.returned(None, self._shape)
        else:
            self.frame.closed_early(self._shape)

    def _end_texts(self) -> None:
        rest = self._texts.rest()
        if rest:
            self._put(rest)

    def _put(self, item: Any) -> None:
        if self._items is not None:
            self._items.append(item)
        elif not self.frame.is_ended:
            self.frame.item(item)


class Texts:
    """Makes texts of bytes that may be cut anywhere; bytes of them only where they are no text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_text = True

    def next(self, data: bytes) -> str | bytes:
        """Return what is complete by now."""
        if not self._is_text:
            return data
        held = self._decoder.getstate()[0]
        try:
            return self._decoder.decode(data)
        except UnicodeDecodeError:
            self._is_text = False
            return held + data

    def rest(self) -> bytes:
        """Return what is left of a character that never became complete."""
        held = self._decoder.getstate()[0] if self._is_text else b""
        self._decoder.reset()
        return held


def guarded(frame: Frame, note: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Take a note; a fault of ours is not the agent's."""
    try:
        note(*args, **kwargs)
    except Exception as fault:
        frame.session.give_up(fault)


def bare(error: BaseException) -> BaseException:
    """Return an exception of the transport, and what it came of, without the request that it carries."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    if error.__cause__ is not None:
        copy.__cause__ = bare(error.__cause__)
    return copy


def read_error(sdk: str | None) -> BaseException | None:
    """Return the error that an SDK has just read in a stream, where that is why it is closed."""
    error = sys.exception()
    if error is None or sdk is None or type(error).__module__.partition(".")[0] != sdk:
        return None
    return error


def watch_stream(response: Any, attempt: Attempt, sdk: str | None, *, is_async: bool) -> None:
    """Have the body of a response noted as it is read."""
    library = library_of(response)
    kind = (
        joined(_AsyncBody, library.AsyncByteStream) if is_async else joined(_SyncBody, library.SyncByteStream)
    )
    stream = kind(response.stream, attempt, _content_decoder(response), sdk)
    weakref.finalize(stream, guarded, attempt.frame, attempt.closed, None).atexit = False
    response.stream = stream


def library_of(value: Any) -> Any:
    """Return httpx or httpx2, whichever a request or response is of."""
    for cls in type(value).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in ("httpx", "httpx2"):
            return sys.modules[root]
    raise TypeError(f"{type(value).__name__} is of no HTTP library")


def _content_decoder(response: Any) -> Callable[[bytes], bytes]:
    """Return what makes the bytes on the wire readable: some servers compress unasked."""
    encoding = response.headers.get("content-encoding")
    if encoding in (None, "identity"):
        return bytes
    again = type(response)(response.status_code, headers={"content-encoding": encoding})
    decoder = again._get_content_decoder()

    def decode(data: bytes) -> bytes:
        found = decoder.decode(data)
        return found if isinstance(found, bytes) else b"".join(found)  # httpx2 decodes piece by piece

    return decode


_joined: dict[tuple[type, type], Any] = {}


def joined(part: type, base: type) -> Any:
    """Return the class of a body that is one of the library's streams too."""
    if (part, base) not in _joined:
        _joined[part, base] = type(part.__name__, (part, base), {})
    return _joined[part, base]


class _Body:
    """The body of a response that is noted while it is read."""

    def __init__(
        self, inner: Any, attempt: Attempt, decode: Callable[[bytes], bytes], sdk: str | None
    ) -> None:
        self._inner = inner
        self._attempt = attempt
        self._decode = decode
        self._sdk = sdk

    def _note(self, data: bytes) -> None:
        guarded(self._attempt.frame, lambda: self._attempt.chunk(self._decode(data)))

    def _closed(self) -> None:
        guarded(self._attempt.frame, self._attempt.closed, read_error(self._sdk))


class _Reading:
    """The body is read in this block, to its end unless that raises."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is None:
            guarded(self._attempt.frame, self._attempt.ended)
        elif not isinstance(error, GeneratorExit):  # the consumer left, which closing it says
            guarded(self._attempt.frame, self._attempt.failed, error)


class _SyncBody(_Body):
    def __iter__(self) -> Iterator[bytes]:
        with _Reading(self._attempt):
            for data in self._inner:
                self._note(data)
                yield data

    def close(self) -> None:
        self._closed()
        self._inner.close()


class _AsyncBody(_Body):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _Reading(self._attempt):
            async for data in self._inner:
                self._note(data)
                yield data

    async def aclose(self) -> None:
        self._closed()
        await self._inner.aclose()
