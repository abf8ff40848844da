"""From a journal to a recording: without secrets, and with the module's name for what was a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_runs import header
from stepfork._calls import Entry, Failure, Plain
from stepfork._events import CallEnded, CallStarted, Event, RunEnded, RunMarked, encode_line
from stepfork._home import entry_of
from stepfork._journal import store_blob
from stepfork._making.transcribe import Transcript, renamed, show_placeholders, transcribe
from stepfork._making.weight import LARGE_ARGUMENT, LARGE_BYTES, what_weighs
from stepfork._paths import blobs_dir
from stepfork._recording import read_run
from stepfork._redact import Redactor
from stepfork.errors import UnsafeName

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


def test_a_class_is_named_by_its_module_however_deep_it_stands() -> None:
    """A value of depth 3,000 is as good as any, and the one that was given stays as it is."""
    plain: Plain = {"$object": "__main__:Order", "state": {"note": "__main__:Order"}}
    for _ in range(3000):
        plain = [plain]
    found, given = renamed(plain, "shop.agent"), plain
    for _ in range(3000):
        found, given = found[0], given[0]
    assert found == {"$object": "shop.agent:Order", "state": {"note": "__main__:Order"}}
    assert given["$object"] == "__main__:Order"


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


def weighed(*events: Event, payload: int = 10) -> str:
    """Return what is said of a recording with a payload of so many bytes beside it."""
    lines = b"".join(map(encode_line, [header("0a1b2c3d4e"), *events]))
    return what_weighs(Transcript(lines, {"0a.json": b"x" * payload}))


def test_of_a_large_recording_it_is_said_what_weighs() -> None:
    """What takes most is named, with the way to leave it out; a shared payload weighs once (B40)."""
    page = {"$blob": "0a", "bytes": 2**20}
    events: list[Event] = [
        CallStarted("handle#1", "step", {"order_id": "A-17"}),
        *(CallStarted(f"handle#1/see#{n}", "model", {"page": page, "n": n}) for n in range(1, 10)),
        CallStarted("handle#1/read#1", "tool", {"url": "x"}),
        CallEnded("handle#1/read#1", "returned", "y" * (2**22 + 2**20)),
    ]
    note = weighed(*events, payload=2**20)
    assert note.startswith("the recording takes 6.0 MB, what read gave back takes 5.0 MB of them; "), note
    events[-1] = CallStarted("handle#1/ask#1", "tool", {"page": "x" * LARGE_BYTES})
    note = weighed(*events, payload=2**20)
    assert "the argument 'page' of ask takes 5.0 MB of them" in note
    assert '@stepfork.tool(ignore=("page",)) leaves it out' in note


def test_an_argument_of_over_a_megabyte_is_told_also_where_the_recording_is_small() -> None:
    """Inline or as a payload of its own; below that nothing is said."""
    inline = CallStarted("handle#1", "step", {"page": "x" * (LARGE_ARGUMENT + 1), "n": 1})
    beside = CallStarted("handle#1", "step", {"page": {"$blob": "0a", "bytes": LARGE_ARGUMENT + 1}})
    for event in (inline, beside):
        note = weighed(event)
        assert note.startswith("the argument 'page' of handle takes 1.0 MB in one call; "), note
        assert '@stepfork.step(ignore=("page",))' in note
    assert weighed(CallStarted("handle#1", "step", {"page": "x" * 2**19})) == ""


def test_payloads_that_lie_elsewhere_are_refused(tmp_path: Path) -> None:
    """A link out of the run's folder is followed nowhere: neither the folder's nor a file's (B47)."""
    journal = tmp_path / "runs" / "journal.jsonl"
    elsewhere = tmp_path / "elsewhere"
    journal.parent.mkdir()
    text = "word " * 1000
    reference = store_blob(elsewhere, text, 1000)
    call = CallStarted("handle#1", "step", {"text": reference})
    journal.write_bytes(encode_line(header("0a1b2c3d4e")) + encode_line(call))
    blobs_dir(journal).symlink_to(elsewhere)
    with pytest.raises(UnsafeName, match="is a link out of the run's folder"):
        transcribe(journal, Redactor(environ={}), main_module=None, blob_bytes=1000)
    blobs_dir(journal).unlink()
    blobs_dir(journal).mkdir()
    name = next(elsewhere.iterdir()).name
    (blobs_dir(journal) / name).symlink_to(elsewhere / name)
    with pytest.raises(UnsafeName, match="is a link out of the run's folder"):
        transcribe(journal, Redactor(environ={}), main_module=None, blob_bytes=1000)
    (tmp_path / "linked").symlink_to(journal.parent)
    (blobs_dir(journal) / name).unlink()
    store_blob(blobs_dir(journal), text, 1000)
    whole = tmp_path / "linked" / "journal.jsonl"
    assert transcribe(whole, Redactor(environ={}), main_module=None, blob_bytes=1000).blobs


def test_a_secret_found_later_is_not_numbered_like_one_found_before(tmp_path: Path) -> None:
    """Two secrets that differ stay different in the recording (B43)."""
    journal = tmp_path / "journal.jsonl"
    call = CallStarted("handle#1", "step", {"a": "[redacted-3]*****", "b": SECRET})
    journal.write_bytes(encode_line(header("0a1b2c3d4e")) + encode_line(call))
    redactor = Redactor(environ={})
    show_placeholders(journal, redactor)
    lines = transcribe(journal, redactor, main_module=None, blob_bytes=1000).lines
    assert b'{"a":"[redacted-3]*****","b":"sk-proj-[redacted-4]' in lines


def test_the_main_module_of_a_spawned_process_is_the_one_that_was_run() -> None:
    """There Python calls it ``__mp_main__``; a test imports it by its own name all the same."""

    def work() -> None:
        """Stands for a function of a script."""

    work.__module__ = "__mp_main__"
    entry = entry_of(work)

    assert entry is not None
    assert entry.module == "__main__"
    assert renamed([{"$object": "__mp_main__:Order"}, {"$enum": "__main__:Colour"}], "agent") == [
        {"$object": "agent:Order"},
        {"$enum": "agent:Colour"},
    ]
