"""What it costs to record the models of an SDK without an edit, against the SDK alone.

The provider answers in memory, so that the ratios are against what the SDK itself does; over a network
they are nearer to one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai

import stepfork
from benchmarks.paired import in_turns, program, table
from stepfork.adapters._switch import switched_on

_CALLS = 100
_MESSAGES: list[Any] = [
    {"role": "user", "content": f"order A-{number}: " + "word " * 20} for number in range(8)
]
_REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "word " * 100}}
    ],
    "usage": {"prompt_tokens": 200, "completion_tokens": 100, "total_tokens": 300},
}


def _answered(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, json=_REPLY)


_client = openai.OpenAI(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(_answered)))


def _ask() -> int:
    for _ in range(_CALLS):
        _client.chat.completions.create(model="gpt-5", messages=_MESSAGES)
    return _CALLS


def _switched_on() -> int:
    with switched_on(["openai"]):
        return _ask()


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _record(path: Path) -> int:
    with switched_on(["openai"]), stepfork.run("benchmark", path=path):
        return _ask()


def _recorded() -> int:
    with _folder() as folder:
        return _record(folder / "run.jsonl")


def _replayed_from(path: Path) -> Callable[[], int]:
    def way() -> int:
        with stepfork.replaying(path):
            return _ask()

    return way


def main() -> None:
    """Print a table of ratios."""
    with _folder() as folder:
        path = folder / "kept.jsonl"
        _record(path)
        calls = in_turns(
            [
                ("bare", _ask),
                ("on", _switched_on),
                ("recorded", _recorded),
                ("replayed", _replayed_from(path)),
            ]
        )
    programs = in_turns(
        [
            ("nothing", program("pass")),
            ("wrapt", program("import wrapt")),
            ("stepfork", program("import stepfork")),
            ("instrument", program("import stepfork; stepfork.instrument()")),
        ]
    )
    bare = calls["bare"]
    rows = [
        ["the SDK alone", f"{bare.microseconds:.0f}", "1.00"],
        *(
            [what, f"{calls[way].microseconds:.0f}", f"{calls[way].ratio(bare):.2f}"]
            for what, way in (
                ("adapters on, no run", "on"),
                ("adapters on, recorded", "recorded"),
                ("replayed", "replayed"),
            )
        ),
    ]
    print(table("A model call through the openai SDK, 8 messages", ["", "µs", "/ the SDK alone"], rows))
    on = programs["instrument"]
    rows = [
        [f"import stepfork; stepfork.instrument() / {what}", f"{on.ratio(programs[way]):.2f}"]
        for what, way in (
            ("import stepfork", "stepfork"),
            ("import wrapt", "wrapt"),
            ("python -c pass", "nothing"),
        )
    ]
    print(table("Switched on in a process that uses none of the libraries", ["", "ratio"], rows))


if __name__ == "__main__":
    main()
