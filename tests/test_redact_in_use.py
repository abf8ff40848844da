"""Secrets that are known since they were seen in use, whatever they look like."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from stepfork._redact import Redactor, in_use, rules
from stepfork._redact.in_use import InUse

SECRET = "correct/horse battery"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> InUse:
    """Give what is in use of its own to each test."""
    own = InUse()
    monkeypatch.setattr(rules, "in_use", own)
    monkeypatch.setattr(in_use, "in_use", own)
    return own


def test_a_secret_is_hidden_by_redactors_that_were_there_before(known: InUse) -> None:
    """A run goes on while its agent connects to one more server (B43)."""
    redactor = Redactor(environ={})
    plain: Any = {
        "text": f"no such key: {SECRET}!",
        "url": f"https://x/{quote(SECRET, safe='')}",
        "json": msgspec.json.encode({"a": SECRET}).decode(),
        "bytes": {"$bytes": base64.b64encode(SECRET.encode()).decode()},
    }
    assert redactor.redact(plain) is plain
    known.learn(SECRET, "server")
    assert redactor.scan(msgspec.json.encode(plain))
    result: Any = redactor.redact(plain)
    assert SECRET not in str(result)
    assert quote(SECRET, safe="") not in str(result)
    assert result["bytes"] != plain["bytes"]
    assert result["text"] == "no such key: [redacted-1]*********!"
    assert redactor.found == {"server": "environment"}


def test_what_is_too_short_to_be_told_from_others_is_not_learnt(known: InUse) -> None:
    """A word of seven letters would be hidden wherever it is meant as one."""
    for text in ("", "tea", "1234567", "disabled"):
        known.learn(text, "server")
    plain = "tea 1234567 disabled"
    assert Redactor(environ={}).text(plain) is plain


def test_the_newest_are_known(known: InUse) -> None:
    """Somebody's server that is reached with another key each time fills no memory."""
    for number in range(100):
        known.learn(f"plain-key-{number:03}", "server")
        known.learn("plain-key-000", "server")
    text = Redactor(environ={}).text(" ".join(f"plain-key-{number:03}" for number in range(100)))
    assert text.startswith("[redacted-1]")
    assert "plain-key-000" not in text
    assert "plain-key-036" in text
    assert "plain-key-037" not in text


def test_a_replay_knows_what_its_own_run_and_no_other_has_seen(known: InUse) -> None:
    """What was written before a secret was known stays comparable, however many replays went before."""
    known.learn("plain-key-of-the-module", "server")
    known.learn("plain-key-of-one-run", "server", in_run=True)
    text = "plain-key-of-the-module plain-key-of-one-run plain-key-of-a-replay"
    redactor = Redactor(environ={})
    for _ in range(2):
        with known.without_those_of_other_runs():
            assert redactor.text(text).split()[1:] == text.split()[1:]
            with known.without_those_of_other_runs():
                known.learn("plain-key-of-a-replay", "server", in_run=True)
                assert "of-a-replay" not in redactor.text(text)
            assert "of-one-run" in redactor.text(text)
    assert "of-" not in redactor.text(text)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_no_eight_characters_of_it_come_in_the_pieces_of_a_stream(known: InUse, size: int) -> None:
    """A model says the key it was asked with, token by token (B43)."""
    known.learn(SECRET, "server")
    redactor = Redactor(environ={})
    stream, text = redactor.stream(), f"the key is {SECRET}, and no other"
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    joined = "".join(str(redactor.redact(stream.item(piece))) for piece in pieces)
    assert not [part for start in range(len(SECRET) - 7) if (part := SECRET[start : start + 8]) in joined]
    assert joined.startswith("the key is ")
    assert joined.endswith(", and no other")
