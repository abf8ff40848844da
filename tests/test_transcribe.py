"""From a journal to a recording: without secrets, and with the module's name for what was a script."""

from __future__ import annotations

from pathlib import Path

from sample_runs import header
from stepfork._calls import Entry, Failure
from stepfork._events import CallEnded, CallStarted, Event, RunEnded, RunMarked, encode_line
from stepfork._making.transcribe import transcribe
from stepfork._making.weight import LARGE_BYTES, what_weighs
from stepfork._paths import blobs_dir
from stepfork._recording import read_run
from stepfork._redact import Redactor

SECRET = "sk-proj-a8Kd03jfmQ29vbXzLpQ8sT41"


def recorded(tmp_path: Path, *events: Event, main_module: str | None = None, torn: bytes = b"") -> Path:
    """Write a journal, transcribe it, and return the recording."""
    first = header("0a1b2c3d4e")
    first.entry = Entry("__main__", "handle", "agent.py")
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(map(encode_line, [first, *events])) + torn)
    transcript = transcribe(
        journal, Redactor(environ={"SHOP_TOKEN": "hunter2-hunter2"}), main_module=main_module, blob_bytes=1000
    )
    recording = tmp_path / "recording.jsonl"
    recording.write_bytes(transcript.lines)
    for name, data in transcript.blobs.items():
        blobs_dir(recording).mkdir(exist_ok=True)
        (blobs_dir(recording) / name).write_bytes(data)
    return recording


def test_secrets_are_looked_for_again_wherever_text_stands(tmp_path: Path) -> None:
    """A rule or variable that came after the run takes its secrets out of values and reasons (B43)."""
    recording = recorded(
        tmp_path,
        CallStarted("handle#1", "step", {"key": f"use {SECRET}", "n": 1}),
        CallEnded("handle#1", "returned", ["hunter2-hunter2"], changes={"key": [["set", [], SECRET]]}),
        RunMarked(f"it leaked {SECRET}"),
        RunEnded(0.1, Failure("raised", "handle#1", "builtins:KeyError", "hunter2-hunter2")),
    )
    data = recording.read_bytes()
    assert SECRET.encode() not in data
    assert b"hunter2" not in data
    assert read_run(recording).failure is not None


def test_a_script_gets_its_modules_name_and_texts_stay(tmp_path: Path) -> None:
    """Classes, exceptions and the entry are named by the module; a user's text is no reference."""
    told = "__main__:Order"
    recording = recorded(
        tmp_path,
        CallStarted("handle#1", "step", {"order": {"$object": told, "state": {"note": told}}, "note": told}),
        CallEnded("handle#1", "raised", {"$exception": "__main__:Declined", "args": [told], "message": told}),
        RunEnded(0.1, Failure("raised", "handle#1", "__main__:Declined", told)),
        main_module="shop.agent",
    )
    run = read_run(recording)
    assert run.entry is not None
    assert run.entry.module == "shop.agent"
    assert run.root.input == {
        "order": {"$object": "shop.agent:Order", "state": {"note": told}},
        "note": told,
    }
    assert run.root.outcome.value["$exception"] == "shop.agent:Declined"
    assert run.root.outcome.value["args"] == [told]
    assert run.failure is not None
    assert (run.failure.type, run.failure.message) == ("shop.agent:Declined", told)


def test_large_payloads_become_blobs_again(tmp_path: Path) -> None:
    """An export holds them inline; the recording beside a test does not, and no secret hides in one."""
    text = "word " * 1000 + SECRET
    recording = recorded(
        tmp_path, CallStarted("handle#1", "step", {"text": text}), CallEnded("handle#1", "returned", text)
    )
    blobs = list(blobs_dir(recording).iterdir())
    assert len(blobs) == 1
    assert SECRET.encode() not in blobs[0].read_bytes()
    assert len(recording.read_bytes()) < 1500
    assert read_run(recording).root.input["text"].startswith("word word")


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    """The recording of a killed run ends with the last whole event."""
    recording = recorded(tmp_path, CallStarted("handle#1", "step", {}), torn=b'{"event":"sta')
    assert recording.read_bytes().endswith(b"}\n")
    assert read_run(recording).root.outcome.status == "killed"


def test_of_a_large_recording_it_is_said_what_weighs(tmp_path: Path) -> None:
    """The argument that takes most is named, with the way to leave it out."""
    recording = recorded(
        tmp_path,
        CallStarted("handle#1", "step", {"order_id": "A-17"}),
        CallStarted("handle#1/read#1", "tool", {"page": "x" * 3000, "n": 1}),
        CallEnded("handle#1/read#1", "returned", "y" * 100),
        CallEnded("handle#1", "returned", 1),
        RunEnded(0.1),
    )
    run = read_run(recording)
    assert what_weighs(run, LARGE_BYTES) == ""
    note = what_weighs(run, LARGE_BYTES + 1)
    assert "5.0 MB" in note
    assert '@stepfork.tool(ignore=("page",)) leaves it out' in note
