from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import thoroughly
from stepfork._compare.compare import MAX_DIFFERENCES, Comparison, Difference, compare
from stepfork._compare.rules import Rules
from stepfork._plain import canonical
from stepfork.errors import OptionError
from stepfork.tolerance import a, anything, approx, one_of, regex, unordered

SRC = Path(__file__).parents[1] / "src"
NAN = {"$float": "nan"}


def changes(comparison: Comparison) -> list[tuple[Any, ...]]:
    """Return place and kind of each difference of a comparison that was made in full."""
    assert not comparison.truncated
    return [(*difference.path, difference.kind) for difference in comparison.differences]


def drifts(comparison: Comparison) -> list[tuple[Any, ...]]:
    """Return the places that drifted where nothing else differs."""
    assert comparison.same
    return [difference.path for difference in comparison.drift]


def nested(depth: int, end: Any) -> Any:
    """Return a value this many dicts deep."""
    value = end
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 2}, [("a", "changed")]),
        ({"a": 1}, {"a": 1, "b": 2}, [("b", "added")]),
        ({"a": 1, "b": 2}, {"b": 2}, [("a", "removed")]),
        ({"a": 1}, {"a": "1"}, [("a", "retyped")]),
        ({"a": 1}, {"a": 1.0}, [("a", "retyped")]),
        ({"a": 1}, {"a": True}, [("a", "retyped")]),
        ({"a": [1, 2, "x"]}, {"a": [True, 2, "x"]}, [("a", 0, "retyped")]),
        ({"a": [1, 2, "x"]}, {"a": [1.0, 2, "x"]}, [("a", 0, "retyped")]),
        ({"a": None}, {"a": {}}, [("a", "retyped")]),
        ({"a": {}}, {"a": []}, [("a", "retyped")]),
        ({"a": {}}, {"a": {"$tuple": []}}, [("a", "retyped")]),
        (1, 2, [("changed",)]),
        ({"a": "x\r\n"}, {"a": "x\n"}, [("a", "changed")]),
        ({"a": "\u00e9"}, {"a": "e\u0301"}, [("a", "changed")]),
        ({"__ref": 1}, {"__ref": 2}, [("__ref", "changed")]),
        ({"identity": 1, "id": 1}, {"identity": 2, "id": 1}, [("identity", "changed")]),
        ({"a'b\"[0]": {"c": 1}}, {"a'b\"[0]": {"c": 2}}, [("a'b\"[0]", "c", "changed")]),
        ({"": {"": 1}}, {"": {"": 2}}, [("", "", "changed")]),
        ([{"foo1": 1}], [{"foo2": 1}], [(0, "foo1", "removed"), (0, "foo2", "added")]),
        ([1, 2, 2], [2, 1], [(0, "changed"), (1, "changed"), (2, "removed")]),
        ([1, 2, 2], [1, 2], [(1, "removed")]),
        ({"$uuid": "a"}, {"$uuid": "b"}, [("changed",)]),
        ({"$object": "m:A", "state": {"x": 1}}, {"$object": "m:B", "state": {"x": 1}}, [("retyped",)]),
        (
            {"$object": "m:A", "state": {"x": 1}},
            {"$object": "m:A", "state": {"x": 2}},
            [("state", "x", "changed")],
        ),
        ({"$enum": "m:E", "name": "A"}, {"$enum": "m:E", "name": "B"}, [("changed",)]),
        ({"$set": [1, 2, 3]}, {"$set": [2, 3, 4]}, [("$set", 0, "removed"), ("$set", 2, "added")]),
        ({"$dict": [[1, "a"], [2, "b"]]}, {"$dict": [[2, "c"], [1, "a"]]}, [("$dict", 1, 1, "changed")]),
        ({"$dict": [[1, "a"]]}, {"$dict": [[0, "z"], [1, "a"]]}, [("$dict", 0, 1, "added")]),
        ({"a": 1}, {"$dict": [["a", 1], [2, "b"]]}, [("$dict", 1, 1, "added")]),
        (
            {"$shared": [[1]], "value": {"$ref": 0}},
            {"$shared": [[2]], "value": {"$ref": 0}},
            [("$shared", 0, 0, "changed")],
        ),
    ],
)
def test_every_kind_of_difference_is_found_where_it_is(old: Any, new: Any, expected: Any) -> None:
    """Private names, quotes, renamed keys, repeats and equal-looking types hide nothing (B65, B69)."""
    comparison = compare(old, new)

    assert changes(comparison) == expected
    assert not comparison.same


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 1, "b": [NAN]}, {"b": [dict(NAN)], "a": 1}),
        ({"$set": [NAN, 1]}, {"$set": [dict(NAN), 1]}),
        ({"$dict": [[1, "a"], [2, "b"]]}, {"$dict": [[2, "b"], [1, "a"]]}),
        ({"$dict": [["a", 1], ["$b", 2]]}, {"a": 1, "$$b": 2}),
    ],
)
def test_what_is_equal_has_no_difference(old: Any, new: Any) -> None:
    """NaN equals NaN at any depth, and the order of keys is no part of a dict (B68)."""
    assert compare(old, new) == Comparison([], [], {}, truncated=False)


def test_an_inserted_message_is_one_difference() -> None:
    """The elements after it are the same as before, whatever they are."""
    old = [{"role": "user", "n": n} for n in range(6)]
    new = [*old[:2], {"role": "tool", "n": 99}, *old[2:5], {"role": "user", "n": 7}]

    assert changes(compare({"m": old}, {"m": new})) == [("m", 2, "added"), ("m", 5, "n", "changed")]


def test_the_place_of_what_moved_is_told_for_each_side() -> None:
    """A removed element is named by its old position, an added one by its new."""
    comparison = compare(["a", "b", "c", "d"], ["b", "c", "x", "d"])

    assert comparison.differences == [
        Difference((0,), "removed", "a", None),
        Difference((2,), "added", None, "x"),
    ]


def test_a_float_that_differs_by_rounding_is_drift() -> None:
    """One part in a billion, and no more; the sign of zero is drift as well."""
    assert drifts(compare({"a": 0.1 + 0.2}, {"a": 0.3})) == [("a",)]
    assert drifts(compare([0.0, {"$complex": [0.3, 1.0]}], [-0.0, {"$complex": [0.1 + 0.2, 1.0]}])) == [
        (0,),
        (1,),
    ]
    assert changes(compare({"a": 1.0}, {"a": 1.000001})) == [("a", "changed")]
    assert changes(compare({"a": 1e-300}, {"a": 0.0})) == [("a", "changed")]
    assert changes(compare({"a": NAN}, {"a": 1.0})) == [("a", "changed")]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}', True),
        ('{"a": 0.30000000000000004}', '{"a": 0.3}', True),
        ('[{"a": "{\\"x\\": 1}"}]', '[{"a": "{\\"x\\":1}"}]', True),
        ('{"a": 1}', '{"a": 2}', False),
        ('{"a": 1}', '{"a": 1.0}', False),
        ('{"a": 1, "a": 2}', '{"a": 2}', False),
        ('{"id": 123456789012345678901234567890}', '{"id": 123456789012345678901234567891}', False),
        ('{"$set": [1, 2]}', '{"$set": [2, 1]}', False),
        ('{"a": NaN}', '{ "a": NaN}', False),
        ('{"a": 1e999}', '{"a": 1e998}', False),
        ("1", "1.0", False),
        ('"a"', ' "a"', False),
        ("{a}", "{a} ", False),
        ('{"s": "\\ud83d"}', '{"s":"\\ud83d"}', False),
    ],
)
def test_json_in_a_string_is_compared_as_json(old: str, new: str, same: bool) -> None:
    """Only objects and arrays that both sides spell out, and nothing in them is lost (B31, B35)."""
    comparison = compare({"arguments": old}, {"arguments": new})

    assert comparison.same is same
    assert [d.path for d in (comparison.drift if same else comparison.differences)] == [("arguments",)]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ({"key": "[redacted-1]***"}, {"key": "[redacted-7]***"}, True),
        ({"key": "sk-proj-[redacted-1]***"}, {"key": None}, True),
        ({"url": "https://x/?k=[redacted-1]&p=2"}, {"url": "https://x/?k=None&p=2"}, True),
        ({"url": "https://x/?k=[redacted-1]&p=2"}, {"url": "https://x/?k=None&p=3"}, False),
        ({"key": "[redacted-1]"}, {}, False),
        ({"key": None}, {"key": "[redacted-1]"}, False),
    ],
)
def test_whatever_stands_where_a_secret_was_taken_out_is_drift(old: Any, new: Any, same: bool) -> None:
    """A test is green where the secret is another or absent, and the snapshot keeps its placeholder."""
    comparison = compare(old, new)
    assert comparison.same is same
    assert len(comparison.drift) == same


def test_rules_for_a_name_reach_into_json_in_a_string() -> None:
    """The arguments of a tool call are such a string."""
    old, new = '{"order": {"score": 1.0}, "output": 1}', '{"order": {"score": 1.05}, "output": 1}'

    assert drifts(compare({"output": old}, {"output": new}, Rules({"score": approx(rel=0.1)}))) == [
        ("output",)
    ]
    assert not compare({"output": old}, {"output": new}, Rules({"$.order": anything()})).same


def test_a_rule_turns_a_difference_into_drift_and_is_named() -> None:
    """The key is told as it was written, with the rule that judged."""
    rules = Rules({"score": approx(rel=0.1), "$.output.note": anything(), "other": regex("x")})
    old, new = [{"output": {"score": s, "note": n, "other": "x"}} for s, n in ((1.0, "a"), (1.05, "b"))]

    comparison = compare(old, new, rules)

    assert drifts(comparison) == [("output", "note"), ("output", "score")]
    assert comparison.rules_used == {"$.output.note": "anything()", "score": "approx(rel=0.1)"}


@pytest.mark.parametrize(
    ("rule", "old", "new", "expected"),
    [
        (anything(), {"x": 1}, {}, [("x", "removed")]),
        (anything(), {}, {"x": 1}, [("x", "added")]),
        (approx(rel=0.5), {"x": 1}, {"x": "1"}, [("x", "retyped")]),
        (lambda old, new: True, {"x": 1}, {"x": None}, [("x", "retyped")]),
        (unordered(), {"x": [1, 2]}, {"x": {"$tuple": [2, 1]}}, [("x", "retyped")]),
        (regex(".*"), {"x": {"$uuid": "a"}}, {"x": "a"}, [("x", "retyped")]),
        (a(str), {"x": "a"}, {"x": None}, [("x", "retyped")]),
        (one_of("a", "b"), {"x": "a"}, {"x": "c"}, [("x", "changed")]),
        (approx(abs=0), {"x": 0.1 + 0.2}, {"x": 0.3}, [("x", "changed")]),
    ],
)
def test_a_rule_never_hides_a_missing_or_retyped_field(
    rule: Any, old: Any, new: Any, expected: list[Any]
) -> None:
    """It judges what is there on both sides and of one type, and then it alone (B69)."""
    assert changes(compare(old, new, Rules({"x": rule}))) == expected


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        (one_of(1, None), 1, None),
        (a(str | None), "a", None),
        (approx(rel=0.1), 1, 1.0),
        (lambda old, new: True, 1, 1.5),
    ],
)
def test_a_rule_that_names_the_types_may_accept_another(rule: Any, old: Any, new: Any) -> None:
    """Int and float are both numbers."""
    assert drifts(compare({"x": old}, {"x": new}, Rules({"x": rule}))) == [("x",)]


def test_approx_on_a_container_judges_the_numbers_inside() -> None:
    """Only the numbers that are too far off are told, and a rule further inside comes first."""
    rules = Rules({"x": approx(rel=0.1), "exact": approx(abs=0)})
    old = {"x": {"a": [1.0, 2.0], "b": "t", "exact": 1.0, "$": {"$tuple": [1.0]}}}
    new = {"x": {"a": [1.05, 3.0], "b": "u", "exact": 1.01, "$": {"$tuple": [1.01]}}}

    comparison = compare(old, new, rules)

    assert changes(comparison) == [("x", "a", 1, "changed"), ("x", "b", "changed"), ("x", "exact", "changed")]
    assert [d.path for d in comparison.drift] == [("x", "$", "$tuple", 0), ("x", "a", 0)]


def test_unordered_pairs_elements_within_their_own_tolerance() -> None:
    """What has no partner is told by its position, and another order alone is drift."""
    rules = Rules({"items": unordered(), "id": regex(r"i\d"), "price": approx(rel=0.1)})
    old = {"items": [{"id": "i1", "price": 1.0}, {"id": "i2", "price": 5.0}, {"id": "i3", "price": 9.0}]}
    new = {"items": [{"id": "i7", "price": 5.1}, {"id": "i8", "price": 1.05}, {"id": "i9", "price": 9.0}]}

    assert drifts(compare(old, new, rules)) == [("items",)]
    new["items"][2]["price"] = 7.0
    assert changes(compare(old, new, rules)) == [("items", 2, "removed"), ("items", 2, "added")]
    new["items"].pop()
    assert changes(compare(old, new, rules)) == [("items", 2, "removed")]


def test_a_rule_holds_for_the_element_wherever_it_stands() -> None:
    """An insertion before it does not take it out of its tolerance."""
    rules = Rules({"score": approx(rel=0.1)})
    old = [{"n": "a", "score": 1.0}, {"n": "b", "score": 2.0}]

    comparison = compare(old, [{"n": "new"}, {"n": "c", "score": 1.0}, *old], rules)

    assert changes(comparison) == [(0, "added"), (1, "added")]


def test_a_rule_that_raises_is_an_error_that_names_it() -> None:
    """It is the tolerance that is wrong, not the agent."""

    def broken(old: Any, new: Any) -> bool:
        raise KeyError("no such thing")

    with pytest.raises(OptionError, match=r"broken for 'x' raised KeyError") as caught:
        compare({"x": 1}, {"x": 2}, Rules({"x": broken}))

    assert isinstance(caught.value.__cause__, KeyError)


def test_equal_values_do_not_import_deepdiff() -> None:
    """A tenth of a second is kept from every test that passes."""
    code = (
        "import sys; from stepfork._compare.compare import compare\n"
        "assert compare({'a': [1.5, 'x']}, {'a': [1.5, 'x']}).same; assert 'deepdiff' not in sys.modules\n"
        "assert not compare({'a': 1}, {'a': 2}).same; assert 'deepdiff' in sys.modules\n"
    )
    environment = {"PYTHONPATH": str(SRC)}

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_long_texts_are_not_diffed() -> None:
    """A quarter of a megabyte of changed lines takes no time to speak of."""
    old, new = ("\n".join(f"{word} {n}" for n in range(20_000)) for word in ("old", "new"))
    began = time.perf_counter()

    comparison = compare({"text": old}, {"text": new})

    assert changes(comparison) == [("text", "changed")]
    assert time.perf_counter() - began < 20


def test_a_value_of_any_depth_is_compared() -> None:
    """Two thousand levels are no RecursionError."""
    assert changes(compare(nested(2_000, 1), nested(2_000, 2))) == [(*["a"] * 2_000, "changed")]
    assert compare(nested(2_000, 1), nested(2_000, 1)).same
    assert drifts(compare(nested(2_000, 0.3), nested(2_000, 0.1 + 0.2))) == [("a",) * 2_000]


def test_what_is_too_large_still_shows_its_first_differences() -> None:
    """The report says that there may be more."""
    old: Any = {"rows": [{"n": n, "text": "x" * 20} for n in range(2_000)]}
    new = copy.deepcopy(old)
    for row in new["rows"][500:]:
        row["n"] += 1

    comparison = compare(old, new, max_bytes=10_000)

    assert comparison.truncated
    assert comparison.differences == [
        Difference(("rows", n, "n"), "changed", n, n + 1) for n in range(500, 500 + MAX_DIFFERENCES)
    ]


def test_what_is_too_large_and_was_compared_in_full_is_not_called_cut_short() -> None:
    """A plain walk that comes to its end has seen everything."""
    comparison = compare({"a": ["x" * 100, 0.3]}, {"a": ["x" * 100, 0.1 + 0.2]}, max_bytes=10)

    assert drifts(comparison) == [("a", 1)]


def test_nothing_is_called_the_same_that_time_did_not_suffice_for() -> None:
    """No difference was met, and yet the values are not the same."""
    old: Any = {"rows": [[n, str(n)] for n in range(30_000)]}
    new = copy.deepcopy(old)
    new["rows"][-1][1] = "changed"

    comparison = compare(old, new, budget_seconds=0, max_bytes=10)

    assert comparison.truncated
    assert not comparison.same


def test_the_time_budget_holds_for_lists_without_anything_in_common() -> None:
    """Aligning long lists is what takes deepdiff longest."""
    old, new = [n % 2 for n in range(20_000)], [(n // 3) % 2 for n in range(20_001)]
    began = time.perf_counter()

    comparison = compare(old, new, budget_seconds=0.5)

    assert not comparison.same
    assert comparison.differences
    assert time.perf_counter() - began < 30


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, -0.0, 0.3, 0.1 + 0.2, 1.0, 1e300]),
    st.sampled_from(["", "a", "b\n", '{"a": 1}', '{"a":1}', "[1]", "__x"]),
    st.sampled_from([NAN, {"$uuid": "u"}, {"$decimal": "1.0"}, {"$set": [1, 2]}, {"$set": [2]}]),
)
keys = st.sampled_from(["a", "b", "__c", "a'b", 'q"', "$$d", ""])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.lists(inner, max_size=3).map(lambda items: {"$tuple": items}),
        st.dictionaries(keys, inner, max_size=3).map(lambda state: {"$object": "m:A", "state": state}),
        st.lists(
            st.tuples(st.integers(0, 3), inner).map(list),
            min_size=1,
            max_size=3,
            unique_by=lambda pair: pair[0],
        ).map(lambda pairs: {"$dict": pairs}),
    ),
    max_leaves=12,
)


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return what stands at a path."""
    for step in path:
        value = value[step]
    return value


def in_canonical_order(value: Any) -> Any:
    """Return the value with the pairs of every ``$dict`` sorted, whose order is no part of it."""
    if isinstance(value, list):
        return [in_canonical_order(item) for item in value]
    if isinstance(value, dict):
        return {
            key: sorted(map(in_canonical_order, inner), key=canonical)
            if key == "$dict"
            else in_canonical_order(inner)
            for key, inner in value.items()
        }
    return value


@thoroughly(400)
@given(values, values)
def test_values_are_the_same_exactly_if_nothing_is_reported(old: Any, new: Any) -> None:
    """Whatever is not equal byte for byte is either told as a difference or counted as drift."""
    comparison = compare(old, new, budget_seconds=60)
    equal = canonical(in_canonical_order(old)) == canonical(in_canonical_order(new))

    assert not comparison.truncated
    assert (not comparison.differences and not comparison.drift) is equal
    for difference in comparison.differences + comparison.drift:
        if difference.kind != "added":
            assert at(old, difference.path) == difference.old
        if difference.kind == "added":
            assert at(new, difference.path) == difference.new
        if difference.kind in ("changed", "retyped"):
            assert canonical(difference.old) != canonical(difference.new)


@thoroughly(200)
@given(values, values)
def test_the_walk_and_deepdiff_agree_on_whether_values_are_the_same(old: Any, new: Any) -> None:
    """How they are compared decides only how the differences are told."""
    assert compare(old, new, budget_seconds=60).same is compare(old, new, max_bytes=0, budget_seconds=60).same


@thoroughly(100)
@given(values)
def test_json_text_of_a_value_equals_the_same_text_spelled_otherwise(value: Any) -> None:
    """Spaces and the order of keys are no part of JSON."""
    old, new = json.dumps([value]), json.dumps([value], indent=1, sort_keys=True)

    assert compare({"x": old}, {"x": new}).same


def test_a_rule_for_sequences_says_no_to_anything_else() -> None:
    """It was put on the wrong field, which must not make that field free."""
    assert changes(compare({"x": 1}, {"x": 2}, Rules({"x": unordered()}))) == [("x", "changed")]


def test_a_rule_that_runs_too_deep_tolerates_nothing() -> None:
    """What could not be judged counts as a difference."""

    def endless(old: Any, new: Any) -> bool:
        return endless(old, new)

    assert changes(compare({"x": 1}, {"x": 2}, Rules({"x": endless}))) == [("x", "changed")]
