"""Requests to a provider, each recorded in one process and replayed in another that has neither network nor
provider: ``python -m adapters.wire_cases (record|replay) MODULE FOLDER`` prints what each case observed.

A module of cases has ``CASES``, by name, and ``ADAPTERS``, which are switched on.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from adapters.provider import Server, provider
from adapters.replies import Reply

KEY = "sk-live-e3b0c44298fc1c149afbf4c8996fb924"
REFUSED = "http://127.0.0.1:9"
"""Where nobody listens."""


@dataclass(frozen=True)
class Case:
    """What is asked, ``observe(url)``, sync or async, and what the provider says to it."""

    observe: Callable[[str], Any]
    script: Sequence[Reply] = ()
    calls: int = 1
    """How many calls the recording is to hold."""


def shown(value: Any) -> Any:
    """Return what can be compared of a value: of objects of SDKs their fields, of errors their parts."""
    if isinstance(value, BaseException):
        return {
            "error": f"{type(value).__module__}.{type(value).__qualname__}",
            "args": shown(list(value.args)),
            "status": getattr(value, "status_code", None),
            "body": shown(getattr(value, "body", None)),
            "cause": None if value.__cause__ is None else type(value.__cause__).__qualname__,
        }
    if hasattr(value, "model_dump"):
        return [type(value).__name__, shown(value.model_dump())]
    if isinstance(value, dict):
        return {str(key): shown(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [shown(part) for part in value]
    return value if isinstance(value, str | int | float | None) else f"{type(value).__name__}: {value!r}"


def read(stream: Any) -> list[Any]:
    """Read a stream to its end; an error in the middle of it is what came last."""
    seen = []
    try:
        seen.extend(stream)
    except Exception as error:
        seen.append(error)
    return seen


def some(stream: Any, count: int = 2) -> list[Any]:
    seen = []
    for part in stream:
        seen.append(part)
        if len(seen) == count:
            break
    stream.close()
    return seen


def partly(stream: Any) -> list[Any]:
    """Read and raise in the middle."""
    seen = []
    try:
        with stream:
            for part in stream:
                seen.append(part)
                if len(seen) == 2:
                    raise KeyError("the consumer's own")
    except KeyError as error:
        seen.append(error)
    return seen


async def aread(stream: Any) -> list[Any]:
    seen = []
    try:
        async for part in stream:
            seen.append(part)
    except Exception as error:
        seen.append(error)
    return seen


async def asome(stream: Any, count: int = 2) -> list[Any]:
    seen = []
    async for part in stream:
        seen.append(part)
        if len(seen) == count:
            break
    await stream.close()
    return seen


def observed(case: Case, url: str) -> Any:
    """Return what a case comes to."""
    try:
        result = case.observe(url)
        return shown(asyncio.run(result) if inspect.iscoroutine(result) else result)
    except Exception as error:
        return shown(error)


def record(cases: dict[str, Case], folder: Path) -> dict[str, Any]:
    """Record each case; returns what it observed, and what the provider was asked."""
    import stepfork

    told = {}
    for name, case in cases.items():
        with provider(case.script) as server, stepfork.run(name, path=folder / f"{name}.jsonl"):
            saw = observed(case, server.url)
        told[name] = {"saw": saw, "url": server.url, "asked": _asked(server)}
    return told


def _asked(server: Server) -> int:
    assert not server.unscripted, server.unscripted
    return len(server.asked)


def replay(cases: dict[str, Case], folder: Path) -> dict[str, Any]:
    """Replay each case with all that would reach a network refused."""
    import stepfork

    urls = json.loads((folder / "urls.json").read_text())
    attempts: list[str] = []
    sys.addaudithook(lambda event, arguments: _refuse(event, arguments, attempts))
    told = {}
    for name, case in cases.items():
        try:
            with stepfork.replaying(folder / f"{name}.jsonl"):
                saw = observed(case, urls[name])
        except Exception as error:
            saw = {"replay": repr(error)}
        told[name] = {"saw": saw, "attempts": list(attempts)}
        attempts.clear()
    return told


def _refuse(event: str, arguments: tuple[Any, ...], attempts: list[str]) -> None:
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.posix_spawn", "time.sleep"):
        attempts.append(f"{event} {arguments!r}")
        raise OSError(f"no {event} here")


def results(module: str) -> dict[str, dict[str, Any]]:
    """Record and replay all cases of a module, once; returns what each process told of each case."""
    told = _results(module)
    if isinstance(told, AssertionError):
        raise told
    return told


@cache
def _results(module: str) -> dict[str, dict[str, Any]] | AssertionError:
    try:
        return _made(module)
    except AssertionError as error:
        return error


def _made(module: str) -> dict[str, dict[str, Any]]:
    folder = Path(mkdtemp(prefix="wire-cases-"))
    recorded = _run("record", module, folder)
    (folder / "urls.json").write_text(json.dumps({name: told["url"] for name, told in recorded.items()}))
    replayed = _run("replay", module, folder)
    return {
        name: {"then": told, "now": replayed[name], "recording": folder / f"{name}.jsonl"}
        for name, told in recorded.items()
    }


def _run(mode: str, module: str, folder: Path) -> dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    here = Path(__file__).parents[1]
    env |= {"PYTHONPATH": str(here), "STEPFORK_DIR": str(folder / "runs")}
    if mode == "record":
        env |= {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    command = [sys.executable, "-m", "adapters.wire_cases", mode, module, str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "stepfork cannot" not in done.stderr, done.stderr
    assert "stepfork could" not in done.stderr, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def models_in(recording: Path) -> list[dict[str, Any]]:
    """Return the calls of a recording that ask something of a provider."""
    events = [json.loads(line) for line in recording.read_text().splitlines()]
    return [event for event in events if event["event"] == "start" and event["kind"] != "step"]


def main(mode: str, name: str, folder: str) -> None:
    """Record or replay the cases of a module."""
    import stepfork

    module = importlib.import_module(name)
    if mode == "record":
        stepfork.instrument(*module.ADAPTERS)
        told = record(module.CASES, Path(folder))
    else:
        told = replay(module.CASES, Path(folder))
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
