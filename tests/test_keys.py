"""What a run had in its environment, its replay finds set; only the names are recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepfork
from replays import record, rerun
from stepfork._environment import PLACEHOLDER, names_to_note
from stepfork._recording import read_run
from stepfork._verdict.lacking import lacking_variable
from stepfork.adapters._keys import stand_ins

KEY, ADDRESS = "SHOP_LLM_API_KEY", "OPENAI_BASE_URL"
SECRET = "kS83-hd72-Qm41-zz09"


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    before = set(os.environ)
    yield
    assert set(os.environ) == before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the recording is."""
    return tmp_path / "run.jsonl"


@stepfork.tool
def look(key: str) -> str:
    """Return what is looked for."""
    return f"found {key}"


def agent() -> str:
    """Need a key, and say whether it has another one."""
    assert os.environ[KEY]
    return f"{look('A-17')}, {'with' if os.getenv('SHOP_MAIL_TOKEN') else 'without'} mail"


def recorded(path: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Record the agent where these are set."""
    with monkeypatch.context() as patch:
        for name, text in variables.items():
            patch.setenv(name, text)
        record(path, agent)


def test_a_replay_finds_the_key_set_that_the_run_had(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds nothing, and is gone after the replay; one that is set stays as it is."""
    recorded(path, monkeypatch, SHOP_LLM_API_KEY=SECRET)
    assert stepfork.replay(path, agent).value == "found A-17, without mail"
    assert KEY not in os.environ
    assert stepfork.replay(path, lambda: look(os.environ[KEY])).run.root.children[0].input["key"] != SECRET
    monkeypatch.setenv(KEY, "mine")
    assert stepfork.replay(path, lambda: os.environ[KEY]).value == "mine"
    assert os.environ.pop(KEY) == "mine"


def test_what_the_run_did_not_have_its_replay_has_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may do another thing where a key is there."""
    recorded(path, monkeypatch, SHOP_LLM_API_KEY=SECRET)
    assert "without mail" in stepfork.replay(path, agent).value
    recorded(path.with_name("with.jsonl"), monkeypatch, SHOP_LLM_API_KEY=SECRET, SHOP_MAIL_TOKEN="t")
    assert "with mail" in stepfork.replay(path.with_name("with.jsonl"), agent).value


def test_names_are_recorded_and_never_what_they_hold(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short; of variables that are neither secret nor an address not even the name (B43)."""
    recorded(path, monkeypatch, SHOP_LLM_API_KEY="zq9x", SHOP_REGION="zq9x", OPENAI_BASE_URL="http://zq9x")
    data = path.read_bytes()
    assert {KEY, ADDRESS} <= {*read_run(path).variables}
    assert b"SHOP_REGION" not in data
    assert b"zq9x" not in data


def test_where_a_model_is_asked_is_nowhere_in_a_replay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may look at it, and an agent may insist on it."""
    monkeypatch.delenv(ADDRESS, raising=False)
    recorded(path, monkeypatch, SHOP_LLM_API_KEY=SECRET, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert stepfork.replay(path, lambda: os.environ[ADDRESS]).value == "http://replay.invalid"


def test_what_an_agent_sets_itself_is_noted_at_the_end(path: Path) -> None:
    """As from a file of its own; the recording of a test takes it over."""

    def loads() -> str:
        os.environ[KEY] = SECRET
        return look("A-17")

    record(path, loads)
    assert read_run(path).variables_set == (KEY,)
    assert SECRET.encode() not in path.read_bytes()
    del os.environ[KEY]


def test_a_live_call_gets_no_placeholder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is asked: a key that is not there is missing, and a file with the real one may be read."""
    recorded(path, monkeypatch, SHOP_LLM_API_KEY=SECRET)
    run = stepfork.replay(path, agent, live={"look"})
    assert isinstance(run.error, KeyError)
    assert lacking_variable(run.error) == KEY


def test_a_block_that_replays_has_it_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``stepfork.replaying`` puts the environment back when it is left."""
    recorded(path, monkeypatch, SHOP_LLM_API_KEY=SECRET)
    with stepfork.replaying(path):
        assert agent() == "found A-17, without mail"
    assert KEY not in os.environ


def test_a_process_that_a_replayed_agent_starts_has_it_as_well(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It inherits the environment."""
    script = f"import os; print(os.environ[{KEY!r}][:0], end='fine')"

    def starts() -> str:
        out = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        return look(out)

    with monkeypatch.context() as patch:
        patch.setenv(KEY, SECRET)
        record(path, starts)
    assert stepfork.replay(path, starts).value == "found fine"


def test_it_stays_until_the_last_of_two_replays_ends() -> None:
    """In threads, and whichever ends first."""
    for last in (0, 1):
        doors = [threading.Event(), threading.Event()]
        inside = threading.Barrier(3)

        def block(door: threading.Event, inside: threading.Barrier = inside) -> None:
            with stand_ins([KEY], []):
                inside.wait(10)
                door.wait(10)

        threads = [threading.Thread(target=block, args=(door,)) for door in doors]
        for thread in threads:
            thread.start()
        inside.wait(10)
        doors[1 - last].set()
        threads[1 - last].join()
        assert os.environ[KEY] == PLACEHOLDER
        doors[last].set()
        threads[last].join()
        assert KEY not in os.environ


def test_what_the_agent_sets_meanwhile_is_its_own() -> None:
    """Only what a replay put there does it take away."""
    with stand_ins([KEY], []):
        os.environ[KEY] = "mine"
    assert os.environ.pop(KEY) == "mine"
    with stand_ins([KEY], []):
        del os.environ[KEY]
    assert KEY not in os.environ


def test_what_a_replay_shows_is_the_same_with_a_key_and_without(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that was accepted where no key is set holds where one is."""
    with monkeypatch.context() as patch:
        patch.setenv(KEY, SECRET)
        record(path, lambda: look(f"with {os.environ[KEY]}"))
    seen = []
    for key in ("", "another-plain-key-31"):
        with monkeypatch.context() as patch:
            patch.setenv(KEY, key)
            replayed = stepfork.replay(path, lambda: look(f"with {os.environ[KEY]}"))
        (call,) = (call for call in replayed.run.walk() if call.kind == "tool")
        seen.append(str(call.input["key"]).rstrip("*"))
    assert seen == ["with [redacted-1]"] * 2


def test_a_variable_that_holds_nothing_is_lent_as_well() -> None:
    """A CI sets the secrets that it keeps from somebody's fork to an empty text."""
    os.environ[KEY] = ""
    assert lacking_variable(ValueError(f"set the environment variable {KEY}")) == KEY
    with stand_ins([KEY], []):
        with stand_ins([KEY], []):
            assert os.environ[KEY] == PLACEHOLDER
        assert os.environ[KEY] == PLACEHOLDER
    assert os.environ.pop(KEY) == ""
    with stand_ins([KEY], []):
        assert os.environ[KEY] == PLACEHOLDER


def test_prices_are_not_fetched_for_a_replay() -> None:
    """The library litellm asks the network for them when imported, unless a variable says otherwise."""
    with stand_ins([], ["litellm", "openai"]):
        assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert "LITELLM_LOCAL_MODEL_COST_MAP" not in os.environ


def test_an_error_says_which_variable_is_missing(path: Path) -> None:
    """Read outright, or named by whoever found it missing, also where that error was the cause of another."""

    def fails() -> None:
        try:
            os.environ["SHOP_REGION"]
        except KeyError as error:
            raise RuntimeError("not configured") from error

    assert lacking_variable(rerun(path, fails, lambda: look("A-17")).error) == "SHOP_REGION"
    assert lacking_variable(ValueError(f"set the environment variable {KEY}")) == KEY
    assert lacking_variable(ValueError("set MAX_RETRIES")) == ""
    assert lacking_variable(KeyError("SHOP_REGION")) == ""
    assert lacking_variable(None) == ""


def test_variables_are_told_by_their_names() -> None:
    """Secrets, and addresses of models; nothing that is empty."""
    noted = names_to_note(
        dict.fromkeys(
            [
                "OPENAI_API_KEY",
                "AZURE_OPENAI_ENDPOINT",
                "OLLAMA_API_BASE",
                "SHOP_BASE_URL",
                "HOME",
                "MAX_TOKENS",
            ],
            "set",
        )
        | {"ANTHROPIC_API_KEY": ""}
    )
    assert noted == ("AZURE_OPENAI_ENDPOINT", "OLLAMA_API_BASE", "OPENAI_API_KEY")
