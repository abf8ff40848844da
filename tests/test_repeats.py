"""What a snapshot leaves out because an earlier call has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import PLAINS, TEXTS, document_of, step, tool
from properties import thoroughly
from stepfork._codec import canonical
from stepfork._verdict import snapshot as _snapshot
from stepfork._verdict.document import walk
from stepfork._verdict.repeats import expanded, shortened


def database(**changes: Any) -> dict[str, Any]:
    """Return a dict that takes a page."""
    orders = {f"A-{number}": {"total": number, "open": True} for number in range(20)}
    return {"orders": {**orders, **changes}, "log": ["start", "look"]}


def test_an_argument_that_an_earlier_call_had_is_not_repeated() -> None:
    """A database handed to every tool stands there once; what changes in it shows as a change."""
    changed = {**database(**{"A/7": {"total": 7}}), "log": ["start", "go", "on", "look"]}
    calls = [
        tool("look#1", db=database()),
        tool("book#1", db=database(), order="A-17"),
        tool("look#2", db=changed),
        tool("book#2", db={**changed, "log": []}),
        tool("look#3", db=database()),
        tool("name#1", db={"small": 1}),
        tool("name#2", db={"small": 1}),
    ]
    full = document_of(step("handle#1", *calls))
    inputs = {address: node["input"] for address, node in walk(shortened(full)["calls"])}
    assert inputs["handle#1/look#1"] == {"db": database()}
    assert inputs["handle#1/book#1"] == {"db": {"$as in": "handle#1/look#1"}, "order": "A-17"}
    assert inputs["handle#1/look#2"]["db"] == {
        "$as in": "handle#1/look#1",
        "changes": {
            "set": {"/orders/A~17": {"total": 7}},
            "list": {"/log": {"at": 1, "out": 0, "in": ["go", "on"]}},
        },
    }
    assert inputs["handle#1/book#2"]["db"]["$as in"] == "handle#1/look#2"
    assert inputs["handle#1/look#3"] == {"db": {"$as in": "handle#1/look#1"}}
    assert inputs["handle#1/name#2"] == {"db": {"small": 1}}
    assert canonical(expanded(shortened(full))) == canonical(full)


def test_a_conversation_of_many_pages_shows_what_was_added_too() -> None:
    """Beyond 64 KiB the long messages are digests, each its own: the next call differs by what is new."""
    talk = [{"role": "tool", "content": f"{number}{'x' * 5000}"} for number in range(20)]
    calls = [tool(f"ask#{number}", messages=talk[: number + 15]) for number in range(4)]
    inputs = {
        address: node["input"]
        for address, node in walk(shortened(document_of(step("handle#1", *calls)))["calls"])
    }
    first = inputs["handle#1/ask#0"]["messages"]
    assert [message["bytes"] > 5000 for message in first] == [True] * 15
    last = inputs["handle#1/ask#3"]["messages"]
    assert (last["$begins as"], last["items"], len(last["then"])) == ("handle#1/ask#2", 17, 1)


@thoroughly(100)
@given(
    values=st.lists(
        st.dictionaries(TEXTS.map(lambda key: key.lstrip("$")), PLAINS, max_size=4), min_size=2, max_size=5
    )
)
def test_changes_of_an_argument_lose_nothing(values: list[dict[str, Any]]) -> None:
    """Whatever changes in a large argument, and however its keys are spelt, comes back in full."""
    calls = [
        tool(f"look#{number}", db={"page": database(), "value": value, **value})
        for number, value in enumerate(values)
    ]
    made = document_of(step("handle#1", *calls))
    again = expanded(shortened(made))
    assert canonical(again) == canonical(made)
    assert _snapshot.to_text(again) == _snapshot.to_text(made)


def test_a_reference_that_does_not_fit_is_refused() -> None:
    """A call that was deleted by hand takes what refers to it along, and so does a part of its value."""
    made = document_of(step("handle#1", tool("look#1", db=database()), tool("look#2", db=database())))
    without, changed = shortened(made), shortened(made)
    del without["calls"][0]["calls"][0]
    changed["calls"][0]["calls"][1]["input"]["db"]["changes"] = {"gone": ["/orders/B-1"]}
    for short in (without, changed):
        with pytest.raises(ValueError, match=r"look#2: .*look#1"):
            expanded(short)
