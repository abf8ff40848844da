"""Makes the recorder fail at each of its own steps in turn, and prints what the agent saw of it.

Run as a script: ``python faults.py FLAVOUR FOLDER KIND...``. A profiler notes every call that stepfork
makes while it records; then, in a forked process for each, that very call raises. One JSON line for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import itertools
import json
import os
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import stepfork
from stepfork import _context
from stepfork._recording import read_run
from stepfork.errors import StepforkError

OURS = str(Path(stepfork.__file__).parent)
MINE = __file__

FAULTS: dict[str, Callable[[], Exception]] = {
    "RuntimeError": lambda: RuntimeError("injected"),
    "OSError": lambda: OSError(errno.ENOSPC, "injected"),
    "MemoryError": lambda: MemoryError("injected"),
    "RecursionError": lambda: RecursionError("injected"),
}

HAND_ON = {"__init__", "_decorators", "_invoke", "_watch", "_context", "_threads", "_run"}
"""Modules that only hand a call on to what runs or records it."""

FORWARDS = {
    "_record": {"_harmless.<locals>.guarded", "Recorder.left", "Recorder.close"}
    | {f"RecordedFrame.{name}" for name in ("streaming", "item", "returned", "raised", "closed_early")},
    "_open_run": {"open_run", "open_root"},
    "_memory_journal": {"RescuedJournal.__init__"},
    "_spec": {"address_part", "Spec.__post_init__", "Spec.__init__"},
}
"""The same, functions of other modules: the guards themselves, and what calls them."""

LOCKS = {f"{kind}.{name}" for kind in ("lock", "RLock") for name in ("__enter__", "__exit__")}
"""A lock that cannot be let go of would be a fault of the interpreter."""

Key = tuple[str, str, str, int]
"""Function, module and function that calls it, line of that where the called one is written in C."""


class Agents:
    """An agent of each flavour: reads, is refused, changes its argument, streams, and is heavy."""

    def __init__(self, decorated: bool, profiler: Any = None) -> None:
        self.profiler = profiler
        self.world: list[str] = []
        self.error = ValueError("the agent's own, key sk-proj-abcdefghij0123456789abcdefghij0123456789")
        self.step: Callable[..., Any] = stepfork.step if decorated else lambda function: function
        self.tool: Callable[..., Any] = stepfork.tool if decorated else lambda function: function

    def sync(self) -> Any:
        """Plain functions."""

        @self.tool
        def change(order: dict[str, Any], key: str = "sk-proj-abcdefghij0123456789abcdefghij01234567") -> Any:
            self.world.append("change")
            order["state"] = ("changed", {1, 2})
            return {"blob": "x" * 70_000}

        @self.tool
        def refuse() -> None:
            self.world.append("refuse")
            raise self.error

        @self.step
        def handle(fails: bool) -> Any:
            order: dict[str, Any] = {"id": 1}
            size = len(change(order)["blob"])
            try:
                refuse()
            except ValueError as error:
                if fails or error is not self.error:
                    raise
            self.world.append("after")
            return size, order

        return [self.outcome(lambda: handle(False)), self.outcome(lambda: handle(True))]

    def coroutine(self) -> Any:
        """Coroutines, two of them at once."""

        @self.tool
        async def change(order: dict[str, Any]) -> Any:
            self.world.append("change")
            await asyncio.sleep(0)
            order["state"] = "changed"
            return {"a": 1.5}

        @self.tool
        async def refuse() -> None:
            self.world.append("refuse")
            raise self.error

        @self.step
        async def handle(fails: bool) -> Any:
            order: dict[str, Any] = {"id": 1}
            results = await asyncio.gather(change(order), change(order))
            try:
                await refuse()
            except ValueError as error:
                if fails or error is not self.error:
                    raise
            self.world.append("after")
            return results, order

        return [
            self.outcome(lambda: asyncio.run(handle(False))),
            self.outcome(lambda: asyncio.run(handle(True))),
        ]

    def generator(self) -> Any:
        """Generators: one is used up, one is left early, one fails in the middle."""

        @self.tool
        def chunks(fails: bool) -> Iterator[Any]:
            try:
                yield {"n": 1}
                if fails:
                    raise self.error
                yield {"n": 2}
            finally:
                self.world.append("closed")

        @self.step
        def handle(fails: bool) -> Any:
            early = chunks(False)
            yield next(early)
            early.close()
            yield from chunks(fails)
            self.world.append("after")
            return "end"

        def used_up(fails: bool) -> Any:
            got, stream = [], handle(fails)
            while True:
                try:
                    got.append(next(stream))
                except StopIteration as stop:
                    return got, stop.value

        return [self.outcome(lambda: used_up(False)), self.outcome(lambda: used_up(True))]

    def async_generator(self) -> Any:
        """The same, asynchronous."""

        @self.tool
        async def chunks(fails: bool) -> Any:
            try:
                yield {"n": 1}
                if fails:
                    raise self.error
                yield {"n": 2}
            finally:
                self.world.append("closed")

        @self.step
        async def handle(fails: bool) -> Any:
            early = chunks(False)
            yield await anext(early)
            await early.aclose()
            async for chunk in chunks(fails):
                yield chunk
            self.world.append("after")

        async def used_up(fails: bool) -> Any:
            return [chunk async for chunk in handle(fails)]

        return [
            self.outcome(lambda: asyncio.run(used_up(False))),
            self.outcome(lambda: asyncio.run(used_up(True))),
        ]

    def by_hand(self) -> Any:
        """A run opened by hand, marked as failed from within."""

        @self.tool
        def look(number: int) -> int:
            self.world.append("look")
            return number * 2

        def handle() -> Any:
            if self.tool is not stepfork.tool:
                return look(1), look(2)
            with stepfork.run("by hand", ticket={"id": 1}) as run:
                results = look(1), look(2)
                run.fail("not so")
                stepfork.fail("nor so")
            return results

        return [self.outcome(handle)]

    def outcome(self, call: Callable[[], Any]) -> Any:
        """Return what comes of a call, as an observer outside sees it."""
        try:
            sys.setprofile(self.profiler)
            try:
                return ["returned", repr(call())]
            finally:
                sys.setprofile(None)
        except Exception as error:
            *_, last = traceback.extract_tb(error.__traceback__)
            own = error is self.error
            return ["raised", repr(error), own, last.name, repr(error.__context__), repr(error.__cause__)]


class Profiler:
    """Notes the calls that stepfork makes; from the one with the given key and number, it raises."""

    def __init__(self, at: Key | None = None, number: int = 1, fault: Exception | None = None) -> None:
        self.seen: Counter[Key] = Counter()
        self.at = at
        self.number = number
        self.fault = fault

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            key = _key(frame.f_code, frame.f_back.f_code)
        elif event == "c_call" and _is_step(frame.f_code):
            key = (getattr(argument, "__qualname__", "?"), *_place(frame.f_code), frame.f_lineno)
            if key[0] in LOCKS:
                return
        else:
            return
        if key is None:
            return
        self.seen[key] += 1
        if key == self.at and self.seen[key] == self.number and self.fault is not None:
            raise self.fault


@functools.cache
def _key(callee: CodeType, caller: CodeType) -> Key | None:
    if _is_step(callee) or (_is_step(caller) and callee.co_filename != MINE and not _forwards(callee)):
        return (callee.co_qualname, *_place(caller), 0)
    return None


@functools.cache
def _is_step(code: CodeType) -> bool:
    return code.co_filename.startswith(OURS) and not _forwards(code)


def _forwards(code: CodeType) -> bool:
    module, qualname = _place(code)
    return (module in HAND_ON or qualname in FORWARDS.get(module, ())) and code.co_filename.startswith(OURS)


def _place(code: CodeType) -> tuple[str, str]:
    return Path(code.co_filename).stem, code.co_qualname


def observed(flavour: str, folder: Path, profiler: Profiler, *, decorated: bool = True) -> dict[str, Any]:
    """Run the agent and return what is to be seen of it from outside."""
    said: list[str] = []
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, *_: said.append(str(message))
    handed_over: list[str] = []
    stepfork.configure(dir=str(folder), on_failed=lambda path: handed_over.append(str(path)))
    agents = Agents(decorated, profiler if decorated else None)
    return {
        "outcomes": getattr(agents, flavour)(),
        "world": agents.world,
        "warnings": said,
        "open": len(_context._open),
        "runs": [_told(path) for path in sorted((folder / "runs").glob("*.jsonl"))]
        if folder.exists()
        else [],
    }


def _told(path: Path) -> Any:
    try:
        run = read_run(path)
    except StepforkError as error:
        return f"unreadable: {error}"
    calls = [(call.address, call.outcome.status, repr(call.outcome.value), call.lossy) for call in run.walk()]
    return {"whole": run.ended and not run.incomplete, "calls": calls}


def in_child(work: Callable[[], Any]) -> Any:
    """Return what the work returns in a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(20)
        try:
            with os.fdopen(writer, "w") as pipe:
                json.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else None


def main(flavour: str, folder: Path, start: str, every: int, kinds: list[str]) -> None:
    """Print what is seen without a fault, and then with each.

    ``start``: a process where nothing was recorded yet (``cold``), or one that knows the way (``warm``);
    ``every``: of how many steps one is taken.
    """

    def steps() -> Any:
        profiler = Profiler()
        seen = observed(flavour, folder / "whole", profiler)
        return seen, list(profiler.seen.items()), sorted(sys.modules)

    plain = in_child(lambda: observed(flavour, folder / "plain", Profiler(), decorated=False))
    _, _, modules = in_child(steps)
    for name in modules:
        with contextlib.suppress(ImportError):
            __import__(name)
    (folder / "whole").rename(folder / "first")
    if start == "warm":
        observed(flavour, folder / "warm", Profiler())
    whole, found, _ = in_child(steps)
    print(json.dumps({"plain": plain, "whole": whole, "steps": len(found)}))
    kind = itertools.cycle(kinds)
    for index, (key, times) in list(enumerate(found))[::every]:
        for number in sorted({1, times}):
            fault = next(kind)

            profiler = Profiler(tuple(key), number, FAULTS[fault]())
            work = functools.partial(observed, flavour, folder / f"{index}-{number}", profiler)
            told = {"at": key, "number": number, "fault": fault, "seen": in_child(work)}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5:])
