"""What is asked of models with an HTTP client alone, and what may go wrong with it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import io
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from adapters.replies import Reply, fails, says
from adapters.wire_cases import REFUSED, Case

ADAPTERS = ("httpx",)
WORDS = "Grüße, this is a reply that comes in a few pieces"
CHAT: dict[str, Any] = {"model": "some-model", "messages": [{"role": "user", "content": "hello"}]}
ASKED: dict[str, Any] = {"gemini": {"contents": [{"parts": [{"text": "hello"}]}]}}
TRUST = ssl.create_default_context()

JSON = {"content-type": "application/json"}
GREETING = json.dumps({"reply": WORDS}, ensure_ascii=False).encode()
COMPRESSED = Reply(body=zlib.compress(GREETING), headers={**JSON, "content-encoding": "deflate"})
CUT_INSIDE_A_LETTER = Reply(body=[GREETING[:13], GREETING[13:14], GREETING[14:]])
NO_TEXT = Reply(body=[b"\x00\x9f\x92", b"\x96\xff"], headers={"content-type": "application/octet-stream"})
LINES = Reply(body=['{"message": 1}\n', '{"message": 2, "done": true}\n'])

PLACES = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/gemini-test:generateContent?key=AIzaNobodys",
    "ollama": "/api/chat",
    "bedrock": "/model/anthropic.claude-test/converse",
    "cohere": "/v2/chat",
    "azure": "/openai/deployments/mine/chat/completions?api-version=2025-01-01",
}


def libraries() -> list[Any]:
    """Return what there is of the two."""
    names = [name for name in ("httpx", "httpx2") if importlib.util.find_spec(name)]
    return [importlib.import_module(name) for name in names]


class Asker:
    """Asks with one of the libraries."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def post(self, url: str, **options: Any) -> Any:
        """Ask in one go."""
        key = {"authorization": "Bearer sk-nobodys-key-000000000000"}
        with self.library.Client(verify=TRUST, timeout=options.pop("timeout", 5)) as client:
            response = client.post(url, headers=key, **options)
        return [response.status_code, response.headers.get("content-type"), response.text]

    def checked(self, url: str) -> Any:
        with self.library.Client(verify=TRUST) as client:
            return client.post(url, json=CHAT).raise_for_status().json()

    def lines(self, url: str, count: int = 1000) -> Any:
        """Read a stream, or so many lines of it."""
        seen: list[Any] = []
        with (
            self.library.Client(verify=TRUST) as client,
            client.stream("POST", url, json={**CHAT, "stream": True}) as response,
        ):
            try:
                for line in response.iter_lines():
                    seen.append(line)
                    if len(seen) == count:
                        break
            except self.library.HTTPError as error:
                seen.append(error)
        return seen

    def some(self, url: str) -> Any:
        return self.lines(url, 3)

    def raw(self, url: str) -> Any:
        with (
            self.library.Client(verify=TRUST) as client,
            client.stream("POST", url, json=CHAT) as response,
        ):
            return [repr(part) for part in response.iter_bytes()]

    async def apost(self, url: str) -> Any:
        async with self.library.AsyncClient(verify=TRUST) as client:
            response = await client.post(url, json=CHAT)
            return [response.status_code, response.json()]

    def made(self, url: str) -> Any:
        """Ask with a body that is made while it is sent."""
        return self.post(url, content=pieces())

    async def amade(self, url: str) -> Any:
        async with self.library.AsyncClient(verify=TRUST) as client:
            response = await client.post(url, content=apieces())
            return [response.status_code, response.json()]

    def file(self, url: str) -> Any:
        """Ask with a body that is read from a file."""
        return self.post(url, content=io.BytesIO(json.dumps(CHAT).encode()))

    def form(self, url: str) -> Any:
        """Ask with a form, one file of which can be read once alone."""
        image = io.BytesIO(b"\x89PNG\r\n--x\r\n")
        files = [("image", ("a;b.png", image)), ("image", ("c.png", Once(b"PNG")))]
        return self.post(url, files=files, data=FORM)

    async def alines(self, url: str) -> Any:
        seen: list[Any] = []
        async with (
            self.library.AsyncClient(verify=TRUST) as client,
            client.stream("POST", url, json={**CHAT, "stream": True}) as response,
        ):
            try:
                async for line in response.iter_lines():
                    seen.append(line)
            except self.library.HTTPError as error:
                seen.append(error)
        return seen


def pieces() -> Iterator[bytes]:
    """Make the body of a request."""
    text = json.dumps(CHAT).encode()
    yield text[:7]
    yield b""
    yield text[7:]


async def apieces() -> AsyncIterator[bytes]:
    """Make it in an event loop."""
    for piece in pieces():
        await asyncio.sleep(0)
        yield piece


class Once:
    """A file that comes from elsewhere: it has no size and no beginning to go back to."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int = -1) -> bytes:
        data, self._data = self._data, b""
        return data


FORM = {"model": "image-test", "prompt": "Grüße", "tags[]": ["a", "b"]}
UPLOAD: dict[str, Any] = {"files": {"file": ("a.wav", b"RIFF\xff")}, "data": {"model": "whisper-test"}}
CASES: dict[str, Case] = {}


def add(
    name: str, observe: Any, *script: Reply, at: str = PLACES["chat"], refused: bool = False, **options: Any
) -> None:
    """Add a case that asks at this place."""
    CASES[name] = Case(lambda url: observe((REFUSED if refused else url) + at, **options), script)


for library in libraries():
    ask, called = Asker(library), library.__name__
    for name, path in PLACES.items():
        add(f"{called}-{name}", ask.post, Reply(body={"reply": WORDS}), at=path, json=ASKED.get(name, CHAT))
    add(f"{called}-checked", ask.checked, says(WORDS))
    add(f"{called}-limited", ask.checked, fails(429))
    add(f"{called}-refused", ask.checked, refused=True)
    add(f"{called}-slow", ask.post, says(WORDS, delay=0.5), json=CHAT, timeout=0.1)
    add(f"{called}-cut", ask.checked, says(WORDS, cut_after=0))
    add(f"{called}-lines", ask.lines, says(WORDS))
    add(f"{called}-left", ask.some, says(WORDS))
    add(f"{called}-cut-later", ask.lines, says(WORDS, cut_after=3))
    add(f"{called}-compressed", ask.checked, COMPRESSED)
    add(f"{called}-compressed-stream", ask.lines, COMPRESSED)
    add(f"{called}-cut-inside-a-letter", ask.lines, CUT_INSIDE_A_LETTER)
    add(f"{called}-no-text", ask.raw, NO_TEXT)
    add(f"{called}-lines-of-json", ask.lines, LINES, at="/api/generate")
    add(f"{called}-upload", ask.post, Reply(body={"text": "hi"}), at="/v1/audio/transcriptions", **UPLOAD)
    add(f"{called}-made-while-sent", ask.made, says(WORDS))
    add(f"{called}-file", ask.file, says(WORDS))
    add(f"{called}-form", ask.form, Reply(body={"data": []}), at="/v1/images/edits")
    add(f"{called}-async-made-while-sent", ask.amade, says(WORDS))
    add(f"{called}-async", ask.apost, says(WORDS))
    add(f"{called}-async-refused", ask.apost, refused=True)
    add(f"{called}-async-lines", ask.alines, says(WORDS))
    add(f"{called}-async-cut-later", ask.alines, says(WORDS, cut_after=3))
