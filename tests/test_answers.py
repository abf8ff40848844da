"""What ``show`` makes of an answer that came over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepfork._answers import answer_of

HEAD: dict[str, Any] = {"status": 200, "headers": {"content-type": "application/json"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"id": 7}'}}


def events(*documents: dict[str, Any], cut: int = 30) -> list[Any]:
    """Return a stream of events, cut anywhere."""
    text = "".join(f"event: x\ndata: {json.dumps(each)}\n\n" for each in documents) + "data: [DONE]\n\n"
    return [HEAD, *(text[at : at + cut] for at in range(0, len(text), cut))]


def chat(**message: Any) -> dict[str, Any]:
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}


def delta(**message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": message}]}


ANSWERS: dict[str, tuple[list[Any], list[str]]] = {
    "chat, text": ([HEAD, json.dumps(chat(content="It is done."))], ["It is done."]),
    "chat, tools": ([HEAD, json.dumps(chat(content=None, tool_calls=[CALL]))], ['lookup({"id": 7})']),
    "chat, stream": (
        events(
            delta(content="One mom"),
            delta(content="ent."),
            delta(tool_calls=[{"index": 0, "function": {"name": "lookup", "arguments": ""}}]),
            delta(tool_calls=[{"index": 1, "function": {"name": "refund", "arguments": ""}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": '{"id"'}}]),
            delta(tool_calls=[{"index": 1, "function": {"arguments": "{}"}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": ": 7}"}}]),
        ),
        ["One moment.", 'lookup({"id": 7})', "refund({})"],
    ),
    "chat, a custom tool": (
        [HEAD, json.dumps(chat(tool_calls=[{"type": "custom", "custom": {"name": "run", "input": "ls"}}]))],
        ["run(ls)"],
    ),
    "chat, one function": (
        [HEAD, json.dumps(chat(content=None, function_call={"name": "lookup", "arguments": "{}"}))],
        ["lookup({})"],
    ),
    "chat, one function in a stream": (
        events(
            delta(function_call={"name": "lookup", "arguments": ""}),
            delta(function_call={"arguments": '{"id"'}),
            delta(function_call={"arguments": ": 7}"}),
        ),
        ['lookup({"id": 7})'],
    ),
    "responses": (
        [
            HEAD,
            json.dumps(
                {
                    "object": "response",
                    "output": [
                        {"type": "message", "content": [{"type": "output_text", "text": "Wait."}]},
                        {"type": "function_call", "call_id": "c", "name": "lookup", "arguments": "{}"},
                    ],
                }
            ),
        ],
        ["Wait.", "lookup({})"],
    ),
    "responses, stream": (
        events(
            {"type": "response.output_text.delta", "delta": "Wa"},
            {
                "type": "response.completed",
                "response": {"output": [{"type": "message", "content": [{"text": "Wait."}]}]},
            },
        ),
        ["Wait."],
    ),
    "responses, a stream that ends before its end": (
        events(
            {"type": "response.created", "response": {"output": []}},
            {
                "type": "response.incomplete",
                "response": {"output": [{"type": "function_call", "name": "lookup", "arguments": "{}"}]},
            },
        ),
        ["lookup({})"],
    ),
    "messages": (
        [
            HEAD,
            json.dumps(
                {
                    "type": "message",
                    "content": [
                        {"type": "text", "text": "Let me look."},
                        {"type": "tool_use", "id": "t", "name": "lookup", "input": {"id": 7}},
                    ],
                }
            ),
        ],
        ["Let me look.", 'lookup({"id":7})'],
    ),
    "messages, stream": (
        events(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "Let me look."},
            },
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "name": "lookup", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": '{"id"'},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": ": 7}"},
            },
        ),
        ["Let me look.", 'lookup({"id": 7})'],
    ),
    "gemini": (
        [
            HEAD,
            json.dumps(
                {
                    "candidates": [
                        {
                            "content": {
                                "role": "model",
                                "parts": [
                                    {"text": "Wait."},
                                    {"functionCall": {"name": "lookup", "args": {"id": 7}}},
                                    {"functionCall": {"name": "refund"}},
                                ],
                            }
                        }
                    ]
                }
            ),
        ],
        ["Wait.", 'lookup({"id":7})', "refund()"],
    ),
    "gemini, stream": (
        events(
            {"candidates": [{"content": {"parts": [{"text": "One mom"}]}}]},
            {
                "candidates": [
                    {"content": {"parts": [{"text": "ent."}, {"functionCall": {"name": "lookup"}}]}}
                ]
            },
        ),
        ["One moment.", "lookup()"],
    ),
    "gemini, a stream that is one list": (
        [HEAD, json.dumps([{"candidates": [{"content": {"parts": [{"text": each}]}}]} for each in "ab"])],
        ["ab"],
    ),
    "bedrock": (
        [
            HEAD,
            json.dumps(
                {
                    "output": {
                        "message": {
                            "role": "assistant",
                            "content": [
                                {"text": "Wait."},
                                {"toolUse": {"toolUseId": "t", "name": "lookup", "input": {"id": 7}}},
                            ],
                        }
                    }
                }
            ),
        ],
        ["Wait.", 'lookup({"id":7})'],
    ),
    "an error": (
        [{**HEAD, "status": 429}, json.dumps({"error": {"message": "Slow down", "type": "rate_limit"}})],
        ["429 Slow down"],
    ),
    "an error that is no JSON": ([{**HEAD, "status": 502}, "<html>Bad gateway"], ["502"]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_told_by_its_text_and_the_tools_it_asked_for(name: str) -> None:
    """Plain or as a stream, in each protocol; an error by its status and message."""
    items, lines = ANSWERS[name]
    answer = answer_of(items)
    assert answer is not None
    assert answer.lines == lines


@pytest.mark.parametrize(
    "items", [None, [], ["text"], [{"status": 200}, "x"], [HEAD], [HEAD, "[1]"], [HEAD, '{"data": []}']]
)
def test_what_is_no_answer_of_a_provider_is_left_as_it_is(items: list[Any] | None) -> None:
    """Chunks of a stream of the user's, and bodies of other kinds, are shown as they were recorded."""
    assert answer_of(items) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "tool_calls",
                    "function",
                    "function_call",
                    "custom",
                    "content",
                    "output",
                    "type",
                    "text",
                    "index",
                    "error",
                    "content_block",
                    "response",
                    "name",
                    "arguments",
                    "input",
                    "call_id",
                ]
            ),
            inner
            | st.sampled_from(["content_block_start", "content_block_delta", "tool_use", "function_call"]),
            max_size=4,
        )
    ),
    max_leaves=15,
)


@example({"response": "x", "type": "response.completed"}, False)
@example({"type": "content_block_delta", "index": [1], "delta": {"partial_json": "x"}}, True)
@given(JSON, st.booleans())
def test_no_body_breaks_the_screen(body: object, is_stream: bool) -> None:
    """Whatever stands where a protocol has something else, ``show`` still shows the call (B73)."""
    text = json.dumps(body)
    answer_of([HEAD, f"data: {text}\n\n" if is_stream else text])
