"""Kills a running agent at random moments, and prints what its journals have kept.

Run as a script: ``python kills.py FOLDER KILLS SEED``. The agent writes a marker of its own after each
call that returned, with one write, so a marker that is there is a call that must be in a journal.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import stepfork
from stepfork._codec import decode
from stepfork._recording import read_run
from stepfork.errors import StepforkError

LONGEST = 0.25
"""Seconds that an agent may live."""


@stepfork.tool
def look_up(ticket: str, size: int) -> dict[str, Any]:
    """Return the ticket, and more text the larger ``size``."""
    return {"ticket": ticket, "text": "x" * size}


@stepfork.tool
async def look_up_later(ticket: str, size: int) -> dict[str, Any]:
    """Do the same after a turn of the loop."""
    await asyncio.sleep(0)
    return {"ticket": ticket, "text": "x" * size}


@stepfork.model
def stream(ticket: str) -> Iterator[str]:
    """Yield the ticket in pieces."""
    yield from (ticket[:3], ticket[3:])


@stepfork.model
async def stream_later(ticket: str) -> AsyncIterator[str]:
    """Do the same asynchronously."""
    for piece in (ticket[:3], ticket[3:]):
        yield piece


class Agent:
    """Calls tools without end and notes each that has returned."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.markers = os.open(folder / "markers", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.numbers = itertools.count()

    def ticket(self) -> str:
        """Return a name for the next call."""
        return f"call {next(self.numbers)}"

    def size(self) -> int:
        """Mostly small; sometimes what goes to a file of its own."""
        return self.random.choice((10, 10, 100, 1_000, 100_000))

    def mark(self, ticket: str) -> None:
        """Note that the call has returned."""
        os.write(self.markers, f"{ticket}\n".encode())

    def plain(self) -> None:
        """Call a tool and read a stream."""
        ticket = self.ticket()
        assert look_up(ticket, self.size())["ticket"] == ticket
        self.mark(ticket)
        ticket = self.ticket()
        assert "".join(stream(ticket)) == ticket
        self.mark(ticket)

    async def later(self) -> None:
        """Call a tool and read a stream, asynchronously."""
        ticket = self.ticket()
        assert (await look_up_later(ticket, self.size()))["ticket"] == ticket
        self.mark(ticket)
        ticket = self.ticket()
        assert "".join([piece async for piece in stream_later(ticket)]) == ticket
        self.mark(ticket)

    def in_threads(self) -> None:
        """Call from two threads at once."""
        threads = [threading.Thread(target=self.plain) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def live(self, rounds: int = sys.maxsize) -> None:
        """One run after another, of each flavour in turn; few enough that all are kept."""

        @stepfork.step
        def handle() -> None:
            for _ in range(30):
                self.plain()
                self.in_threads()

        @stepfork.step
        async def handle_later() -> None:
            for _ in range(100):
                await asyncio.gather(self.later(), self.later())

        for _ in range(rounds):
            handle()
            asyncio.run(handle_later())


def kill_one(folder: Path, seed: int) -> dict[str, Any]:
    """Let an agent live for a random time, kill it, and return what is left of it."""
    folder.mkdir()
    patience = random.Random(seed).uniform(0, LONGEST)
    from_its_birth = seed % 5 == 0
    child = os.fork()
    if child == 0:
        stepfork.configure(dir=str(folder / "stepfork"))
        try:
            Agent(folder, seed).live()
        finally:
            os._exit(1)
    while not (from_its_birth or (folder / "markers").exists()):
        time.sleep(0.001)
    time.sleep(patience)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return {"killed": os.WIFSIGNALED(status), **left_of(folder)}


def left_of(folder: Path) -> dict[str, Any]:
    """Compare the agent's own markers with its journals."""
    markers = folder / "markers"
    done = markers.read_text().splitlines() if markers.exists() else []
    kept: dict[str, Any] = {}
    unreadable = []
    journals = sorted((folder / "stepfork" / "runs").glob("*.jsonl"))
    for path in journals:
        try:
            kept |= _finished(path)
        except StepforkError as error:
            unreadable.append(str(error))
    return {
        "calls": len(done),
        "lost": [ticket for ticket in done if kept.get(ticket) != ticket],
        "unreadable": unreadable,
        "runs": len(journals),
    }


def _finished(path: Path) -> dict[str, Any]:
    found = {}
    for call in read_run(path).walk():
        if "ticket" in call.input and call.outcome.status == "returned":
            value = decode(call.outcome.value)
            found[str(call.input["ticket"])] = (
                "".join(call.outcome.items) if call.outcome.items is not None else value["ticket"]
            )
    return found


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill that many agents, which all know their way already."""
    stepfork.configure(dir=str(folder / "first"))
    Agent(folder, seed).live(rounds=1)
    for number in range(kills):
        print(json.dumps(kill_one(folder / str(number), seed + number)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
