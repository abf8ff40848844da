from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from project import MINIMAL, Project
from secret_samples import BODY, SHAPES, b64, redacted
from stepfork._redact import Redactor, matches
from stepfork.errors import OptionError


def test_names_and_patterns_of_the_user_count_too() -> None:
    """Own key names and regular expressions are redacted; a group says which part."""
    redactor = Redactor(
        environ={}, keys=["ssn", "customer-pin", "mot de passé"], patterns=[r"CUST-(\d+)", r"^\d{3}"]
    )
    plain = {
        "ssn": "078",
        "user_ssn": 1,
        "customerPin": 9,
        "mot de passé": "x",
        "t": "for CUST-4711 and CUST-12",
        "n": "123456",
    }
    result = redacted(redactor, plain, "078", "4711")
    assert result["t"].startswith("for CUST-[redacted-")
    assert result["n"].endswith("]456")
    assert redactor.found["pattern 1"] == "pattern"
    assert redactor.redact({"assn": "x", "pin": 1}) == {"assn": "x", "pin": 1}


def test_own_key_names_are_seen_by_the_scan() -> None:
    """The scan misses no name that the user gave."""
    redactor = Redactor(environ={}, keys=["ssn", "mot de passé", 'a"b'])
    for name in ("ssn", "user_ssn", "mot de passé", 'a"b'):
        assert redactor.scan(msgspec.json.encode({name: "x"}))
    assert not redactor.scan(msgspec.json.encode({"assn": "x", "name": "y"}))


def test_a_pattern_that_does_not_compile_is_an_error() -> None:
    """A broken pattern is told at once, with the pattern."""
    with pytest.raises(OptionError, match=r"'\('"):
        Redactor(environ={}, patterns=["("])


def test_an_own_redactor_sees_every_text_and_key_after_the_rules() -> None:
    """A custom redactor gets texts, keys and bytes that are text, none with a known secret."""
    seen: list[str] = []

    def custom(text: str) -> str:
        seen.append(text)
        return text.replace("Maria", "M.")

    redactor = Redactor(environ={}, custom=custom)
    assert redactor.scan(b"{}")
    plain = {"Maria": ["Maria S.", {"$bytes": b64(b"to Maria")}], "k": SHAPES["github"]}
    result = redactor.redact(plain)
    assert result["M."] == ["M. S.", {"$bytes": b64(b"to M.")}]
    assert not any(BODY in text for text in seen)
    assert redactor.found["custom"] == "custom"


@pytest.mark.parametrize(
    "mask", ["<PERSON>", "[REDACTED]", "{{name}}", "***", "XXXX", "[redacted]", "<PERSON 1>"]
)
def test_what_an_own_redactor_masks_may_be_anything_in_a_replay(mask: str) -> None:
    """What it writes in brackets or stars becomes a placeholder, and matches None too; made-up names stay."""
    redactor = Redactor(environ={}, custom=lambda text: text.replace("Maria", mask).replace("Bob", "Jim"))
    result = redactor.redact(["Maria", "Maria asks <b>Bob</b> and [1]"])
    assert result[0] == "[redacted-1]"
    assert result[1] == "[redacted-2] asks <b>Jim</b> and [1]"
    assert redactor.redact(result) is result
    assert matches(result, [None, "Anyone asks <b>Jim</b> and [1]"])
    assert not matches(result, [None, "Anyone asks <b>Bob</b> and [1]"])


def test_an_own_redactor_and_the_rules_do_not_mistake_each_other() -> None:
    """The stars of a placeholder are no mask of the custom redactor, in front of it or behind."""
    redactor = Redactor(environ={}, custom=lambda text: text.replace("1234", "****"))
    assert redactor.redact(f"{SHAPES['github']} and 1234") == f"ghp_[redacted-1]{'*' * 29} and [redacted-2]"


def test_an_own_redactor_that_fails_withholds_the_run_and_leaves_the_agent_alone(tmp_path: Path) -> None:
    """A redactor that raises costs one warning; what it should have seen is in no file (B12, B44)."""
    agent = """
        import stepfork

        def scrub(text):
            if "second" in text:
                raise LookupError("no rule for it")
            return text

        stepfork.configure(redactor=scrub)

        @stepfork.tool
        def lookup(text):
            return f"found {text}"

        @stepfork.step
        def handle(text):
            return [lookup("first of all"), lookup("the second secret"), lookup("the third of them")]

        print(handle("start"))
    """
    project = Project(tmp_path / "project", {**MINIMAL, "agent.py": agent})
    result = project.run("python", "agent.py")
    assert result.out == "['found first of all', 'found the second secret', 'found the third of them']\n"
    assert result.err.count("LookupError: no rule for it") == 1, result
    (journal,) = [data for name, data in project.files().items() if name.endswith(".jsonl")]
    assert b"first of all" in journal
    assert b"second" not in journal
    assert b"third" not in journal
    assert b'"incomplete":true' in journal


def test_an_own_redactor_that_fails_lets_nothing_through() -> None:
    """What a custom redactor raises reaches the caller, who then writes nothing (B12, B44)."""

    def broken(text: str) -> str:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        Redactor(environ={}, custom=broken).redact(["text"])
    with pytest.raises(TypeError, match="returned NoneType, not str"):
        Redactor(environ={}, custom=lambda text: None).redact(["text"])  # type: ignore[arg-type, return-value]
