"""A provider of models on this machine: it speaks the real protocols, says what a script tells it, keeps
what it was asked.

In a test ``with provider([says("hello")]) as server:``; for anything else as a process of its own, with the
replies as a JSON file: ``python -m adapters.provider script.json`` prints its address and serves until its
standard input ends; ``GET /asked`` returns what it was asked.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from adapters.anthropic_wire import Messages
from adapters.openai_wire import Chat, Embeddings, Responses
from adapters.replies import Event, Reply, Request, Script, as_reply, fresh_id


class Wire(Protocol):
    """How one endpoint writes an answer."""

    def plain(self, reply: Reply, request: Request) -> dict[str, Any]: ...
    def events(self, reply: Reply, request: Request) -> Iterator[Event]: ...
    def error(self, status: int, text: str) -> dict[str, Any]: ...
    def broken(self, text: str) -> Event: ...


WIRES: dict[str, Wire] = {
    "/chat/completions": Chat(),
    "/responses": Responses(),
    "/embeddings": Embeddings(),
    "/messages": Messages(),
}
"""By the end of the path: what stands before it is the base URL's own affair."""


class Server(ThreadingHTTPServer):
    """The server, and what it was asked so far."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[Request] = []
        self.refused = 0
        self.unscripted: list[Request] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._choose = script if callable(script) else self._in_order(iter(script))
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """The address without the version that OpenAI's base URL ends with, and Anthropic's does not."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, request: Request) -> Reply:
        """Return the reply to a request, which is kept."""
        with self._lock:
            self.asked.append(request)
            reply = self._choose(request)
            self.refused += reply.status >= 400 or reply.cut_after == 0
            return reply

    def _in_order(self, replies: Iterator[Reply]) -> Callable[[Request], Reply]:
        def choose(request: Request) -> Reply:
            reply = next(replies, None)
            if reply is None:
                self.unscripted.append(request)
                return Reply("the script has no reply left", status=400)
            return reply

        return choose

    def process_request(self, request: Any, client_address: Any) -> None:
        """Keep the connection, so that stopping ends those that are kept alive."""
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about clients that went away; a fault of the server's own is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Answer nobody any more, on open connections either."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One connection, kept alive as the real ones are."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer ``/asked`` with all that was asked; anything else by the script."""
        if self.path != "/asked":
            return self.do_POST()
        asked = [{"path": request.path, "body": request.body} for request in self.server.asked]
        return self._json(Reply(), asked)

    def do_POST(self) -> None:
        """Answer by the script."""
        request = self._read()
        reply = self.server.answer(request)
        self.server.stopping.wait(reply.delay)
        if self.server.stopping.is_set() or reply.cut_after == 0:
            return self._cut()
        if reply.body is not None:
            return self._as_it_is(reply)
        return self._in_protocol(reply, request)

    def _read(self) -> Request:
        pieces = list(self._pieces())
        try:
            body = json.loads(b"".join(pieces))
        except ValueError:
            body = None
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.path.partition("?")[0], body, headers, pieces)

    def _pieces(self) -> Iterator[bytes]:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            yield self.rfile.read(int(self.headers.get("content-length") or 0))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _in_protocol(self, reply: Reply, request: Request) -> None:
        wire = next((wire for path, wire in WIRES.items() if request.path.endswith(path)), None)
        if wire is None:
            return self._json(Reply(status=404), {"error": {"message": "no such endpoint"}})
        if reply.status >= 400:
            return self._json(reply, wire.error(reply.status, reply.text))
        if not request.streams:
            return self._json(reply, wire.plain(reply, request))
        return self._stream(reply, self._told(reply, wire, request))

    @staticmethod
    def _told(reply: Reply, wire: Wire, request: Request) -> Iterator[bytes]:
        for number, event in enumerate(wire.events(reply, request)):
            if number == reply.fails_after:
                yield wire.broken("the provider gave up").encoded()
                return
            yield event.encoded()

    def _as_it_is(self, reply: Reply) -> None:
        if isinstance(reply.body, list):
            return self._stream(reply, (_bytes(chunk) for chunk in reply.body))
        if isinstance(reply.body, str | bytes):
            return self._send(reply, _bytes(reply.body))
        return self._json(reply, reply.body)

    def _json(self, reply: Reply, value: object) -> None:
        self._send(reply, json.dumps(value).encode())

    def _send(self, reply: Reply, body: bytes) -> None:
        """Send a body in one piece; of one that is cut, the first half."""
        size = {"content-type": "application/json", "content-length": str(len(body))}
        self._head(reply.status, {**size, **reply.headers})
        if reply.cut_after is None:
            self.wfile.write(body)
        else:
            self.wfile.write(body[: len(body) // 2])
            self._cut()

    def _stream(self, reply: Reply, chunks: Iterator[bytes]) -> None:
        kind = "text/event-stream; charset=utf-8"
        self._head(reply.status, {"content-type": kind, "transfer-encoding": "chunked", **reply.headers})
        for number, chunk in enumerate(chunks):
            if number == reply.cut_after or self.server.stopping.is_set():
                return self._cut()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.server.stopping.wait(reply.pause)
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"x-request-id": fresh_id("req_"), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _cut(self) -> None:
        """End the connection in the middle of things."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _bytes(chunk: str | bytes) -> bytes:
    return chunk.encode() if isinstance(chunk, str) else chunk


@contextlib.contextmanager
def provider(script: Script) -> Iterator[Server]:
    """Serve the script from a thread of this process."""
    server = Server(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def main(path: str) -> None:
    """Serve the replies of a file until standard input ends."""
    replies = [as_reply(value) for value in json.loads(Path(path).read_bytes())]
    with provider(replies) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
