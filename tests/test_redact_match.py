from __future__ import annotations

from typing import Any

import pytest

from secret_samples import b64
from stepfork._redact import has_redaction, matches


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("[redacted-1]", None),
        ("sk-proj-[redacted-1]****", 12),
        ("Bearer [redacted-1]****", None),
        ("Bearer [redacted-1]****", "Bearer None"),
        ("key [redacted-1]** used", "key None used"),
        ("a [redacted-1] b sk-[redacted-2]*** c", "a x b sk-y c"),
        ("a [redacted-1] b sk-[redacted-2]*** c", "a [redacted-7] b [redacted-9] c"),
        ('{"k": "[redacted-1]"}', '{"k": null}'),
        ("https://x/?k=[redacted-1]", "https://x/?k="),
        ({"a": ["[redacted-1]"]}, {"a": [{"$tuple": []}]}),
        ({"[redacted-1]": 1, "[redacted-2]": 2}, {"b": 2, "a": 1}),
        ({"$set": ["[redacted-1]", "a"]}, {"$set": ["a", "z"]}),
        ({"$bytes": b64(b"\xffk=[redacted-1]***;\xff")}, {"$bytes": b64(b"\xffk=other;\xff")}),
    ],
)
def test_anything_may_stand_where_a_secret_stood(recorded: Any, now: Any) -> None:
    """A redacted span matches what a replay has there, None and nothing too."""
    assert matches(recorded, now)


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("key [redacted-1]** used", "key None unused"),
        ("key [redacted-1]** used", None),
        ("key [redacted-1]** used", ["key  used"]),
        ("a [redacted-1] b [redacted-2] c", "a x c"),
        ("abab[redacted-1]ab", "abab"),
        ({"a": "[redacted-1]", "b": 1}, {"a": "x", "b": 2}),
        ({"a": "[redacted-1]"}, {"a": "x", "b": 2}),
        ({"a": "[redacted-1]", "n": 1}, {"a": "x", "n": True}),
        ({"a": "[redacted-1]", "n": 1}, {"a": "x", "n": 1.0}),
        ({"[redacted-1]": 1}, {"b": 2}),
        ({"$set": ["[redacted-1]", "a"]}, {"$set": ["b", "z"]}),
        (["[redacted-1]"], ["x", "y"]),
        ({"$tuple": ["[redacted-1]"]}, ["x"]),
        ({"$bytes": b64(b"k=[redacted-1]***;")}, {"$bytes": b64(b"j=other;")}),
        ("x", "y"),
        (1, True),
    ],
)
def test_all_else_must_be_the_same(recorded: Any, now: Any) -> None:
    """What stands around a secret, and every other value with its type, is compared."""
    assert not matches(recorded, now)


def test_has_redaction_sees_placeholders_in_text_keys_and_bytes() -> None:
    """Whether something was taken out is known without the redactor."""
    assert has_redaction("a [redacted-1]")
    assert has_redaction({"[redacted-3]**": 1})
    assert has_redaction([{"$bytes": b64(b"\xff[redacted-1]")}])
    assert not has_redaction(["redacted", {"a": [1, None]}, {"$bytes": b64(b"x")}])
