"""How one value is told by another."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import PLAINS
from properties import thoroughly
from stepfork._patch import differences, patched


@thoroughly(300)
@given(before=PLAINS, after=PLAINS)
def test_what_is_different_makes_the_one_value_of_the_other(before: Any, after: Any) -> None:
    """Whatever the two values are; the first one stays as it was."""
    kept = copy.deepcopy(before)

    assert patched(before, differences(before, after)) == after
    assert before == kept


@thoroughly(200)
@given(
    start=st.text(),
    end=st.text(),
    old=st.text(),
    new=st.text(),
    filling=st.sampled_from(["", "x" * 400, "ab" * 300]),
)
def test_of_a_long_text_only_what_changed_in_it_is_told(
    start: str, end: str, old: str, new: str, filling: str
) -> None:
    """A prompt may grow by a line per call: what its beginning and its end have in common stays away."""
    before, after = {"prompt": start + filling + old + end}, {"prompt": start + filling + new + end}
    changes = differences(before, after, inside_texts=True)

    assert patched(before, changes) == after
    if filling and old != new:
        assert len(changes["text"]["/prompt"]["in"]) <= len(new)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ([1, 2], [1, 2, 3], {"list": {"": {"at": 2, "out": 0, "in": [3]}}}),
        ([1, 2, 3], [1, 4, 3], {"set": {"/1": 4}}),
        ({"a": {"b/c": 1, "d": 2}}, {"a": {"b/c": 2}}, {"set": {"/a/b~1c": 2}, "gone": ["/a/d"]}),
        ({"~": [{"x": 1}]}, {"~": [{"x": 2}]}, {"set": {"/~0/0/x": 2}}),
        ({"$tuple": [1]}, {"$set": [1]}, {"set": {"": {"$set": [1]}}}),
        ([1], [1], {}),
    ],
)
def test_only_what_is_different_is_told(before: Any, after: Any, changes: dict[str, Any]) -> None:
    """A place is a JSON Pointer; what was put into or taken out of a list is told by its position."""
    assert differences(before, after) == changes


def test_what_did_not_change_is_shared_and_not_copied() -> None:
    """A thousand calls with one large value take the memory of one, and of what changed."""
    before: Any = {"orders": {"A-1": {"open": True}, "A-2": {"open": True}}, "users": ["bo"]}
    after = patched(before, {"set": {"/orders/A-1/open": False}})

    assert after["users"] is before["users"]
    assert after["orders"]["A-2"] is before["orders"]["A-2"]
    assert before["orders"]["A-1"] == {"open": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"gone": ["/b"]},
        {"gone": [1]},
        {"gone": 1},
        {"set": ["/a"]},
        {"set": {"/text/0": "x"}},
        {"set": {"/a/x": 1}},
        {"set": {"/a/7": 1}},
        {"list": {"/a": {"at": 3, "out": 0, "in": []}}},
        {"list": {"/a": {"at": -1, "out": 0, "in": []}}},
        {"list": {"/a": {"at": 0, "out": 9, "in": []}}},
        {"list": {"/a": {"at": 0, "out": 0, "in": "text"}}},
        {"list": {"/text": {"at": 0, "out": 0, "in": []}}},
        {"list": {"/a": {"at": 0}}},
        {"list": {"/a": 1}},
        {"text": {"/a": {"at": 0, "out": 0, "in": "x"}}},
        {"text": {"/text": {"at": 9, "out": 0, "in": "x"}}},
        {"text": {"/text": {"at": 0, "out": 0, "in": ["x"]}}},
        "set",
    ],
)
def test_changes_that_do_not_fit_are_refused(changes: Any) -> None:
    """(B73) Somebody edited them: an error, and the value stays as it was."""
    before = {"a": [1, 2], "text": "abc"}

    with pytest.raises(ValueError, match="do not fit"):
        patched(before, changes)
    assert before == {"a": [1, 2], "text": "abc"}
