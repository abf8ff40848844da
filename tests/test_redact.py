from __future__ import annotations

import json
import os
import threading
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import thoroughly
from secret_samples import (
    DB_PASSWORD,
    ENVIRON,
    HARMLESS_NAMES,
    LONG,
    PEM,
    SECRET_NAMES,
    SHAPES,
    TEXTS,
    b64,
    redacted,
)
from stepfork._mutation import diff
from stepfork._plain import canonical
from stepfork._redact import Redactor, matches
from stepfork._redact.rules import rules_of


@pytest.fixture
def redactor() -> Redactor:
    """Return a redactor that knows the secrets of ENVIRON."""
    return Redactor(environ=ENVIRON)


@pytest.mark.parametrize("value", [None, True, False, "", [], {}])
def test_nothing_under_a_secret_name_stays_nothing(redactor: Redactor, value: Any) -> None:
    """None, a bool and what is empty tell no secret, and an agent may ask for them."""
    plain = {"api_key": value}
    assert redactor.redact(plain) is plain
    assert not redactor.scan(msgspec.json.encode(plain))


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (12345678, []),
        (3.25, []),
        ({"user": "bob", "pin": 1234}, ["user", "pin"]),
        (["one-part", "other"], []),
        ({"$tuple": ["bob", "pw"]}, ["$tuple"]),
        ({"$decimal": "123.45"}, []),
        ({"$bytes": b64(b"hunter2")}, ["$bytes"]),
        ({"$object": "shop:Auth", "state": {"n": "bob"}}, ["$object", "shop:Auth"]),
    ],
)
def test_all_that_a_secret_name_holds_goes(redactor: Redactor, value: Any, kept: list[str]) -> None:
    """Numbers, containers and typed values under a secret name are hidden; only their structure stays."""
    shown = canonical(redacted(redactor, {"credentials": value})).decode()
    assert all(text in shown for text in kept)
    for secret in ("12345678", "3.25", "bob", "pw", "123.45", "one-part", b64(b"hunter2")):
        assert secret not in shown


def test_headers_as_pairs_are_headers(redactor: Redactor) -> None:
    """Lists of pairs, of text or bytes, hide a secret header as a dict does."""
    as_bytes = {"$tuple": [{"$bytes": b64(b"authorization")}, {"$bytes": b64(b"Bearer hunter2")}]}
    plain = [
        ["Authorization", "Bearer hunter2"],
        {"$tuple": ["x-api-key", "hunter2"]},
        as_bytes,
        ["accept", "a/b"],
    ]
    result = redacted(redactor, plain, "hunter2", b64(b"Bearer hunter2"))
    assert result[3] == ["accept", "a/b"]
    assert result[0][1] == "Bearer [redacted-1]"


def test_a_list_of_field_names_is_no_header(redactor: Redactor) -> None:
    """Two names side by side are not taken for a name and its secret."""
    plain = {"required": ["token", "user"], "fields": ["password", "email"]}
    assert redactor.redact(plain) is plain


def test_the_description_of_a_parameter_is_no_secret(redactor: Redactor) -> None:
    """A tool's JSON schema keeps its parameters that are called token or api_key, but not their defaults."""
    token = {"type": "string", "description": "the token"}
    key = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "hunter2"}
    result = redacted(redactor, {"properties": {"token": token, "api_key": key}}, "hunter2")
    assert result["properties"]["token"] == token
    assert result["properties"]["api_key"]["anyOf"] == key["anyOf"]


def test_the_words_of_a_model_are_no_secrets(redactor: Redactor) -> None:
    """In log probabilities "token" is a piece of text."""
    plain = [{"token": "Hello", "logprob": -0.25, "bytes": [72]}, {"token": "!", "logprob": -1.5}]
    assert redactor.redact(plain) is plain


def test_json_in_a_text_is_still_json_when_its_number_was_hidden(redactor: Redactor) -> None:
    """A tool's JSON text with a hidden number can be parsed in a replay."""
    result = redacted(redactor, '{"password": 12345678, "n": 1}', "12345678")
    assert json.loads(result) == {"password": "[redacted-1]", "n": 1}


def test_a_variable_that_looks_like_a_placeholder_does_not_break_placeholders() -> None:
    """A silly value of a secret variable never eats its own placeholder."""
    for value in ("[redacted-1]", "redacted", "[redacted", "********", "acted-1]", "sk-svcacct-", "disabled"):
        redactor = Redactor(environ={"MY_SECRET": value})
        result = redacted(redactor, {"password": "hunter2", "note": f"ghp_{LONG}"})
        assert result["password"] == "[redacted-1]"


def test_a_surrogate_in_the_environment_does_no_harm() -> None:
    """A variable that is no valid text is searched for all the same."""
    redactor = Redactor(environ={"MY_SECRET": "bad\udcffvalue1"})
    assert redactor.redact("fine") == "fine"


def test_the_same_secret_has_the_same_placeholder_and_another_has_another() -> None:
    """Placeholders are numbered by first sight, in every place and form alike."""
    redactor = Redactor(environ=ENVIRON)
    first, second = SHAPES["openai project"], SHAPES["github"]
    assert redactor.redact([first, second, f"x {first}"]) == [
        f"sk-proj-[redacted-1]{'*' * 29}",
        f"ghp_[redacted-2]{'*' * 29}",
        f"x sk-proj-[redacted-1]{'*' * 29}",
    ]
    assert redactor.redact(second).startswith("ghp_[redacted-2]")
    raw, quoted = redactor.redact([DB_PASSWORD, quote(DB_PASSWORD, safe="")])
    assert raw.startswith("[redacted-3]")
    assert quoted.startswith("[redacted-3]")


def test_a_placeholder_keeps_prefix_and_length() -> None:
    """A reviewer sees which kind of key stood there, and how long it was, where that fits."""
    redactor = Redactor(environ={})
    for name in ("openai project", "anthropic", "github", "stripe"):
        assert len(redactor.redact(SHAPES[name])) == len(SHAPES[name])
    assert redactor.redact({"password": "ü" * 20})["password"] == "[redacted-5]********"
    assert redactor.redact({"password": "x"})["password"] == "[redacted-6]"


@pytest.mark.parametrize(
    "plain", [{"api_key": "hunter2"}, "Authorization: Bearer abc123def", SHAPES["jwt"], PEM, "a://b:cc@d"]
)
def test_a_placeholder_is_no_secret_to_the_scan(redactor: Redactor, plain: Any) -> None:
    """What was redacted needs no second look."""
    result = redactor.redact(plain)
    assert result != plain
    assert not redactor.scan(msgspec.json.encode(result))


def test_found_tells_names_and_never_values(redactor: Redactor) -> None:
    """What fired is known by rule, name and variable alone."""
    redactor.redact(
        [SHAPES["github"], {"password": "hunter2"}, ENVIRON["OPENAI_API_KEY"], {"x_api_key": DB_PASSWORD}]
    )
    assert redactor.found == {
        "github-token": "shape",
        "password": "name",
        "OPENAI_API_KEY": "environment",
        "api_key": "name",
        "DB_PASSWORD": "environment",
    }


def test_names_of_classes_are_not_text(redactor: Redactor) -> None:
    """A class called Token in a module called auth is found again after redaction."""
    plain: dict[str, Any] = {
        "$object": "shop.auth:Token",
        "state": {"secret": "hunter2", "of": {"$enum": "shop.token:Kind", "name": "A1"}},
    }
    result = redacted(redactor, plain, "hunter2")
    assert result["$object"] == "shop.auth:Token"
    assert result["state"]["of"] == plain["state"]["of"]


def test_the_order_of_keys_stays_and_a_set_stays_sorted(redactor: Redactor) -> None:
    """Redaction changes nothing but the secrets."""
    result = redacted(
        redactor, {"z": 1, SHAPES["github"]: 2, "a": {"$set": ["A", SHAPES["xai"], SHAPES["groq"]]}}
    )
    assert list(result)[::2] == ["z", "a"]
    members = result["a"]["$set"]
    assert members == sorted(members, key=canonical)
    assert len(members) == 3


def test_a_changed_value_is_redacted_in_its_change(redactor: Redactor) -> None:
    """What a tool put under a secret name in place is hidden though the name stands in the path."""
    before = {"users": [{"password": "old-one", "n": 1}]}
    changes = diff(before, {"users": [{"password": "new-one", "n": 2}]})
    in_path = redacted(redactor, diff({}, {SHAPES["github"]: 1}), LONG)
    assert in_path == [["set", [f"ghp_[redacted-1]{'*' * 29}"], 1]]
    result = redacted(redactor, {"state": changes}, "new-one")
    assert [change[:2] for change in result["state"]] == [change[:2] for change in changes or []]
    under_a_secret_name = redacted(redactor, {"credentials": changes}, "new-one")
    assert under_a_secret_name["credentials"][0][0] == "set"


def test_the_rules_are_made_once_for_the_same_settings_and_secrets() -> None:
    """A run costs no new rules, nor does a variable that holds no secret; a new secret is known at once."""
    first = rules_of({"A_TOKEN": "one-of-two-0001", "PAGE": "1"}, ["ssn"], [])
    assert rules_of({"A_TOKEN": "one-of-two-0001", "PAGE": "1"}, ["ssn"], []) is first
    assert rules_of({"A_TOKEN": "one-of-two-0001", "PAGE": "2"}, ["ssn"], []) is first
    assert rules_of({"A_TOKEN": "one-of-two-0001"}, ["iban"], []) is not first
    assert rules_of({"A_TOKEN": "two-of-two-0002"}, ["ssn"], []) is not first
    for number in range(20):
        redacted(
            Redactor(environ={"A_TOKEN": f"secret-{number:08}"}), f"a secret-{number:08} b", f"{number:08}"
        )


def test_a_secret_that_is_set_while_the_process_runs_is_known_to_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment is looked at when a run begins, not when the module is imported (B43)."""
    text = "a late-secret-0001 b"
    assert Redactor(environ=os.environ).redact(text) is text
    monkeypatch.setenv("LATE_TOKEN", "late-secret-0001")
    assert Redactor(environ=os.environ).redact(text) == "a [redacted-1]**** b"
    monkeypatch.delenv("LATE_TOKEN")
    assert Redactor(environ=os.environ).redact(text) is text


def test_a_number_that_stands_in_a_recording_is_given_to_no_other_secret() -> None:
    """What a replay meets for the first time is not taken for the secret that had its number (B43)."""
    redactor = Redactor(environ={})
    redactor.saw(b'["[redacted-3]**", "sk-[redacted-12]***"]')
    redactor.saw(b'["[redacted-2]**"]')
    assert redactor.redact([SHAPES["github"], SHAPES["xai"]]) == [
        f"ghp_[redacted-13]{'*' * 28}",
        f"xai-[redacted-14]{'*' * 28}",
    ]


def test_two_threads_give_one_secret_one_number() -> None:
    """A redactor is shared by the threads of a run."""
    redactor = Redactor(environ={})
    secrets = [f"ghp_{LONG}{number:04d}" for number in range(40)]
    results: list[Any] = []

    def work() -> None:
        results.append(redactor.redact(secrets))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == results[0] for result in results)
    assert len(set(results[0])) == 40


def test_a_deep_value_is_redacted_without_recursion(redactor: Redactor) -> None:
    """Neither walk nor comparison is bounded by the depth of Python's stack."""
    plain: Any = SHAPES["github"]
    other: Any = "anything"
    for _ in range(5000):
        plain, other = [plain], [other]
    result = redactor.redact(plain)
    assert matches(result, other)


def test_prose_about_keys_is_no_secret(redactor: Redactor) -> None:
    """The exact rules need not look at a text that only speaks of a key, nor at a plain URL."""
    plain = {
        "orders": [
            {"sku": f"SKU-{number:05d}", "title": "Wireless headphones", "price": 129.95}
            for number in range(11)
        ],
        "note": "The key to the door is under the mat. See https://shop.example.com/orders/A-17?ref=mail",
    }
    data = msgspec.json.encode(plain)
    assert 800 < len(data) < 1000
    assert not redactor.scan(data)


NAMES = st.sampled_from([*SECRET_NAMES, *HARMLESS_NAMES, "value", "name", "type", "logprob", "$$ref"]) | TEXTS


def _keys(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        f"${key}" if key.startswith("$") and not key.startswith("$$") else key: value
        for key, value in plain.items()
    }


PLAINS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES, inner, max_size=4).map(_keys)
        | st.lists(inner, max_size=3).map(lambda items: {"$tuple": items})
        | TEXTS.map(lambda text: {"$bytes": b64(text.encode())})
        | st.lists(TEXTS, max_size=3, unique=True).map(lambda items: {"$set": sorted(items, key=canonical)})
        | st.lists(st.tuples(inner, inner).map(list), max_size=2).map(lambda pairs: {"$dict": pairs})
        | st.dictionaries(NAMES, inner, max_size=3).map(
            lambda state: {"$object": "shop.auth:Token", "state": _keys(state)}
        )
    ),
    max_leaves=12,
)
SHARED = Redactor(environ=ENVIRON)


@thoroughly(200)
@given(PLAINS)
def test_redaction_holds_its_promises_for_any_value(plain: Any) -> None:
    """Redacting twice changes no more, the result matches its origin, the scan foresees it (B43, B44)."""
    before = msgspec.json.encode(plain)
    result = SHARED.redact(plain)
    assert msgspec.json.encode(plain) == before
    assert (result is plain) == (canonical(result) == canonical(plain))
    assert SHARED.redact(result) is result
    assert matches(result, plain)
    assert matches(result, Redactor(environ={}).redact(plain))
    if result is not plain:
        assert SHARED.scan(before)
