"""A run as a document for reviewers."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from hypothesis import given

from documents import document_of, model, raised, returned, roots, step, tool
from properties import thoroughly
from stepfork._alias import Facts
from stepfork._calls import Call, Failure, Outcome, Run
from stepfork._codec import canonical, encode
from stepfork._verdict.document import LARGE_BYTES, _large_by_digest, document, label_of, walk
from stepfork._verdict.repeats import expanded, shortened
from stepfork.tolerance import Rules, approx


def only(root: Call) -> dict[str, Any]:
    """Return the node of the root."""
    (node,) = document_of(root)["calls"]
    return dict(node)


def test_steps_show_input_and_output_and_tools_only_their_input() -> None:
    """What a tool answered stays in the recording."""
    root = step(
        "handle#1", tool("look#1", returned("secret"), key="A"), outcome=returned("done"), order="A-17"
    )
    assert only(root) == {
        "step": "handle#1",
        "input": {"order": "A-17"},
        "output": "done",
        "calls": [{"tool": "look#1", "input": {"key": "A"}}],
    }


def test_arguments_keep_the_order_of_the_signature_and_what_is_in_them_is_sorted() -> None:
    """A reader finds the arguments as the function has them; the order inside a dict is noise."""
    node = only(step("handle#1", zebra={"b": 1, "a": [{"d": 1, "c": 2}]}, ant=1))
    assert list(node["input"]) == ["zebra", "ant"]
    assert list(node["input"]["zebra"]) == ["a", "b"]
    assert list(node["input"]["zebra"]["a"][0]) == ["c", "d"]


def test_a_tagged_value_keeps_its_tag_first() -> None:
    """Sorting must not make another value of what the codec wrote."""
    plain = {"$object": "shop:Order", "state": {"b": 1, "a": 2}}
    assert list(only(step("handle#1", order=plain))["input"]["order"]) == ["$object", "state"]


class Message(pydantic.BaseModel):
    """Has fields that nobody gives most of the time."""

    content: str
    kind: str = "ai"
    name: str | None = None
    calls: list[str] = []
    notes: dict[str, str] = {}
    score: int = 0


def test_fields_that_nobody_gave_and_that_hold_nothing_are_not_shown() -> None:
    """A given nothing is shown, and so is a default that is something: those are behaviour."""

    def shown(message: Message) -> Any:
        return only(step("handle#1", outcome=returned(encode([message]).plain)))["output"]

    plain = {"content": "hi", "kind": "ai", "score": 0}
    assert shown(Message(content="hi")) == [{"$object": f"{__name__}:Message", "state": plain}]
    given = Message(content="hi", name=None, calls=[])
    assert shown(given)[0]["state"] == {**plain, "name": None, "calls": []}
    assert shown(Message(content="hi", notes={"a": "b"}))[0]["state"] == {**plain, "notes": {"a": "b"}}


def test_a_librarys_object_is_shown_by_what_it_says() -> None:
    """Tokens, fingerprints and empty fields change with the provider and with the version of the library."""
    call = {"name": "find", "args": {"limit": None}, "id": "call_1"}
    message = {
        "$object": "langchain_core.messages.ai:AIMessage",
        "state": {
            "content": "",
            "tool_calls": [call],
            "invalid_tool_calls": [],
            "additional_kwargs": {"refusal": None},
            "response_metadata": {"system_fingerprint": "fp_1"},
            "usage_metadata": {"input_tokens": 3},
        },
        "extra": {"__pydantic_fields_set__": {"$set": ["content", "usage_metadata"]}},
    }
    answer = {
        "$object": "openai.types.chat.chat_completion:ChatCompletion",
        "state": {"id": "c-1", "created": 3, "choices": [message], "usage": None, "service_tier": "default"},
    }
    (shown,) = only(step("handle#1", outcome=returned([answer])))["output"]
    assert shown["state"].keys() == {"id", "choices"}
    (message,) = shown["state"]["choices"]
    assert message == {"$object": message["$object"], "state": {"content": "", "tool_calls": [call]}}


def test_an_object_of_the_users_own_keeps_such_fields() -> None:
    """What a library calls metadata may be the very result of an agent."""
    plain = {"$object": "shop:Answer", "state": {"usage": 3, "response_metadata": {}, "created": None}}
    assert only(step("handle#1", outcome=returned(plain)))["output"] == plain


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (returned(None), {"output": None}),
        (raised("KeyError", "'amount'"), {"raised": "KeyError", "message": "'amount'"}),
        (Outcome("returned", None, items=[1, 2], shape="stream"), {"chunks": [1, 2]}),
        (Outcome("closed_early", None, items=[1], shape="stream"), {"chunks": [1], "closed early": True}),
        (
            Outcome("suspended", {"$exception": "m:Wait", "message": ""}),
            {"suspended": "m:Wait", "message": ""},
        ),
        (Outcome("stopped"), {"stopped": True}),
        (Outcome("cut_off"), {"cut off": True}),
    ],
)
def test_a_step_says_how_it_ended(outcome: Outcome, shown: dict[str, Any]) -> None:
    """Each way to end has its entry."""
    node = only(step("handle#1", outcome=outcome))
    assert {key: value for key, value in node.items() if key not in ("step", "input")} == shown


def test_what_a_swallowed_stop_made_its_callers_return_is_not_shown() -> None:
    """The ancestors of a frontier are ``stopped``, whatever they returned."""
    unrecorded = tool("refund#1", Outcome("stopped"), amount=1)
    unrecorded.unrecorded = True
    made = document_of(step("handle#1", step("inner#1", unrecorded, outcome=returned("fallback"))))
    nodes = dict(walk(made["calls"]))
    assert nodes["handle#1"]["stopped"] is nodes["handle#1/inner#1"]["stopped"] is True
    assert "output" not in nodes["handle#1/inner#1"]
    assert nodes["handle#1/inner#1/refund#1"]["unrecorded"] is True
    assert made["outcome"] == {"stopped": ["handle#1/inner#1/refund#1"]}


def test_a_failed_run_says_why_and_where() -> None:
    """The reason that the code gave stands in the outcome."""
    root = step("handle#1", outcome=returned("sorry"))
    run = Run("r1", "handle", root, failure=Failure("failed", "handle#1", message="gave up"))
    made = document(run, recording="r", state="accepted", facts=Facts(), clock=(0.0, 0.0))
    assert made["outcome"] == {"failed": "gave up", "at": "handle#1"}


def test_a_raised_outcome_names_type_message_and_place() -> None:
    """The reviewer sees what ended the run."""
    root = step("handle#1", outcome=raised("KeyError", "'amount'"))
    assert document_of(root)["outcome"] == {"raised": "KeyError", "message": "'amount'", "at": "handle#1"}


def test_a_polled_tool_is_shown_once() -> None:
    """How often it was asked is not compared."""
    polls = [tool(f"poll#{number}", job=1) for number in (1, 2, 3)]
    for poll in polls:
        poll.repeats = True
    assert [label_of(node) for node in only(step("handle#1", *polls))["calls"]] == ["poll#1"]


def test_made_ids_and_times_stand_as_aliases() -> None:
    """The same id has the same alias wherever it stands; a fact stands as it is (B71)."""
    made, fact = "0d4c5b84-2f6e-4b52-8d0c-6f0b2a3c4d5e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    facts = Facts()
    facts.add(fact)
    root = step("handle#1", tool("save#1", id=made), tool("load#1", id=made, order=fact), order=fact)
    nodes = dict(walk(document_of(root, facts=facts)["calls"]))
    assert nodes["handle#1/save#1"]["input"] == {"id": "<uuid:1>"}
    assert nodes["handle#1/load#1"]["input"] == {"id": "<uuid:1>", "order": fact}


def test_the_rules_that_apply_are_written_down() -> None:
    """Loosening a tolerance shows in the review; a rule without a place does not."""
    rules = {"score": Rules({"value": approx(rel=0.1), "absent": approx(rel=0.2)})}
    made = document_of(step("score#1", outcome=returned({"value": 1.0})), rules=rules)
    assert made["rules"] == {"score": {"value": "approx(rel=0.1)"}}


def test_a_large_value_stands_as_its_digest() -> None:
    """What no reviewer reads does not fill the file, and still differs when it changes."""
    text = "x" * (LARGE_BYTES + 1)
    first, second = (only(step("handle#1", text=each))["input"]["text"] for each in (text, text + "y"))
    assert first["bytes"] == LARGE_BYTES + 3
    assert first["$large"] != second["$large"]


def test_a_conversation_is_not_repeated() -> None:
    """An argument that begins like the same one of the call before shows only what was added."""
    talk: list[Any] = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}]
    calls = [
        model("ask#1", messages=talk),
        model("ask#2", messages=[*talk, {"role": "user", "content": "refund"}]),
    ]
    full = document_of(step("handle#1", *calls))
    second = dict(walk(shortened(full)["calls"]))["handle#1/ask#2"]["input"]["messages"]
    assert second == {
        "$begins as": "handle#1/ask#1",
        "items": 2,
        "then": [{"role": "user", "content": "refund"}],
    }
    assert expanded(shortened(full)) == full


@thoroughly(50)
@given(root=roots())
def test_shortening_loses_nothing(root: Call) -> None:
    """What is left out because the call before has it comes back in full."""
    made = document_of(root)
    assert canonical(expanded(shortened(made))) == canonical(made)


def test_a_shortened_argument_without_its_beginning_is_refused() -> None:
    """A hand-edited file must not be read as something that it does not say."""
    made = document_of(step("handle#1", model("ask#1", messages=[1, 2]), model("ask#2", messages=[1, 2, 3])))
    short = shortened(made)
    del short["calls"][0]["calls"][0]
    with pytest.raises(ValueError, match="begins as"):
        expanded(short)


def test_a_large_dict_whose_first_key_begins_like_a_tag_keeps_its_fields() -> None:
    """A user's ``$ref`` is doubled, and is no tag: only what is large in it is a digest."""
    shown = _large_by_digest({"$$ref": "#/order", "a": 1, "b": "x" * 100_000})

    assert (shown["$$ref"], shown["a"], list(shown["b"])) == ("#/order", 1, ["$large", "bytes"])
