"""The ways to record a call that are compared; each records ``CALLS`` calls into a folder of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.payload import payloads

CALLS = 200
_ASKED = payloads(CALLS)
_ANSWERS = payloads(CALLS + 1)[1:]
_folders = itertools.count()

Way = Callable[[], int]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return what was prepared: the call itself costs next to nothing."""
    number: int = request["order"]["id"]
    return _ANSWERS[number]


@contextlib.contextmanager
def _file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / f"{next(_folders)}.jsonl"


def floor() -> int:
    """Two msgspec encodes and two writes: what a recorder that keeps no type and hides no secret costs."""
    encode = msgspec.json.Encoder().encode
    with _file() as path:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for request in _ASKED:
            os.write(descriptor, encode(request))
            os.write(descriptor, encode(answer(request)))
        os.close(descriptor)
    return CALLS


def dumps_and_flush() -> int:
    """``json.dumps``, write and flush, before and after each call."""
    with _file() as path, path.open("w", encoding="utf-8") as file:
        for request in _ASKED:
            file.write(json.dumps(request) + "\n")
            file.flush()
            file.write(json.dumps(answer(request)) + "\n")
            file.flush()
    return CALLS


def stepfork_way() -> Way:
    """Recorded by stepfork: redaction and types on, each event on disk before the call goes on."""
    import stepfork

    tool = stepfork.tool(answer, name="answer")

    def record() -> int:
        with _file() as path, stepfork.run("benchmark", path=path):
            for request in _ASKED:
                tool(request)
        return CALLS

    return record


def opentelemetry_way() -> Way:
    """One span a call with both payloads as attributes, written to a file as it ends."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    def record() -> int:
        with _file() as path, path.open("w", encoding="utf-8") as file:
            provider = TracerProvider()
            provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file)))
            tracer = provider.get_tracer("benchmark")
            for request in _ASKED:
                with tracer.start_as_current_span("answer") as span:
                    span.set_attribute("input", json.dumps(request))
                    span.set_attribute("output", json.dumps(answer(request)))
            provider.shutdown()
        return CALLS

    return record


def agenttape_way() -> Way:
    """Kept in memory and written when the run ends."""
    import agenttape

    tool = agenttape.tool(answer)

    def record() -> int:
        with (
            _file() as path,
            agenttape.use_cassette("benchmark", mode="all", cassette_dir=str(path.parent)),
        ):
            for request in _ASKED:
                tool(request)
        return CALLS

    return record


def agentcassette_way() -> Way:
    """Kept in memory and written when the run ends."""
    import agentcassette

    tool = agentcassette.intercept(answer, kind="tool")

    def record() -> int:
        with _file() as path, agentcassette.record(str(path)):
            for request in _ASKED:
                tool(request)
        return CALLS

    return record


def frozentrace_way() -> Way:
    """Kept in memory and written when the run ends."""
    import frozentrace

    tool = frozentrace.intercept(answer, kind="tool")

    def record() -> int:
        with _file() as path, frozentrace.record(str(path)):
            for request in _ASKED:
                tool(request)
        return CALLS

    return record


def langsmith_way() -> Way:
    """``traceable``, its client's requests answered at once; what its threads still do is waited for."""
    from unittest import mock

    import langsmith

    session = mock.MagicMock()
    session.request.return_value = mock.MagicMock(status_code=202, text="{}", content=b"{}")
    client = langsmith.Client(
        api_url="http://127.0.0.1:9", api_key="none", session=session, info={"batch_ingest_config": None}
    )
    tool = langsmith.traceable(answer, client=client)

    def record() -> int:
        with langsmith.tracing_context(enabled=True, client=client):
            for request in _ASKED:
                tool(request)
        client.flush()
        return CALLS

    return record


PEERS: dict[str, tuple[str, Callable[[], Way]]] = {
    "OpenTelemetry span": ("opentelemetry.sdk", opentelemetry_way),
    "agenttape": ("agenttape", agenttape_way),
    "agentcassette": ("agentcassette", agentcassette_way),
    "frozentrace": ("frozentrace", frozentrace_way),
    "langsmith traceable": ("langsmith", langsmith_way),
}


def installed_peers() -> Iterator[tuple[str, Way]]:
    """Yield the peers that are installed here."""
    for name, (module, make) in PEERS.items():
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(module):
                yield name, make()
