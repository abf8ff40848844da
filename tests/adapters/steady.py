"""A provider that says the same whenever it is asked the same, and that can be unplugged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from adapters.provider import WIRES, Server, provider
from adapters.replies import Reply, Request, asks, says


class Steady:
    """Answers in the protocol of the request: an error where the request says "refused"."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], Reply] = {}
        self._lock = threading.Lock()
        self.server: Server | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        assert self.server is not None
        return self.server.url

    @contextmanager
    def serving(self) -> Iterator[Server]:
        """Serve while the block runs."""
        with provider(self._answer) as self.server:
            yield self.server

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """Nobody reaches anything, it least of all."""
        assert self.server is not None
        asked = len(self.server.asked)
        with patch.object(socket.socket, "connect", _refuse):
            yield
        assert len(self.server.asked) == asked

    def _answer(self, request: Request) -> Reply:
        with self._lock:
            key = request.path, request.text
            if key not in self._said:
                self._said[key] = _said(request)
            return self._said[key]


def _said(request: Request) -> Reply:
    headers = {"x-request-id": "req_1", "request-id": "req_1", "content-type": "application/json"}
    wire = next(wire for path, wire in WIRES.items() if request.path.endswith(path))
    if "refused" in request.text:
        return Reply(status=400, body=wire.error(400, "not like this"), headers=headers)
    reply = asks(("look", {"order": "A-17"})) if '"look"' in request.text else says("a few words in pieces")
    if not request.streams:
        return Reply(body=wire.plain(reply, request), headers=headers)
    events = [event.encoded() for event in wire.events(reply, request)]
    return Reply(body=events, headers={**headers, "content-type": "text/event-stream"})


def _refuse(*_: object) -> None:
    raise OSError("it is unplugged")
