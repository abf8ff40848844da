"""What a test may do with a model that was recorded at its SDK: put a reply in, ask really, go on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import stepfork
from adapters.provider import Server, provider
from adapters.replies import Usage, asks, fails, says
from adapters.wire_cases import KEY, REFUSED
from replays import made, record, stops
from stepfork._calls import Call
from stepfork._recording import read_run
from stepfork.adapters._switch import switched_on

CHAT = "openai.chat.completions"
Agent = Callable[[], Any]


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    """Switch the adapter on while a test records; its replay does so by itself."""
    with switched_on(["openai"]):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the recording is."""
    return tmp_path / "run.jsonl"


def asking(*words: str, url: str = REFUSED, key: str | None = None) -> Agent:
    """Return an agent that asks for each of these; without a key, as in a replay."""

    def agent() -> list[str]:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        replies = []
        for word in words:
            messages: Any = [{"role": "user", "content": word}]
            reply = client.chat.completions.create(model="m", messages=messages)
            replies.append(str(reply.choices[0].message.content))
        return replies

    return agent


def streaming(word: str, *, url: str = REFUSED, most: int = 100) -> Agent:
    """Return an agent that reads so many chunks."""

    def agent() -> list[str]:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test")
        messages: Any = [{"role": "user", "content": word}]
        chunks = client.chat.completions.create(model="m", messages=messages, stream=True)
        seen = [chunk.choices[0].delta.content or "" for _, chunk in zip(range(most), chunks, strict=False)]
        chunks.close()
        return seen

    return agent


def calls(path: Path) -> list[Call]:
    """Return the recorded calls."""
    return read_run(path).root.children


def recorded(path: Path, make: Callable[..., Agent], *words: str, replies: Any, **options: Any) -> Server:
    """Record an agent that asks a provider."""
    with provider(replies) as server:
        record(path, make(*words, url=server.url, **options))
    return server


def test_a_reply_that_a_test_puts_there_is_made_into_what_the_sdk_gives(path: Path) -> None:
    """A dict is the body; so is an object of the SDK, and a text that is JSON."""
    recorded(path, asking, "a", "b", replies=[says("one"), says("two")], key=KEY)
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "mine"}}
    body["choices"] = [choice]
    whole = openai.types.chat.ChatCompletion.model_validate(body)
    for reply in (body, whole, whole.model_dump_json()):
        run = stepfork.replay(path, asking("a", "b"), override={f"{CHAT}#2": reply})
        assert run.value == ["one", "mine"]


def test_chunks_that_a_test_puts_there_are_read_as_a_stream(path: Path) -> None:
    """A list of dicts comes as so many events."""
    recorded(path, streaming, "a", replies=[says("one")])
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    parts = [{**head, "choices": [{"index": 0, "delta": {"content": text}}]} for text in ("mi", "ne")]
    assert stepfork.replay(path, streaming("a"), override={f"{CHAT}.stream#1": parts}).value == ["mi", "ne"]


def test_an_error_that_a_test_puts_there_is_raised_as_it_is(path: Path) -> None:
    """The SDK's own leaves it unchanged; one of the transport becomes what the SDK makes of it."""
    recorded(path, asking, "a", replies=[says("one")], key=KEY)
    library = type(openai.OpenAI(api_key="x")._client).__mro__[-3].__module__.partition(".")[0]
    transport = __import__("httpx2" if library == "httpx2" else "httpx")
    mine = openai.OpenAIError("mine")
    run = stepfork.replay(path, asking("a"), override={f"{CHAT}#1": mine})
    assert run.error is mine
    run = stepfork.replay(path, asking("a"), override={f"{CHAT}#1": transport.ReadTimeout("late")})
    assert isinstance(run.error, openai.APITimeoutError)
    assert run.run.failure is not None
    assert run.run.failure.address == f"test#1/{CHAT}#1"


def test_a_call_beyond_the_recording_stops_the_replay(path: Path) -> None:
    """The SDK turns nothing of it into an error of its own, sync or async."""
    recorded(path, asking, "a", replies=[says("one")], key=KEY)
    run = stepfork.replay(path, asking("a", "b"))
    assert stops(run) == [f"{CHAT}#2"]
    assert isinstance(run.error, stepfork.errors.ReplayStopped)

    async def later() -> None:
        async with openai.AsyncOpenAI(base_url=f"{REFUSED}/v1") as client:
            for word in ("a", "b"):
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": word}])

    assert stops(stepfork.replay(path, later)) == [f"{CHAT}#2"]


def test_a_changed_prompt_gets_the_recorded_reply_as_stale(path: Path) -> None:
    """A model's next reply is served to another prompt, and said to be stale."""
    recorded(path, asking, "a", replies=[says("one")], key=KEY)
    run = stepfork.replay(path, asking("another"))
    assert run.value == ["one"]
    assert [call.stale for call in made(run)] == [True]


def test_a_live_model_is_really_asked(path: Path) -> None:
    """With ``live=`` its requests go out, streams too, and come back as they are."""
    recorded(path, asking, "a", replies=[says("one")], key=KEY)
    with provider([says("fresh")]) as server:
        run = stepfork.replay(path, asking("a", url=server.url, key=KEY), live={CHAT})
    assert run.value == ["fresh"]
    assert [call.outcome.status for call in made(run)] == ["returned"]
    assert "fresh" in str(made(run)[0].outcome.items)


def test_more_of_a_stream_than_was_read_stops_the_replay(path: Path) -> None:
    """What the recorded consumer left is not made up; as many chunks as it took are there."""
    words = "a reply of a few more pieces than are read"
    recorded(path, streaming, "a", replies=[says(words, pause=0.05)], most=3)
    assert calls(path)[0].outcome.status == "closed_early"
    assert stepfork.replay(path, streaming("a", most=3)).value == ["", words[:7], words[7:14]]
    assert stops(stepfork.replay(path, streaming("a"))) == [f"{CHAT}.stream#1"]


def test_an_error_that_is_read_in_a_stream_is_the_calls(path: Path) -> None:
    """A provider that gives up in the middle: the failure is at the model, then as now."""
    with provider([says("some words", fails_after=2)]) as server, pytest.raises(openai.APIError):
        record(path, streaming("a", url=server.url))
    failure = read_run(path).failure
    assert failure is not None
    assert failure.message == "the provider gave up"
    if not openai.__version__.startswith("1."):  # that one does not close the stream it gives up
        assert failure.address == f"test#1/{CHAT}.stream#1"
    assert stepfork.replay(path, streaming("a")).run.failure == failure


def test_a_stream_that_nobody_reads_ends_with_its_last_reference(path: Path) -> None:
    """A response that is dropped is noted as left, before the run ends."""
    with provider([says("one"), says("two")]) as server, stepfork.run("test", path=path):
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY)
        messages: Any = [{"role": "user", "content": "a"}]
        client.chat.completions.create(model="m", messages=messages, stream=True)
        gc.collect()
        client.chat.completions.create(model="m", messages=messages)
    assert [call.outcome.status for call in calls(path)] == ["closed_early", "returned"]
    left, asked = calls(path)
    assert left.span[1] < asked.span[0]


def test_a_retried_request_is_recorded_as_it_ended(path: Path) -> None:
    """Of three attempts the last one is kept; the replay waits for none."""

    def agent(url: str = REFUSED) -> str:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test")
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
        return str(reply.choices[0].message.content)

    with provider([fails(429), fails(503), says("one")]) as server:
        record(path, lambda: agent(server.url))
    (call,) = calls(path)
    assert [item["status"] for item in call.outcome.items or () if isinstance(item, dict)] == [200]
    assert stepfork.replay(path, agent).value == "one"


def test_no_key_is_recorded_and_none_is_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither header nor host is there; a client for Azure is built without its settings too."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = recorded(path, asking, "a", replies=[says("one")], key=KEY)
    text = path.read_text()
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in text
    assert "127.0.0.1" not in text
    with pytest.raises(openai.OpenAIError):
        openai.OpenAI()

    def agent() -> str:
        client = openai.AzureOpenAI()
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
        return str(reply.choices[0].message.content)

    assert stepfork.replay(path, agent).value == "one"


def test_a_token_is_not_asked_for_in_a_replay(path: Path) -> None:
    """What gives a client its token, or signs its requests, is not run where nothing is sent."""
    ran: list[str] = []

    def token() -> str:
        ran.append("token")
        return "a-token"

    def agent(url: str = REFUSED) -> str:
        client = openai.AzureOpenAI(azure_endpoint=url, api_version="1", azure_ad_token_provider=token)
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
        return str(reply.choices[0].message.content)

    with provider([says("one")]) as server:
        record(path, lambda: agent(server.url))
    assert ran
    ran.clear()
    assert stepfork.replay(path, agent).value == "one"
    assert ran == []


def test_a_file_is_part_of_what_identifies_an_upload(path: Path) -> None:
    """An upload is no model: another file is another call."""

    def agent(content: bytes, url: str = REFUSED) -> str:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test")
        return str(client.files.create(file=("a.txt", content), purpose="batch").id)

    stored = {"id": "file-1", "object": "file", "bytes": 1, "created_at": 1, "filename": "a.txt"}
    reply = says("", body={**stored, "purpose": "batch", "status": "processed"})
    with provider([reply]) as server:
        record(path, lambda: agent(b"mine", server.url))
    (call,) = calls(path)
    assert (call.kind, call.name) == ("tool", "openai.files")
    assert stepfork.replay(path, lambda: agent(b"mine")).value == "file-1"
    assert stops(stepfork.replay(path, lambda: agent(b"other"))) == ["openai.files#2"]


def test_a_decorated_function_is_the_one_record_of_its_request(path: Path) -> None:
    """What its author marked as a model is recorded as that, and the request in it is not once more."""

    @stepfork.model
    def think(url: str) -> list[str]:
        return asking("a", url=url, key=KEY)()  # type: ignore[no-any-return]

    with provider([says("one")]) as server:
        record(path, lambda: think(server.url))
        assert len(server.asked) == 1
    assert [call.name for call in calls(path)] == [think.__qualname__.rpartition("<locals>.")[2]]
    assert calls(path)[0].children == []


def test_a_fault_of_ours_is_not_the_agents(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the answer cannot be noted the agent has it all the same, and the run is incomplete."""

    def broken(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("stepfork.adapters._wire.Attempt.came", broken)
    with provider([says("one")]) as server, pytest.warns(RuntimeWarning, match="ours"):
        assert record(path, asking("a", url=server.url, key=KEY)) == ["one"]
    assert read_run(path).incomplete


def test_an_agent_without_an_event_loop_of_its_own_is_cancelled_again(path: Path) -> None:
    """A request that was cancelled in the middle is cancelled in the replay too."""

    async def agent(url: str = REFUSED) -> str:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-test") as client:
            asked = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
            try:
                await asyncio.wait_for(asked, 0.2)
            except TimeoutError:
                return "given up"
        return "had it"

    with provider([says("late", delay=5)]) as server:
        assert record(path, lambda: agent(server.url)) == "given up"
    assert calls(path)[0].outcome.status == "suspended"
    assert stepfork.replay(path, agent).value == "given up"


def test_tokens_are_counted(path: Path) -> None:
    """What the reply says it took stands with the call."""
    recorded(path, asking, "a", replies=[asks(("look", {}), text="one", usage=Usage(12, 3, 5))], key=KEY)
    assert str(calls(path)[0].outcome.usage) == "Usage(input=12, output=3, cached=5)"
