"""How many tokens a model took: found in what it answered, kept with the call, added up for the run."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from properties import thoroughly
from recorded import record
from replays import record as record_agent
from sample_runs import header
from stepfork import _usage
from stepfork._calls import Call, Outcome, Plain, Run, Usage
from stepfork._codec import encode
from stepfork._context import current_frame
from stepfork._events import CallEnded, CallStarted, Event, ItemYielded, encode_line
from stepfork._making.transcribe import transcribe
from stepfork._paths import extension_paths
from stepfork._recording import read_extension, read_run
from stepfork._redact import Redactor
from stepfork._replay.conduct import Conductor
from stepfork._replay.load import load_recording
from stepfork._usage import Tally

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "4 input_tokens"}}],
    "usage": {
        "prompt_tokens": 120,
        "completion_tokens": 7,
        "total_tokens": 127,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
    },
}
CLAUDE = {"input_tokens": 20, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 3}
CLAUDE_STREAM: list[Any] = [
    {"type": "message_start", "message": {"content": [], "usage": {**CLAUDE, "output_tokens": 1}}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "approve"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
CHAT_STREAM: list[Any] = [
    {"choices": [{"delta": {"content": "appr"}}], "usage": None},
    {"choices": [{"delta": {"content": "ove"}}], "usage": None},
    {"choices": [], "usage": CHAT["usage"]},
]

NUMBERS = st.integers(0, 10**9)
USAGES = st.builds(Usage, NUMBERS, NUMBERS, NUMBERS)
KEYS = st.sampled_from(
    [
        *("usage", "usage_metadata", "usageMetadata", "token_usage", "prompt_tokens", "completion_tokens"),
        *("input_tokens", "output_tokens", "cache_read_input_tokens", "prompt_tokens_details"),
        *("cached_tokens", "promptTokenCount", "eval_count", "prompt_eval_count", "$object", "$shared"),
        *("$tuple", "$dict", "state", "extra", "base", "value", "choices"),
    ]
) | st.text(max_size=3)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**63) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def sse(events: list[Any], end: str = "\n") -> str:
    """Write server-sent events as the providers do."""
    return "".join(f"event: some{end}data: {json.dumps(event)}{end}{end}" for event in events)


def told_by(*chunks: Plain) -> Usage | None:
    """Return what a call took whose chunks these were."""
    tally = Tally()
    for chunk in chunks:
        tally.look(chunk)
    return tally.usage


class Message(NamedTuple):
    content: str
    usage: dict[str, int]


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        pytest.param(CHAT, Usage(120, 7, 64), id="openai-chat"),
        pytest.param({"usage": {"prompt_tokens": 8, "total_tokens": 8}}, Usage(8, 0), id="openai-embeddings"),
        pytest.param(
            {"output": [], "usage": {"input_tokens": 50, "output_tokens": 6, "input_tokens_details": {}}},
            Usage(50, 6),
            id="openai-responses",
        ),
        pytest.param(
            {
                "usage": {
                    "input_tokens": 50,
                    "input_tokens_details": {"cached_tokens": 30},
                    "output_tokens": 6,
                }
            },
            Usage(50, 6, 30),
            id="openai-responses-cached",
        ),
        pytest.param({"usage": {**CLAUDE, "output_tokens": 9}}, Usage(123, 9, 100), id="anthropic"),
        pytest.param(
            {"usage": {"prompt_tokens": 123, "completion_tokens": 9, "cache_read_input_tokens": 100}},
            Usage(123, 9, 100),
            id="litellm-anthropic",
        ),
        pytest.param(
            {
                "usageMetadata": {
                    "promptTokenCount": 40,
                    "candidatesTokenCount": 5,
                    "thoughtsTokenCount": 12,
                    "cachedContentTokenCount": 16,
                    "totalTokenCount": 57,
                }
            },
            Usage(40, 17, 16),
            id="gemini",
        ),
        pytest.param(
            {"usage_metadata": {"prompt_token_count": 40, "candidates_token_count": 5}},
            Usage(40, 5),
            id="gemini-sdk",
        ),
        pytest.param(
            {
                "content": "hi",
                "usage_metadata": {
                    "input_tokens": 123,
                    "output_tokens": 9,
                    "input_token_details": {"cache_read": 100},
                },
                "response_metadata": {"token_usage": {"prompt_tokens": 1, "completion_tokens": 1}},
            },
            Usage(123, 9, 100),
            id="langchain",
        ),
        pytest.param(
            {"response_metadata": {"token_usage": {"prompt_tokens": 11, "completion_tokens": 2}}},
            Usage(11, 2),
            id="langchain-older",
        ),
        pytest.param({"done": True, "prompt_eval_count": 26, "eval_count": 298}, Usage(26, 298), id="ollama"),
        pytest.param(
            {"usage": {"inputTokens": 10, "outputTokens": 2, "cacheReadInputTokens": 5}},
            Usage(15, 2, 5),
            id="bedrock",
        ),
        pytest.param(
            {"x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}}, Usage(9, 1), id="groq"
        ),
    ],
)
def test_each_provider_is_read_in_its_own_words(told: Plain, usage: Usage) -> None:
    """As a dict, in an object, as JSON text, and inside of what a function makes of it."""
    ways = [
        told,
        {"$object": "openai.types:Reply", "state": told},
        {"$object": "shop:Reply", "state": {}, "extra": told},
        {"$object": "litellm:Reply", "of": "dict", "base": told},
        {"$object": "httpx:Response", "of": "value", "value": {"status": 200, "content": json.dumps(told)}},
        {"$shared": [{"a": 1}], "value": {"reply": told, "again": {"$ref": 0}}},
        json.dumps(told),
        json.dumps(told, indent=2),
        {"$tuple": ["approve", told]},
        {"text": "approve", "reply": {"$object": "openai.types:Reply", "state": told}},
        [told],
    ]
    assert [told_by(way) for way in ways] == [usage] * len(ways)
    assert told_by(json.dumps(told)) == usage


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "approve",
        "the usage was 5 input_tokens",
        '{"usage": {"input_tokens": ',
        {"usage": "high"},
        {"usage": None},
        {"usage": {"prompt_tokens": True, "completion_tokens": "7"}},
        {"usage": {"prompt_tokens": -1, "completion_tokens": 1.5}},
        {"usage": {"prompt_tokens": 2**63}},
        {"usage": [1, 2]},
        {"eval_count": 3},
        {"text": "eval_count"},
        {"$opaque": "openai:Reply", "repr": "usage prompt_tokens=5"},
        {"$dict": [[1, CHAT]]},
    ],
)
def test_what_is_no_number_of_tokens_is_not_taken_for_one(answer: Plain) -> None:
    """Text about tokens, broken JSON and numbers that make no sense tell nothing."""
    assert told_by(answer) is None


def test_of_the_choices_of_one_reply_the_tokens_are_counted_once() -> None:
    """LangChain tells the total of all generations with each of them."""
    told = {"prompt_tokens": 10, "completion_tokens": 4}
    message = {"usage_metadata": {"input_tokens": 10, "output_tokens": 4}}
    result = {
        "generations": [[{"message": message}, {"message": message}]],
        "llm_output": {"token_usage": told},
    }
    assert told_by({"$object": "langchain_core.outputs:LLMResult", "state": result}) == Usage(10, 4)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_stream_tells_it_in_pieces(end: str) -> None:
    """Anthropic tells the input first and the output last, OpenAI both in the last chunk."""
    assert told_by(sse(CLAUDE_STREAM, end)) == Usage(123, 9, 100)
    assert told_by(sse(CHAT_STREAM, end), "data: [DONE]") == Usage(120, 7, 64)
    assert told_by(CLAUDE_STREAM) == Usage(123, 9, 100)
    assert told_by(sse(CHAT_STREAM[:2], end)) is None


def test_lines_and_lists_of_json_are_streams_too() -> None:
    """Ollama writes a line each, Gemini a list of parts, each with what it is by then."""
    lines = [{"response": "a"}, {"done": True, "prompt_eval_count": 26, "eval_count": 298}]
    assert told_by(*"\n".join(map(json.dumps, lines))) == Usage(26, 298)
    parts = [{"usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": count}} for count in (1, 5)]
    assert told_by(json.dumps(parts, indent=1)) == Usage(8, 5)


def test_chunks_that_tell_what_came_with_them_are_added_up() -> None:
    """Those of LangChain are made to be added to each other."""
    chunks = [
        {"content": "a", "usage_metadata": {"input_tokens": 25, "output_tokens": 1}},
        {"content": "b", "usage_metadata": None},
        {"content": "", "usage_metadata": {"input_tokens": 0, "output_tokens": 14}},
    ]
    assert told_by(chunks) == Usage(25, 15)


BODIES = [
    *(sse(events, end) for events in (CHAT_STREAM, CLAUDE_STREAM) for end in ("\n", "\r\n", "\r")),
    json.dumps(CHAT),
    json.dumps({**CHAT, "told": json.dumps(CLAUDE_STREAM)}, indent=2),
    json.dumps(
        [{"usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": n}} for n in (1, 5)], indent=1
    ),
    "\n".join(map(json.dumps, [{"response": "a"}, {"prompt_eval_count": 26, "eval_count": 298}])),
    "".join(map(json.dumps, CLAUDE_STREAM)),
    json.dumps({"content": "a", "usage_metadata": {"input_tokens": 25, "output_tokens": 1}}),
]


@thoroughly(300)
@given(st.sampled_from(BODIES), st.lists(st.integers(0, 2000)))
def test_where_a_body_was_split_does_not_matter(body: str, cuts: list[int]) -> None:
    """A network delivers bytes, not events: a number may come in two chunks, and a chunk may be empty."""
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    pieces = [body[start:end] for start, end in pairwise(places)]
    assert "".join(pieces) == body
    assert told_by({"status": 200}, *pieces) == told_by(*body) == told_by(body) != None  # noqa: E711


def test_chunks_may_be_lines_without_their_ends_or_whole_documents() -> None:
    """As HTTP clients hand lines on, and as code of one's own makes chunks."""
    for events in (CHAT_STREAM, CLAUDE_STREAM):
        usage = told_by(*events)
        assert told_by(*sse(events).splitlines()) == usage
        assert told_by(*map(json.dumps, events)) == usage
        assert told_by("data: {broken", *sse(events).splitlines()) == usage


def test_a_text_that_has_no_end_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was held is looked into, and let go."""
    monkeypatch.setattr(_usage, "_MOST_TEXT", 1000)
    tally = Tally()
    for _ in range(100):
        tally.look(sse(CHAT_STREAM))
        assert tally._size <= 1000
    assert tally.usage == Usage(120, 7, 64)


@thoroughly(500)
@given(JSON)
def test_looking_for_it_never_fails(answer: Any) -> None:
    """Whatever is in an answer, also what is named like a provider's numbers or like a tag of ours."""
    found = [told_by(answer), told_by(json.dumps(answer)), told_by(encode(answer).plain)]
    assert all(usage is None or 0 <= usage.cached <= 2**53 for usage in found)
    assert told_by({**CHAT, "extra": answer}) == Usage(120, 7, 64)


@thoroughly(100)
@given(st.lists(USAGES, min_size=1))
def test_addition_adds_each_figure(usages: list[Usage]) -> None:
    """In whatever order."""
    first, *others = usages
    there, back = first, usages[-1]
    for usage in others:
        there += usage
    for usage in usages[-2::-1]:
        back += usage
    assert there == back
    assert there == Usage(
        *(sum(getattr(usage, name) for usage in usages) for name in Usage.__struct_fields__)
    )


def test_the_real_traffic_of_providers_is_read_as_they_add_it_up(corpus: Path, record_property: Any) -> None:
    """Input and output are the total that the provider itself gives; cut at any place."""
    found = added_up = 0
    for body in bodies(corpus):
        usage = told_by(*(body[start : start + 11] for start in range(0, len(body), 11)))
        totals = re.findall(r'"(?:total_tokens|totalTokenCount|totalTokens)"\s*:\s*(\d+)', body)
        if totals:
            assert usage is not None
            assert usage.input + usage.output == int(totals[-1])
            added_up += 1
        assert (usage is not None) == bool(re.search(r'"usage(Metadata)?"\s*:\s*\{', body))
        found += usage is not None
    record_property("figures", f"{found} responses tell their tokens, {added_up} of them with the total")
    assert (found, added_up) == (93, 87)


def bodies(corpus: Path) -> Iterator[str]:
    """The bodies of all recorded responses that are text."""
    for path in sorted(corpus.glob("cassettes-*/*.yaml")):
        cassette = yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for interaction in cassette["interactions"]:
            response = interaction["response"]
            body = response.get("body", response.get("parsed_body"))
            body = body["string"] if isinstance(body, dict) and "string" in body else body
            if isinstance(body, bytes):
                body = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
                if body.startswith(b"%PDF"):
                    continue
                body = body.decode()
            yield body if isinstance(body, str) else json.dumps(body)


# -- in a run


@stepfork.model
def ask(prompt: str) -> dict[str, Any]:
    return {**CHAT, "prompt": prompt}


@stepfork.model
def ask_for_text(prompt: str) -> str:
    return "approve"


@stepfork.model
def ask_in_pieces(prompt: str) -> Iterator[Any]:
    yield from CLAUDE_STREAM


@stepfork.tool
def look_up(order: str) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 5, "completion_tokens": 5}}


@stepfork.tool
def research(order: str) -> str:
    return str(ask(order)["id"])


class Stream:
    """As the SDKs hand them out: chunks of text, and the whole message when asked for."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    def __iter__(self) -> Iterator[str]:
        yield from ("appr", "ove")

    def get_final_message(self) -> Message:
        return Message("approve", {"input_tokens": 30, "output_tokens": 2})


@stepfork.model
def ask_for_an_object(prompt: str) -> Stream:
    return Stream()


def usages(run: Run) -> dict[str, Usage | None]:
    """What the calls below the root tell."""
    return {call.address.partition("/")[2]: call.outcome.usage for call in run.walk()}


def test_what_a_model_tells_is_kept_with_its_call_and_added_up_for_the_run(tmp_path: Path) -> None:
    """A model inside of a tool counts; what a tool returns is no model's answer."""

    def agent() -> None:
        ask("a")
        ask_for_text("b")
        list(ask_in_pieces("c"))
        look_up("d")
        research("e")

    run = record(tmp_path / "run.jsonl", agent).run
    assert usages(run) == {
        "": None,
        "ask#1": Usage(120, 7, 64),
        "ask_for_text#1": None,
        "ask_in_pieces#1": Usage(123, 9, 100),
        "look_up#1": None,
        "research#1": None,
        "research#1/ask#1": Usage(120, 7, 64),
    }
    assert run.usage == Usage(363, 23, 228)


def test_a_run_whose_models_tell_nothing_has_no_usage(tmp_path: Path) -> None:
    """Nothing is not zero, and the line is as it was."""
    path = tmp_path / "run.jsonl"
    run = record(path, lambda: ask_for_text("a")).run
    assert run.usage is None
    assert b"usage" not in path.read_bytes()


def test_a_stream_that_was_left_has_what_was_told_until_then(tmp_path: Path) -> None:
    """The provider has counted the input already."""

    def agent() -> None:
        stream = ask_in_pieces("a")
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        forgotten.append(ask_in_pieces("b"))
        next(forgotten[0])

    forgotten: list[Iterator[Any]] = []
    run = record(tmp_path / "run.jsonl", agent).run
    assert [call.outcome.status for call in run.root.children] == ["closed_early"] * 2
    assert run.usage == Usage(246, 2, 200)


def test_what_a_stream_object_tells_when_asked_is_that_of_its_call(tmp_path: Path) -> None:
    """The chunks are text, and the final message knows; it is one answer."""

    def agent() -> None:
        with ask_for_an_object("a") as stream:
            list(stream.__enter__())
        with ask_for_an_object("a") as stream:
            stream.get_final_message()
            stream.get_final_message()

    run = record(tmp_path / "run.jsonl", agent).run
    assert {name: told for name, told in usages(run).items() if told} == {"ask_for_an_object#2": Usage(30, 2)}


def test_what_an_adapter_says_comes_before_what_is_found(tmp_path: Path) -> None:
    """It has seen each request, also those whose answer the function does not hand on (retries)."""

    @stepfork.model
    def model(prompt: str) -> Any:
        frame = current_frame()
        assert frame is not None
        frame.used(Usage(10, 1))
        frame.used(Usage(20, 2, 5))
        frame.used("a lot")  # type: ignore[arg-type]
        frame.used(Usage(-1, 2))
        if prompt == "bad":
            raise ValueError(prompt)
        return CHAT

    @stepfork.tool
    def tool() -> None:
        frame = current_frame()
        assert frame is not None
        frame.used(Usage(1, 1))

    def agent() -> None:
        model("good")
        with pytest.raises(ValueError, match="bad"):
            model("bad")
        tool()

    run = record(tmp_path / "run.jsonl", agent).run
    assert [call.outcome.usage for call in run.root.children] == [
        Usage(30, 3, 5),
        Usage(30, 3, 5),
        Usage(1, 1),
    ]


def tree(usage: Usage | None, *children: Call) -> Call:
    """Return a call that tells this; addresses are made of their positions."""
    call = Call("model", "m", "m#1", {}, Outcome("returned", usage=usage), children=list(children))
    for number, child in enumerate(children):
        for each in child.walk():
            each.address = f"m#1/{number}.{each.address}"
    return call


@pytest.mark.parametrize(
    ("own", "below", "total"),
    [
        pytest.param(Usage(5, 5), [], Usage(5, 5), id="leaf"),
        pytest.param(None, [Usage(5, 5), None, Usage(1, 2)], Usage(6, 7), id="only-below"),
        pytest.param(Usage(1, 2), [Usage(5, 5), Usage(1, 2)], Usage(6, 7), id="hands-the-last-on"),
        pytest.param(Usage(6, 7), [Usage(5, 5), Usage(1, 2)], Usage(6, 7), id="tells-the-sum"),
        pytest.param(Usage(9, 9), [Usage(5, 5)], Usage(14, 14), id="asks-by-itself-too"),
        pytest.param(None, [None], None, id="nobody"),
    ],
)
def test_what_a_call_hands_on_is_not_counted_twice(
    own: Usage | None, below: list[Usage | None], total: Usage | None
) -> None:
    """A model that stands around another returns its answer, with the same figures in it."""
    root = tree(None, tree(own, *map(tree, below)))
    assert Run("1", "m", root).usage == total


def test_a_killed_run_has_what_its_calls_told_before(tmp_path: Path) -> None:
    """The total stands nowhere in the file: it is that of the calls."""
    path = tmp_path / "run.jsonl"
    events: list[Event] = [
        header("1111111111"),
        CallStarted("handle#1", "step", {}),
        CallStarted("handle#1/ask#1", "model", {}),
        CallEnded("handle#1/ask#1", "returned", "yes", usage=Usage(120, 7)),
        CallStarted("handle#1/ask#2", "model", {}),
        ItemYielded("handle#1/ask#2", CLAUDE_STREAM[0]),
    ]
    path.write_bytes(b"".join(map(encode_line, events)) + b'{"event":"end","call":"hand')
    run = read_run(path)
    assert run.root.outcome.status == "killed"
    assert run.usage == Usage(120, 7)


def test_a_recording_made_of_a_run_has_the_same_figures(tmp_path: Path) -> None:
    """Also where values stand in blobs, and a later call is told by an earlier one."""
    journal, recording = tmp_path / "run.jsonl", tmp_path / "recording.jsonl"

    def agent() -> None:
        ask("x" * 3000)
        ask("x" * 3000 + "y")
        list(ask_in_pieces("c"))

    run = record(journal, agent).run
    recording.write_bytes(
        transcribe(journal, Redactor(environ={}), main_module="shop", blob_bytes=10**6).lines
    )
    assert usages(read_run(recording)) == usages(run)
    assert read_run(recording).usage == run.usage == Usage(363, 23, 228)


def test_a_call_that_runs_live_tells_it_in_the_extension_and_a_replay_tells_nothing_new(
    tmp_path: Path,
) -> None:
    """Live calls cost money, answers from a file do not; neither stands in the snapshot's document."""
    path = tmp_path / "run.jsonl"
    record_agent(path, lambda: ask("old"))

    def agent() -> Any:
        return ask("old"), ask("new")["id"], list(ask_in_pieces("c"))

    Conductor(
        load_recording(path),
        agent,
        override={},
        live=frozenset(),
        tolerance={},
        timeout=None,
        extend=(),
        provided={},
    ).play()
    (extension,) = extension_paths(path)
    calls = read_extension(extension, read_run(path))
    assert [(call.label, call.outcome.usage) for call in calls] == [
        ("ask#2", Usage(120, 7, 64)),
        ("ask_in_pieces#1", Usage(123, 9, 100)),
    ]
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert stepfork.replay(path, agent).frontiers == []
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
