from __future__ import annotations

import re
import sys
import uuid
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stepfork._codec import encode
from stepfork._compare.rules import Rules
from stepfork.errors import OptionError
from stepfork.tolerance import (
    Rule,
    a,
    anything,
    approx,
    describe,
    from_text,
    one_of,
    regex,
    semantic,
    similar,
    unordered,
)

NAN = {"$float": "nan"}
INF = {"$float": "inf"}


@dataclass
class Order:
    total: float
    state: str


def plain(value: object) -> Any:
    """Return the value as a recording holds it."""
    return encode(value).plain


def document(output: object, **inputs: object) -> Any:
    """Return what the paths of a tolerance are applied to."""
    return {"input": plain(inputs), "output": plain(output)}


@pytest.mark.parametrize(
    ("rule", "old", "new", "near"),
    [
        (approx(rel=0.01), 100, 101, True),
        (approx(rel=0.01), 100, 101.02, False),
        (approx(rel=1e-3), 1e-9, 5e-5, False),
        (approx(rel=1e-3), 123456.7, 123456.8, True),
        (approx(abs=0.1), 1.0, 1.1, True),
        (approx(abs=0.5), 0.4999999, 0.5000001, True),
        (approx(rel=0.99), -1.0, 1.0, False),
        (approx(abs=2), -1.0, 1.0, True),
        (approx(rel=0.99), 0.0, 1e-300, False),
        (approx(abs=1e-9), 0.0, 1e-12, True),
        (approx(rel=0.5), 0.0, -0.0, True),
        (approx(rel=0.5), True, 1, False),
        (approx(abs=1), False, True, False),
        (approx(rel=0.1), 1, 1.0, True),
        (approx(rel=0.1), NAN, NAN, True),
        (approx(rel=0.1), INF, INF, True),
        (approx(rel=0.1), INF, 1e308, False),
        (approx(rel=0.1), NAN, 1.0, False),
        (approx(abs=1), 2**60, 2**60 + 1, True),
        (approx(abs=0.5), 2**60, 2**60 + 1, False),
        (approx(rel=1e-9), 1.7e308, -1.7e308, False),
        (approx(rel=0.1), "1.0", "1.01", False),
    ],
)
def test_approx_judges_numbers_by_value_and_not_by_digits(rule: Rule, old: Any, new: Any, near: bool) -> None:
    """A bound is relative or absolute, and zero, signs, bools, NaN and infinities are none's corner (B66)."""
    assert rule(old, new) is near
    assert rule(new, old) is near


def test_approx_knows_every_kind_of_number_that_a_recording_holds() -> None:
    """Decimals, integers beyond 64 bits, complex numbers and durations are numbers as well."""
    rule = approx(rel=0.01)

    assert rule(plain(Decimal("10.00")), plain(Decimal("10.05")))
    assert not rule(plain(Decimal("10.00")), plain(Decimal("10.50")))
    assert not rule(plain(Decimal("10")), plain(10.0))
    assert rule(plain(10**400), plain(10**400 + 1))
    assert rule(plain(1 + 1j), plain(1.001 + 1j))
    assert not rule(plain(1 + 1j), plain(1.1 + 1j))
    assert rule(plain(timedelta(hours=24)), plain(timedelta(hours=23, minutes=55)))
    assert not rule(plain(timedelta(hours=24)), plain(timedelta(hours=23)))


def test_approx_on_a_container_holds_for_every_number_inside() -> None:
    """Lengths, keys and everything that is no number have to be the same."""
    rule = approx(rel=0.01)

    assert rule([1.0, {"x": 2.0, "y": "a"}], [1.001, {"x": 2.001, "y": "a"}])
    assert rule({"$tuple": [1.0, 2.0]}, {"$tuple": [1.001, 2.0]})
    assert not rule([1.0, 2.0], [1.0, 2.0, 3.0])
    assert not rule({"x": 1.0}, {"y": 1.0})
    assert not rule(["a"], ["b"])
    assert not rule([1.0], {"$tuple": [1.0]})


@pytest.mark.parametrize("bounds", [{}, {"rel": -1}, {"abs": "1"}, {"rel": 1.0}, {"abs": float("nan")}])
def test_approx_refuses_a_bound_that_would_mean_nothing(bounds: dict[str, Any]) -> None:
    """A rule that accepts everything, or nothing, is a slip of the pen."""
    with pytest.raises(OptionError):
        approx(**bounds)


def test_unordered_counts_how_often_an_element_occurs() -> None:
    """A double refund is not the same as one refund in another order."""
    rule = unordered()

    assert rule([1, 2, 2], [2, 1, 2])
    assert not rule([1, 2, 2], [2, 1])
    assert not rule([1, 2, 2], [1, 1, 2])
    assert not rule([1, True], [1, 1])
    assert rule([0.1 + 0.2, {"a": 1}], [{"a": 1}, 0.3])
    assert rule({"$tuple": [1, 2]}, {"$tuple": [2, 1]})
    assert not rule({"$tuple": [1, 2]}, [2, 1])
    assert not rule("ab", "ba")


def test_one_of_wants_both_values_to_be_listed() -> None:
    """A change from a wrong value to a right one is the fix, and has to be seen."""
    rule = one_of("ok", "fine", None, uuid.UUID(int=7))

    assert rule("ok", "fine")
    assert rule(None, "ok")
    assert rule(plain(uuid.UUID(int=7)), "ok")
    assert not rule("denied", "ok")
    assert not rule("ok", "denied")
    with pytest.raises(OptionError):
        one_of()


def test_regex_matches_the_whole_of_both_texts() -> None:
    """Half a match is none, and what is written as text counts as text."""
    rule = regex(r"T-\d+")

    assert rule("T-1", "T-22")
    assert not rule("T-1", "T-22 and more")
    assert not rule("none", "T-22")
    assert not rule(1, 2)
    assert regex(r"[0-9a-f-]{36}")(plain(uuid.UUID(int=1)), plain(uuid.UUID(int=2)))
    with pytest.raises(OptionError, match="unterminated"):
        regex("[a")


@pytest.mark.parametrize(
    ("type_", "fits", "does_not"),
    [
        (str, "x", 1),
        (int, 3, True),
        (float, 2, "2"),
        (bool, True, 1),
        (dict, {"a": 1}, [1]),
        (list, [1], (1,)),
        (tuple, (1,), [1]),
        (set, {1}, frozenset({1})),
        (bytes, b"x", "x"),
        (Decimal, Decimal(1), 1),
        (uuid.UUID, uuid.UUID(int=1), str(uuid.UUID(int=1))),
        (Path, Path("x"), "x"),
        (Order, Order(1.0, "new"), {"total": 1.0}),
        (ValueError, ValueError("x"), TypeError("x")),
        (str | None, None, 1),
        (None, None, 0),
        (int, 2**70, 1.5),
    ],
)
def test_a_type_fits_values_that_are_decoded_as_that_type(type_: Any, fits: object, does_not: object) -> None:
    """The type is that of the value which was recorded, whatever its encoding looks like."""
    rule = a(type_)

    assert rule(plain(fits), plain(fits))
    assert not rule(plain(fits), plain(does_not))
    assert not rule(plain(does_not), plain(fits))


@pytest.mark.parametrize("wrong", ["str", list[int], 3])
def test_a_type_has_to_be_a_class(wrong: Any) -> None:
    """Generic types could not be checked, so they are not accepted."""
    with pytest.raises(OptionError):
        a(wrong)


def test_similar_compares_letters_of_short_texts_and_words_of_long_ones() -> None:
    """Long texts stay affordable."""
    words = " ".join(f"word{n}" for n in range(3_000))

    assert similar(0.8)("the parcel is late", "the parcels are late")
    assert not similar(0.95)("the parcel is late", "the parcels are late")
    assert similar(0.99)(words, words.replace("word7 ", "other "))
    assert not similar(0.5)(words, words.upper())
    assert not similar(0.1)(1, 1)
    for wrong in (0, 1.5, "0.5", True):
        with pytest.raises(OptionError):
            similar(wrong)  # type: ignore[arg-type]


def test_semantic_compares_the_embeddings_it_is_given() -> None:
    """The angle between the vectors decides; texts that are equal are not embedded at all."""
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [
            [float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts
        ]

    rule = semantic(0.99, embed=embed)

    assert rule("refund the order", "the order: REFUND")
    assert not rule("refund the order", "zzz")
    assert not rule("refund", "")
    assert rule("same", "same")
    assert not rule(1, 2)
    assert len(asked) == 3


def test_semantic_without_anything_to_embed_with_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rule can be made in production; only a judgement needs the package."""
    from stepfork._compare.embedding import installed_embedding

    installed_embedding.cache_clear()
    monkeypatch.setattr(sys, "path", [])
    for name in ("fastembed", "sentence_transformers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    sys.path_importer_cache.clear()
    rule = semantic(0.9)

    with pytest.raises(OptionError, match="fastembed or sentence-transformers"):
        rule("a", "b")


def test_semantic_uses_the_package_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors come as an iterator from the one package, as rows of an array from the other."""
    from stepfork._compare.embedding import installed_embedding

    (tmp_path / "fastembed.py").write_text(
        "class TextEmbedding:\n    def embed(self, texts):\n        yield from ([len(t), 1] for t in texts)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fastembed", raising=False)
    installed_embedding.cache_clear()

    assert semantic(0.99)("abc", "abd")
    assert not semantic(0.9)("", "abcdefgh")
    installed_embedding.cache_clear()
    monkeypatch.delitem(sys.modules, "fastembed")


@pytest.mark.parametrize(
    "text",
    [
        "approx(rel=0.01)",
        "approx(rel=0.01, abs=1)",
        "unordered()",
        'one_of("a", 1, null)',
        r"regex('T-\\d+')",
        "a(str)",
        "similar(0.9)",
        "semantic(0.8)",
        "anything()",
    ],
)
def test_a_rule_is_described_in_one_stable_line(text: str) -> None:
    """The line that stands in the snapshot is also how the rule is spelled in the settings."""
    rule = from_text(text.replace("null", "None"))

    assert describe(rule) == text
    assert rule == from_text(text.replace("null", "None"))


@pytest.mark.parametrize(
    "text", ["", "approx", "approx(rel=)", "exit()", "a(x)", "approx(1)", "approx()", "1+1"]
)
def test_a_setting_that_is_no_rule_is_refused(text: str) -> None:
    """Nothing but the rules is ever called, with nothing but literals."""
    with pytest.raises(OptionError):
        from_text(text)


def test_a_union_of_types_can_be_spelled_in_the_settings() -> None:
    """A field that may be empty needs it."""
    rule = from_text("a(str | None)")

    assert describe(rule) == "a(str | None)"
    assert rule("x", None)


def within_a_day(old: Any, new: Any) -> bool:
    """Judge two numbers of seconds."""
    return bool(abs(old - new) <= 86400)


class Callable:
    def __call__(self, old: Any, new: Any) -> bool:
        return True


def test_a_callable_is_described_by_its_name_and_not_its_address() -> None:
    """The snapshot stays the same in every process (B72)."""
    assert describe(within_a_day) == f"{__name__}:within_a_day"
    assert describe(Callable()) == f"{__name__}:Callable"
    assert re.search(r"0x[0-9a-f]{6}", describe(lambda old, new: True)) is None


def test_a_plain_name_means_exactly_that_name_at_any_depth() -> None:
    """A rule for ``id`` has nothing to do with ``identity``, and quotes in keys are nothing special (B69)."""
    rules = Rules({"id": anything(), "a'b": anything()})
    value = {"input": {"id": 1, "identity": 2}, "output": [{"a'b": {"id": 3}}, {'id"': 4, "$$id": 5}]}

    assert set(rules.locate(value, value)) == {
        ("input", "id"),
        ("output", 0, "a'b"),
        ("output", 0, "a'b", "id"),
    }


def test_a_path_sees_values_as_their_user_does() -> None:
    """Attributes, tuple items, sets and keys of any dict are found without naming their encoding."""
    rules = Rules(
        {
            "$.output.order.total": anything(),
            "$.output.pair[1]": approx(abs=1),
            "$.output.by_number['7']": anything(),
            "state": regex("new|old"),
            "$.output['$ref']": anything(),
            "$.output.items[?@.price > 5].price": approx(rel=0.1),
        }
    )
    value = document(
        {
            "order": Order(1.0, "new"),
            "pair": (1, 2),
            "by_number": {7: "seven"},
            "$ref": 1,
            "items": [{"price": 1}, {"price": 9}],
        }
    )
    found = rules.locate(value, value)

    assert {path: type(rule).__name__ for path, rule in found.items()} == {
        ("output", "order", "state", "total"): "Anything",
        ("output", "order", "state", "state"): "Regex",
        ("output", "pair", "$tuple", 1): "Approx",
        ("output", "by_number", "$dict", 0, 1): "Anything",
        ("output", "$$ref"): "Anything",
        ("output", "items", 1, "price"): "Approx",
    }


def test_a_place_that_only_one_side_has_is_located_too() -> None:
    """What was added or removed is judged by the same rules (B69)."""
    rules = Rules({"name": anything()})

    assert set(rules.locate({"old": {"name": 1}}, {"new": [{"name": 1}]})) == {
        ("old", "name"),
        ("new", 0, "name"),
    }


def test_where_rules_meet_the_nearest_wins() -> None:
    """Settings, decorator and test are merged from the outside in; in one table the last counts."""
    settings = Rules({"score": approx(rel=0.1), "$..note": anything()})
    nearer = Rules({"score": approx(rel=0.2)})
    value = {"output": {"score": 1, "note": "x"}}

    merged = (settings | nearer).locate(value, value)

    assert merged == {("output", "score"): approx(rel=0.2), ("output", "note"): anything()}
    assert Rules({"score": anything(), "$.output.*": approx(rel=0.3)}).locate(value, value) == {
        ("output", "score"): approx(rel=0.3),
        ("output", "note"): approx(rel=0.3),
    }


def test_a_key_that_never_matched_is_known() -> None:
    """A misspelled path would otherwise protect nothing in silence (B69)."""
    outer = Rules({"score": anything(), "scroe": anything()})
    merged = outer | Rules({"$.output.missing": anything()})

    merged.locate({"output": {"score": 1}}, {})

    assert merged.unused() == ["scroe", "$.output.missing"]
    assert outer.unused() == ["scroe"]


def test_the_texts_are_those_of_the_rules_that_have_a_place() -> None:
    """They depend on the value alone, not on whether it drifted this time."""
    rules = Rules({"score": approx(rel=0.5), "other": anything()})

    assert rules.texts({"output": {"score": 1}}) == {"score": "approx(rel=0.5)"}


@pytest.mark.parametrize("key", ["$.a[", "$..", "output.total", "items[0]", "", "$.a | $.b", "a b"])
def test_a_key_that_is_no_path_is_refused_by_name(key: str) -> None:
    """The message names the key as it was written."""
    with pytest.raises(OptionError) as caught:
        Rules({key: anything()})

    assert repr(key) in str(caught.value)


def test_a_rule_that_is_none_is_refused_by_the_name_of_its_key() -> None:
    """The table says where the mistake is."""
    with pytest.raises(OptionError, match="'score'"):
        Rules({"score": 0.1})  # type: ignore[dict-item]


def test_a_value_too_deep_to_be_searched_has_no_rules() -> None:
    """It is then compared exactly, and nothing raises."""
    deep: Any = "end"
    for _ in range(3_000):
        deep = {"a": deep}

    assert Rules({"$..b": anything(), "$.output.a": anything()}).locate({"output": deep}, deep) == {}
    assert len(Rules({"a": anything()}).locate({"output": deep}, {})) == 3_000


def test_approx_takes_decimals_that_are_no_numbers_as_such() -> None:
    """They are near themselves and nothing else (B31)."""
    nan, infinite, one = (plain(Decimal(text)) for text in ("NaN", "-Infinity", "1"))

    assert approx(rel=0.5)(nan, nan)
    assert approx(rel=0.5)(infinite, infinite)
    assert not approx(rel=0.5)(nan, one)
    assert not approx(rel=0.5)(infinite, one)


def test_rules_reach_into_exceptions_and_shared_values() -> None:
    """What is part of a cycle stands in a table of its own, and an exception has attributes."""
    ring: list[Any] = [{"score": 1, "error": ValueError("x")}]
    ring.append(ring)
    value = document(ring)

    found = Rules({"score": anything(), "$..message": anything()}).locate(value, value)

    assert "$shared" in {step for path in found for step in path}
    assert {path[-1] for path in found} == {"score", "message"}
    assert "of" not in {path[-1] for path in Rules({"of": anything()}).locate(value, value)}
