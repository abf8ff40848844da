"""``make-test --scrub``: personal data that came from outside is replaced, and the failure comes back."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from project import Project
from road import STRANGER
from sample_runs import header
from stepfork._calls import Criterion, Failure
from stepfork._events import CallEnded, CallStarted, Event, ItemYielded, RunEnded, RunMarked, encode_line
from stepfork._making.scrub import Personal, look_for_personal_data
from stepfork._making.transcribe import transcribe
from stepfork._paths import blobs_dir
from stepfork._recording import read_run
from stepfork._redact import Redactor

BARE: dict[str, str | None] = {**STRANGER, "PYTHONPATH": None}
CARD = "4539 1488 0343 6467"
PERSONAL = re.compile(rb"alice|bob@|4539.?1488|867.?5309|37040044|else\.org", re.IGNORECASE)


def scrubbed(folder: Path, *events: Event, name: str = "handle") -> tuple[Path, Personal]:
    """Write a journal; return its scrubbed recording, and what was known of it."""
    journal, recording = folder / "journal.jsonl", folder / "recording.jsonl"
    journal.write_bytes(b"".join(map(encode_line, [header("0a1b2c3d4e", name=name), *events])))
    personal = look_for_personal_data(journal)
    redactor = Redactor(environ={})
    written = transcribe(journal, redactor, main_module=None, blob_bytes=1000, scrub=personal)
    recording.write_bytes(written.lines)
    for file, data in written.blobs.items():
        blobs_dir(recording).mkdir(exist_ok=True)
        (blobs_dir(recording) / file).write_bytes(data)
    return recording, personal


def test_personal_data_is_replaced_wherever_it_stands(tmp_path: Path) -> None:
    """Keys, JSON in a text, bytes, exceptions, large payloads, chunks, names: the same each time (B43)."""
    mail, zipped = b"from bob@else.org", gzip.compress(b"bob@else.org", mtime=0)
    error = {"$exception": "shop:Declined", "args": [f"alice@corp.com: {CARD}"], "message": "alice@corp.com"}
    recording, _ = scrubbed(
        tmp_path,
        CallStarted("alice@corp.com#1", "step", {"mail": "Alice@Corp.com", "number": 4539148803436467}),
        CallStarted("alice@corp.com#1/get#1", "tool", {}),
        ItemYielded(
            "alice@corp.com#1/get#1", {"alice@corp.com": ["+1 415 867 5309", "x" * 5000 + f" {CARD}"]}
        ),
        CallEnded(
            "alice@corp.com#1/get#1",
            "returned",
            {
                "json": json.dumps({"a": "x\nalice@corp.com"}),
                "bytes": [{"$bytes": base64.b64encode(each).decode()} for each in (mail, zipped)],
                "tuple": {"$tuple": ["DE89370400440532013000", f"glued{CARD}on"]},
            },
            changes={"order": [["set", ["mail"], "alice@corp.com"]]},
        ),
        CallEnded("alice@corp.com#1", "raised", error, origin="alice@corp.com#1"),
        RunMarked(
            "alice@corp.com was denied",
            None,
            Criterion({"mail": "alice@corp.com"}, ("send('bob@else.org')",)),
        ),
        RunEnded(1.0, Failure("raised", "alice@corp.com#1", "shop:Declined", "alice@corp.com")),
        name="alice@corp.com",
    )
    run = read_run(recording)
    files = [recording, *blobs_dir(recording).iterdir()]
    assert len(files) == 2
    assert not [file.name for file in files if PERSONAL.search(file.read_bytes())]
    got = run.root.children[0].outcome
    assert got.items is not None
    assert isinstance(got.value, dict)
    assert run.root.input == {"mail": "Person1@Example.com", "number": 4539000000000010}
    assert got.items[0]["person1@example.com"][0] == "+1 415 555 0101"
    assert got.items[0]["person1@example.com"][1].endswith("x 4539 0000 0000 0010")
    assert json.loads(got.value["json"]) == {"a": "x\nperson1@example.com"}
    raw, zipped = (base64.b64decode(each["$bytes"]) for each in got.value["bytes"])
    assert (raw, gzip.decompress(zipped)) == (b"from person2@site2.example.com", b"person2@site2.example.com")
    assert got.value["tuple"] == {"$tuple": ["DE09000000000000000001", "glued4539 0000 0000 0010on"]}
    assert got.changes == {"order": [["set", ["mail"], "person1@example.com"]]}
    assert run.root.outcome.value["args"] == ["person1@example.com: 4539 0000 0000 0010"]
    assert run.failure is not None
    assert (run.name, run.failure.message) == ("person1@example.com",) * 2
    assert run.criterion == Criterion({"mail": "person1@example.com"}, ("send('person2@site2.example.com')",))


def test_what_the_agents_own_code_says_is_left(tmp_path: Path) -> None:
    """An address in its prompt stands in the code: replaced, a replay would ask another question."""
    recording, personal = scrubbed(
        tmp_path,
        CallStarted("handle#1", "step", {"mail": "alice@corp.com"}),
        CallStarted("handle#1/ask#1", "model", {"prompt": "You are help@corp.com. alice@corp.com wrote."}),
        CallEnded("handle#1/ask#1", "returned", "Tell bob@else.org, or help@corp.com."),
        CallStarted("handle#1/look#1", "tool", {}),
        CallStarted("handle#1/look#1/sql#1", "step", {"of": "carol@corp.com"}),
        CallEnded("handle#1/look#1/sql#1", "returned", None),
        CallEnded("handle#1/look#1", "returned", None),
        CallEnded("handle#1", "returned", "done"),
        RunEnded(1.0),
    )
    assert (personal.outside, personal.own) == ({"e-mail address": 3}, {"e-mail address": 1})
    asked = read_run(recording).root.children[0]
    assert asked.input == {"prompt": "You are help@corp.com. person1@example.com wrote."}
    assert asked.outcome.value == "Tell person2@site2.example.com, or help@corp.com."
    assert b"carol" not in recording.read_bytes()


def test_a_conversation_that_is_not_written_again_is_scrubbed_in_each_call(tmp_path: Path) -> None:
    """What a call repeats of an earlier one is put together, scrubbed, and shortened again."""
    messages = [{"role": "user", "content": f"alice@corp.com {CARD} " + "word " * 1000}]
    events: list[Event] = [CallStarted("handle#1", "step", {"messages": messages})]
    for number in range(1, 9):
        messages = [*messages, {"role": "user", "content": f"{CARD}, {number} " + "word " * 100}]
        events.append(CallStarted(f"handle#1/ask#{number}", "model", {"messages": messages}))
        events.append(CallEnded(f"handle#1/ask#{number}", "returned", CARD))
    recording, _ = scrubbed(tmp_path, *events)
    asked = read_run(recording).root.children[-1].input["messages"]
    assert [each["content"].split("word")[0] for each in asked] == [
        "person1@example.com 4539 0000 0000 0010 ",
        *(f"4539 0000 0000 0010, {number} " for number in range(1, 9)),
    ]
    files = [recording, *blobs_dir(recording).iterdir()]
    data = b"".join(file.read_bytes() for file in files)
    assert not PERSONAL.search(data)
    assert len(data) < 3 * 6000


AGENT = """
    import stepfork

    ALLOWED = ("corp.com",)


    class Declined(Exception):
        pass


    @stepfork.tool
    def look_up(mail):
        return {"card": "4539 1488 0343 6467", "owner": "alice@corp.com"}


    @stepfork.step
    def handle(mail):
        found = look_up(mail.lower())
        if found["owner"] == mail.lower() and {test}:
            raise Declined(f"{mail} pays with {found['card']}")


    if __name__ == "__main__":
        handle("Alice@Corp.com")
"""


def recorded(project: Project, test: str) -> None:
    """Run the agent once."""
    project.write({"agent.py": AGENT.replace("{test}", test)})
    assert "Declined" in project.run("python", "agent.py", env=BARE).err


def test_the_failure_comes_back_without_the_persons_that_were_in_it(project: Project) -> None:
    """The agent compares what was replaced; the journal stays as it was; machines are told the counts."""
    recorded(project, "found['card'].startswith('4539')")
    journals = project.files(".stepfork")
    made = project.stepfork("make-test", "--scrub", "--json", env=BARE)
    assert made.code == 0, made
    assert made.json["personal"] == {"e-mail address": 1, "card number": 1}
    assert (made.json["scrubbed"], made.json["personal_in_code"]) == (True, {})
    assert made.json["reason"] == "Declined: Person1@Example.com pays with 4539 0000 0000 0010"
    assert "personal data: 1 e-mail address, 1 card number; replaced" in made.json["notes"]
    kept = {name: data for name, data in project.files().items() if name.startswith(("tests/", "snapshots/"))}
    assert not [name for name, data in kept.items() if PERSONAL.search(data)]
    assert {name: data for name, data in project.files(".stepfork").items() if name in journals} == journals


@pytest.mark.slow
def test_a_failure_that_hangs_on_a_replaced_value_is_told_and_nothing_is_written(project: Project) -> None:
    """The code knows the domain, and the message names the option; without it the counts are told."""
    recorded(project, "mail.lower().endswith(ALLOWED)")
    before = project.files()
    refused = project.stepfork("make-test", "--scrub", env=BARE)
    assert refused.code == 3, refused
    assert "1 e-mail address, 1 card number replaced: the agent may depend on what they were" in refused.err
    assert "make the test without --scrub" in refused.err
    assert project.files() == before
    made = project.stepfork("make-test", env=BARE)
    assert made.code == 0, made
    assert "personal data: 1 e-mail address, 1 card number; --scrub replaces them\n" in made.out


STREAMING = """
    import asyncio

    import stepfork


    @stepfork.tool
    def look_up():
        return {owner!r}


    @stepfork.model
    async def ask(prompt):
        for piece in ("Ask", " anna", ".berg", "@", "fjord", "mail", ".no", " or", " bob@fjordmail.co", "m."):
            yield {{"delta": {{"text": piece}}}}


    @stepfork.step
    async def handle(prompt):
        owner = look_up()
        said = "".join([chunk["delta"]["text"] async for chunk in ask(prompt)])
        assert owner in said, said
        raise ValueError(f"unsure: {{said}}")


    if __name__ == "__main__":
        asyncio.run(handle("whom?"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "owner",
    [pytest.param("Ask", id="new"), pytest.param("anna.berg@fjordmail.no", id="said by a tool before")],
)
def test_an_address_that_a_model_streams_in_pieces_is_replaced(project: Project, owner: str) -> None:
    """It goes over several chunks, the agent joins them and fails with it, and the failure comes back."""
    project.write({"agent.py": STREAMING.format(owner=owner)})
    assert "unsure: Ask anna.berg@fjordmail.no" in project.run("python", "agent.py", env=BARE).err
    made = project.stepfork("make-test", "--scrub", "--json", env=BARE)
    assert made.code == 0, made
    assert (made.json["personal"], made.json["personal_in_code"]) == ({"e-mail address": 2}, {})
    assert made.json["reason"] == "ValueError: unsure: Ask person1@example.com or person2@site2.example.com."
    kept = {name: data for name, data in project.files().items() if name.startswith(("tests/", "snapshots/"))}
    assert not [name for name, data in kept.items() if re.search(rb"anna|berg|fjord|bob@", data)]


def texts_of_stream(folder: Path, *chunks: object, said: str) -> list[object]:
    """Return the chunks of a tool in the scrubbed recording of a run in which the agent says a text."""
    folder.mkdir()
    recording, _ = scrubbed(
        folder,
        CallStarted("handle#1", "step", {}),
        CallStarted("handle#1/rows#1", "tool", {}),
        *(ItemYielded("handle#1/rows#1", chunk) for chunk in chunks),
        CallEnded("handle#1/rows#1", "returned", None, shape="stream"),
        CallEnded("handle#1", "returned", said),
        RunEnded(1.0),
    )
    items = read_run(recording).root.children[0].outcome.items
    assert items is not None
    return items


def test_chunks_that_are_whole_values_are_not_taken_for_pieces(tmp_path: Path) -> None:
    """Rows that would make one address if they were joined are replaced each by itself, unless they were."""
    rows = ("alice@corp.no", "bob@else.org", "alice@corp.no", "Oslo")
    assert texts_of_stream(tmp_path / "rows", *rows, said="alice@corp.no lives in Oslo") == [
        "person1@example.com",
        "person2@site2.example.com",
        "person1@example.com",
        "Oslo",
    ]
    pieces = ("alice@corp.no", "", "rway.com", ", ", CARD[:12], CARD[12:], ".")
    assert texts_of_stream(tmp_path / "pieces", *pieces, said="".join(pieces)) == [
        *("person1@example.com", "", "", ", "),
        *("4539 0000 0000 0010", "", "."),
    ]
    data = [{"$bytes": base64.b64encode(each).decode()} for each in (b"to alice@co", b"rp.no!")]
    got = texts_of_stream(tmp_path / "bytes", *data, said="")
    assert [base64.b64decode(each["$bytes"]) for each in got if isinstance(each, dict)] == [
        b"to person1@example.com",
        b"!",
    ]
