"""The body of an HTTP request, known before it is sent: a recording begins with what is asked.

What is made only while it is sent is read ahead, and then sent in the same pieces.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from stepfork.adapters._wire import joined, library_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

_MOST: Final = 64 * 2**20
"""Bytes that are read ahead; the request whose body is longer is left alone."""

_PARAMETER: Final = re.compile(r';\s*([a-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))', re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\(.)")
_NAMED: Final = re.compile(rb"^content-disposition:(.*)$", re.IGNORECASE | re.MULTILINE)


def ahead_of(request: Any, *, is_async: bool) -> Any:
    """Return what is to be read before the request is sent, with ``read()``; None: nothing needs to be.

    What is no form and names another type than JSON, sound for example, is left to be made as it is sent.
    """
    library, declared = library_of(request), _declared(request).lower()
    if _held(request) is not None or not ("json" in declared or _is_form(declared) or not declared):
        return None
    base = library.AsyncByteStream if is_async else library.SyncByteStream
    if not isinstance(request.stream, base):
        return None
    return joined(_AsyncAhead if is_async else _SyncAhead, base)(request)


def content_of(request: Any) -> bytes | None:
    """Return the whole body of a request; None where it is not known yet."""
    return request.stream.content if isinstance(request.stream, _Ahead) else _held(request)


def form_of(request: Any, content: bytes) -> Mapping[str, Any] | None:
    """Return the fields and files of a form, without what parts them; None for any other body."""
    declared = _declared(request)
    if not _is_form(declared):
        return None
    boundary = _parameters(declared).get("boundary", "").encode()
    fields: dict[str, list[Any]] = {}
    files: list[Any] = []
    for part in (b"\r\n" + content).split(b"\r\n--" + boundary)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        found = _NAMED.search(head)
        about = _parameters(found.group(1).decode(errors="replace")) if found else {}
        if "filename" in about:
            files.append({"field": about.get("name", ""), "name": about["filename"], "content": value})
        else:
            fields.setdefault(about.get("name", ""), []).append(_text(value))
    told = {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
    return {**told, "files": files} if files else told


def _declared(request: Any) -> str:
    return str(request.headers.get("content-type", ""))


def _is_form(declared: str) -> bool:
    return declared.lower().startswith("multipart/")


def _parameters(text: str) -> dict[str, str]:
    found = _PARAMETER.findall(text)
    return {name.lower(): _ESCAPED.sub(r"\1", quoted) or bare for name, quoted, bare in found}


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _held(request: Any) -> bytes | None:
    try:
        content: bytes = request.content
    except Exception:  # it was not read: each library has an exception of its own for that
        return None
    return content


class _Ahead:
    """Stands for the body of a request, which was read before it is sent."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._inner = request.stream
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._rest: Any = None
        self._is_sent = False
        self.content: bytes | None = None
        """All of it; None where it is too long, or not of bytes."""

    def _goes_on(self, piece: bytes) -> bool:
        self._pieces.append(piece)
        self._size += len(piece)
        return isinstance(piece, bytes) and self._size <= _MOST

    def _is_read(self, *, is_whole: bool) -> None:
        self.content = b"".join(self._pieces) if is_whole else None
        self._request.stream = self

    def _first_time(self) -> Iterator[bytes]:
        """Yield each piece once: they are held no longer than they were without us."""
        self._is_sent, self.content = True, None
        while self._pieces:
            yield self._pieces.popleft()


class _SyncAhead(_Ahead):
    def read(self) -> None:
        """Read it; raises what making it raises."""
        self._rest = iter(self._inner)
        self._is_read(is_whole=all(self._goes_on(piece) for piece in self._rest))

    def __iter__(self) -> Iterator[bytes]:
        rest = self._inner if self._is_sent else self._rest
        if not self._is_sent:
            yield from self._first_time()
        yield from rest

    def close(self) -> None:
        self._inner.close()


class _AsyncAhead(_Ahead):
    async def read(self) -> None:
        """Read it; raises what making it raises."""
        self._rest, is_whole = aiter(self._inner), True
        async for piece in self._rest:
            is_whole = self._goes_on(piece)
            if not is_whole:
                break
        self._is_read(is_whole=is_whole)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = self._inner if self._is_sent else self._rest
        if not self._is_sent:
            for piece in self._first_time():
                yield piece
        async for piece in rest:
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
