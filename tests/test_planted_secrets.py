"""Secrets planted wherever an agent can hold one: none of them is found on disk, and replays do not mind."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from project import MINIMAL, Project
from road import STRANGER
from secret_samples import PLANTED, VARIABLES, Planted
from stepfork._recording import read_run
from stepfork._redact.secrets import base64_forms

AGENT = '''
    import asyncio
    import base64
    import gzip
    import json
    import os
    import sys
    from pathlib import Path
    from urllib.parse import quote

    import stepfork

    HERE = Path(__file__).parent


    def secrets():
        """Yield each text that holds a secret, whether it is known by value, in base64, fit for a path."""
        for text, variable, *where in json.loads((HERE / "planted.json").read_text()):
            yield str(os.environ.get(variable)) if variable else text, bool(variable), *where


    @stepfork.tool
    def lookup(url, headers, password="swordfish of the house"):
        (HERE / "ran").touch()
        return {"url": url, "token": "Zx89qwTT", url: 1}


    @stepfork.model
    async def ask(messages):
        return {"role": "assistant", "content": "You said " + messages[-1]["content"]}


    @stepfork.tool
    def rows(text):
        for start in range(0, len(text), 5):
            yield text[start : start + 5]
        return text


    @stepfork.tool
    async def chunks(text):
        for start in range(0, len(text), 3):
            yield {"choices": [{"delta": {"content": text[start : start + 3]}}]}


    @stepfork.tool
    def change(state, text):
        state["notes"].append(text)
        state[text] = "seen"


    class Denied(Exception):
        pass


    @stepfork.tool
    def refuse(text):
        error = Denied(f"401 for {text}", {"sent": text})
        error.add_note(f"while sending {text}")
        raise error


    @stepfork.tool
    def store(data):
        return data


    @stepfork.step
    def note(text):
        return {"about": f"heard of {text}", "length": 3}


    @stepfork.step
    async def handle(ticket):
        heard, everything = "", []
        for text, is_known, in_base64, in_path in secrets():
            everything.append(text)
            lookup(f"https://api.example.com/v1?q=a%20{text}&page=2", [("X-Api-Key", text)])
            await ask([{"role": "user", "content": f"Please use {text}, then stop.\\nThank you."}])
            heard = "".join(rows(f"the text: {text} (end)"))
            heard = "".join(
                [chunk["choices"][0]["delta"]["content"] async for chunk in chunks(f"see {text} (end)")]
            )
            note(heard)
            state = {"notes": ["first"]}
            change(state, text)
            note(state["notes"][-1])
            try:
                refuse(text)
            except Denied as error:
                note(str(error.args[0]))
            store({text: 1, "path": Path("/srv") / text if in_path else None})
            store(b"\\xff" + text.encode() + b"\\xfe")
            store(gzip.compress(f"k=<{text}>".encode(), mtime=0))
            store((json.dumps({"body": json.dumps({"x": text})}), repr([text])))
            if in_base64 or is_known:
                store("data:;base64," + base64.b64encode(text.encode()).decode())
            if is_known:
                store([quote(text), quote(text, safe=""), text.encode().hex(), text.encode("utf-16")])
                store(f"https://x.example.com/{quote(text, safe='')}?p=1")
        store("\\n".join(everything) + "x" * 70000)
        if ticket["ends"] == "raise":
            raise Denied("no more: " + " ".join(everything))
        stepfork.fail("not what was asked: " + " ".join(everything))
        return {"all": everything}


    if __name__ == "__main__":
        try:
            asyncio.run(handle({"ends": sys.argv[1], "text": [text for text, *_ in secrets()]}))
        except Denied:
            pass
'''


def base64_is_looked_into(text: str) -> bool:
    """Whether a provider's key is known in base64, where its first characters are seen."""
    return text.startswith(
        ("sk-proj-", "sk-ant-", "ghp_", "github_pat_", "glpat-", "AKIA", "xoxb-", "-----BEGIN")
    )


class Agent:
    """The agent above in a project of its own, with these secrets."""

    def __init__(self, folder: Path, planted: list[Planted]) -> None:
        self.planted = planted
        rows = [
            (each.text, each.variable, base64_is_looked_into(each.text), "/" not in each.text)
            for each in planted
        ]
        files = {**MINIMAL, "agent.py": AGENT, "planted.json": json.dumps(rows)}
        self.project = Project(folder, files)
        self.env = {**STRANGER, **VARIABLES}

    def record(self, ends: str) -> Path:
        """Run the agent in a process of its own; returns its journal."""
        result = self.project.run("python", "agent.py", ends, env=self.env)
        assert (result.code, result.err) == (0, ""), result
        (journal,) = (self.project.root / ".stepfork" / "runs").glob("*.jsonl")
        return journal

    def shows(self) -> list[str]:
        """Return which secrets stand in a file that stepfork wrote, in any form, and where."""
        found = []
        for name, data in self.project.files().items():
            if name not in ("agent.py", "planted.json"):
                found += [f"{each.kind} in {name}" for each in self.planted if is_in(each, data)]
        return found


def is_in(planted: Planted, data: bytes) -> bool:
    """Whether a secret stands in these bytes, or in what they hold in base64 or gzip."""
    forms = _forms(planted.secret)
    return any(form in part for part in (data, *_inside(data)) for form in forms)


def _forms(secret: str) -> set[bytes]:
    data = secret.encode()
    texts = {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote(secret, safe="").lower(),
        repr(secret)[1:-1],
    }
    texts |= {json.dumps(text, ensure_ascii=False)[1:-1] for text in list(texts)}
    texts |= {text.replace('"', "'") for text in texts}
    wide = {secret.encode(f"utf-16-{order}") for order in ("le", "be")}
    turned = {form for _, form in base64_forms(data)}
    return (
        {text.encode() for text in texts} | turned | wide | {data.hex().encode(), data.hex().upper().encode()}
    )


_decoded: dict[bytes, list[bytes]] = {}


def _inside(data: bytes) -> list[bytes]:
    if data not in _decoded:
        _decoded[data] = list(_unpacked(data))
    return _decoded[data]


def _unpacked(data: bytes) -> Iterator[bytes]:
    for run in re.findall(rb"[A-Za-z0-9+/]{16,}={0,2}", data):
        try:
            inside = base64.b64decode(run[: len(run) // 4 * 4])
        except binascii.Error:
            continue
        yield gzip.decompress(inside) if inside.startswith(b"\x1f\x8b") else inside


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """Return an agent that holds every secret."""
    return Agent(tmp_path / "project", PLANTED)


def test_there_are_enough_secrets_of_enough_kinds() -> None:
    """What is planted below is 40 secrets of 15 kinds at least, all different."""
    assert len({each.text for each in PLANTED}) == len(PLANTED) >= 40
    assert len({each.kind for each in PLANTED}) >= 15


@pytest.mark.parametrize("ends", ["raise", "fail"])
def test_no_planted_secret_is_in_any_file_of_a_run(agent: Agent, ends: str) -> None:
    """Arguments, results, keys, URLs, prompts, exceptions, bytes, changes, large values (B43, B44)."""
    journal = agent.record(ends)
    assert agent.shows() == []
    assert journal.stat().st_size > 100_000
    assert list(journal.parent.rglob("*"))[1:], "large values stand in files of their own"


def test_no_stream_shows_a_secret_when_its_chunks_are_put_together(agent: Agent) -> None:
    """Of what came in pieces of three or five characters no eight in a row stand on disk (B43)."""
    run = read_run(agent.record("raise"))
    streams = [call for call in run.walk() if call.name in ("rows", "chunks")]
    assert len(streams) == 2 * len(PLANTED)
    for number, call in enumerate(streams):
        planted = PLANTED[number // 2]
        joined = "".join(map(_text_of, call.outcome.items or []))
        assert "[redacted-" in joined, planted
        shown = [
            planted.secret[start : start + 8]
            for start in range(len(planted.secret) - 7)
            if planted.secret[start : start + 8] in joined
        ]
        assert shown == [], (planted, joined)


def _text_of(chunk: Any) -> str:
    return chunk if isinstance(chunk, str) else str(chunk["choices"][0]["delta"]["content"])


FEW = [each for each in PLANTED if each.variable or each.kind in ("github", "private key", "curl", "JSON")]
OTHERS = {name: f"another-{value[::-1]}" for name, value in VARIABLES.items()}
URL = {"DATABASE_URL": "postgres://bob:some-other-one@db/prod"}
PLACES: dict[str, dict[str, str | None]] = {
    "where it was recorded": dict(VARIABLES),
    "with other secrets": {**OTHERS, **URL},
    "without secrets": {**dict.fromkeys(VARIABLES), **URL},
}


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "planted"), [("fail", FEW), ("raise", PLANTED)], ids=["few", "all"])
def test_a_test_shows_no_secret_and_is_as_red_where_they_are_others_or_gone(
    tmp_path: Path, ends: str, planted: list[Planted]
) -> None:
    """Recording, snapshot and test hold none; the bug is seen everywhere, and nothing runs (B43)."""
    agent = Agent(tmp_path / "project", planted)
    agent.record(ends)
    (agent.project.root / "ran").unlink()
    made = agent.project.stepfork("make-test", "--name", "planted", env=agent.env)
    assert made.code == 0, made
    assert agent.shows() == []
    for place, variables in PLACES.items():
        result = agent.project.pytest("-q", env={**STRANGER, **variables})
        assert result.code == 1, (place, result)
        assert "StillFailing" in result.out, (place, result)
    assert not (agent.project.root / "ran").exists()
    assert agent.shows() == []
