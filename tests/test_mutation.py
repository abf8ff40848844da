from __future__ import annotations

import base64
import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import thoroughly
from stepfork._mutation import ChangeMisfit, apply, diff

ROW = {"id": "A-17", "items": [{"sku": "x", "n": 1}], "status": "open"}


def plain_of(value: Any) -> Any:
    """Write the few types that these tests use."""
    match value:
        case dict() if all(isinstance(key, str) for key in value):
            return {f"${key}" if key.startswith("$") else key: plain_of(part) for key, part in value.items()}
        case dict():
            return {"$dict": [[plain_of(key), plain_of(part)] for key, part in value.items()]}
        case list():
            return [plain_of(part) for part in value]
        case tuple():
            return {"$tuple": [plain_of(part) for part in value]}
        case set():
            return {"$set": sorted(map(plain_of, value), key=msgspec.json.encode)}
        case bytearray():
            return {"$bytearray": base64.b64encode(value).decode()}
        case Thing() | Slotted():
            return {"$object": f"m:{type(value).__name__}", "state": plain_of(value.state())}
    return value


def value_of(plain: Any) -> Any:
    """Read what plain_of wrote."""
    if isinstance(plain, list):
        return [value_of(part) for part in plain]
    if not isinstance(plain, dict):
        return plain
    match next(iter(plain), ""):
        case "$dict":
            return {value_of(key): value_of(part) for key, part in plain["$dict"]}
        case "$tuple":
            return tuple(map(value_of, plain["$tuple"]))
        case "$set":
            return set(map(value_of, plain["$set"]))
        case "$bytearray":
            return bytearray(base64.b64decode(plain["$bytearray"]))
    return {key.removeprefix("$"): value_of(part) for key, part in plain.items()}


class Thing:
    """An object with a dict, whose own ways to set an attribute must not run."""

    def __init__(self, **state: Any) -> None:
        self.__dict__.update(state)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError("the agent's code ran")

    def state(self) -> dict[str, Any]:
        """Return the attributes."""
        return dict(self.__dict__)


class Slotted:
    """An object without a dict."""

    __slots__ = ("a", "b")

    def __init__(self, **state: Any) -> None:
        for name, part in state.items():
            setattr(self, name, part)

    def state(self) -> dict[str, Any]:
        """Return the attributes that are set."""
        return {name: getattr(self, name) for name in self.__slots__ if hasattr(self, name)}


def changed(before: Any, after: Any, live: Any = None) -> tuple[Any, Any]:
    """Apply what was found different between two values to a copy of the first; return it and the changes."""
    changes = diff(plain_of(before), plain_of(after))
    live = copy.deepcopy(before) if live is None else live
    apply(live, json.loads(json.dumps(changes or [])), value_of)
    return live, changes


CASES = {
    "new key": ({"a": 1}, {"a": 1, "b": [2]}, [["set", ["b"], [2]]]),
    "changed key": ({"a": {"b": 1}}, {"a": {"b": 2}}, [["set", ["a", "b"], 2]]),
    "gone key": ({"a": 1, "b": 2}, {"b": 2}, [["del", ["a"], None]]),
    "only the type": ({"a": 1}, {"a": True}, [["set", ["a"], True]]),
    "type in a list": ([1, 0.0], [1.0, -0.0], [["set", [0], 1.0], ["set", [1], -0.0]]),
    "a key with a dollar": ({"$ref": 1}, {"$ref": 2}, [["set", ["$ref"], 2]]),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [["order", [], ["b", "a"]]]),
    "append": ({"rows": [ROW]}, {"rows": [ROW, ROW]}, [["append", ["rows"], [ROW]]]),
    "append to the root": ([1], [1, 2, 3], [["append", [], [2, 3]]]),
    "insert": ([1, 2], [0, 1, 2], [["splice", [], [0, 0, [[0]]]]]),
    "remove": ([1, 2, 3], [1, 3], [["splice", [], [1, 2, []]]]),
    "remove the last": ([1, 2, 3], [1], [["splice", [], [1, 3, []]]]),
    "clear": ({"rows": [1, 2]}, {"rows": []}, [["splice", ["rows"], [0, 2, []]]]),
    "in a row": ([{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 3}], [["set", [1, "n"], 3]]),
    "a row and one more": (
        [{"n": 1}],
        [{"n": 2}, {"n": 3}],
        [["set", [0, "n"], 2], ["append", [], [{"n": 3}]]],
    ),
    "sorted": ([{"n": 2}, {"n": 1}], [{"n": 1}, {"n": 2}], [["splice", [], [0, 2, [[1, 2], [0, 1]]]]]),
    "in a tuple": (({"n": 1}, 5), ({"n": 2}, 5), [["set", [0, "n"], 2]]),
    "another tuple": ({"a": (1, 2)}, {"a": (1, 3)}, [["set", ["a"], {"$tuple": [1, 3]}]]),
    "set": ({"s": {1}}, {"s": {1, 2}}, [["fill", ["s"], {"$set": [1, 2]}]]),
    "bytearray": ([bytearray(b"a")], [bytearray(b"b")], [["fill", [0], {"$bytearray": "Yg=="}]]),
    "key that is no text": ({1: {"n": 1}}, {1: {"n": 2}}, [["set", [{"key": 1}, "n"], 2]]),
    "mixed keys": ({1: 1, "a": 1}, {1: 1, "a": 2}, [["set", ["a"], 2]]),
    "another type": ({"a": [1]}, {"a": {"b": 1}}, [["set", ["a"], {"b": 1}]]),
}


@pytest.mark.parametrize(("before", "after", "changes"), CASES.values(), ids=CASES)
def test_a_change_is_told_and_applied(before: Any, after: Any, changes: Any) -> None:
    """Each kind of change in place has its form, which is part of the format (B37)."""
    live, found = changed(before, after)
    assert found == changes
    assert msgspec.json.encode(plain_of(live)) == msgspec.json.encode(plain_of(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        (1, 2),
        ("a", "b"),
        ({"$tuple": [1]}, {"$tuple": [2]}),
        ({"$opaque": "m:Lock", "repr": "<Lock>"}, {"$opaque": "m:Lock", "repr": "<Lock 2>"}),
        ([1], {"a": 1}),
        ({"$object": "m:A", "state": {}}, {"$object": "m:B", "state": {}}),
    ],
)
def test_nothing_that_could_be_changed_in_place_is_no_change(before: Any, after: Any) -> None:
    """An equal value, and one that cannot be changed in place, give None."""
    assert diff(before, after) is None


def test_an_object_changes_by_its_attributes_and_past_its_own_code() -> None:
    """Attributes are set as state, in dicts and slots, without __setattr__ of the class (B37)."""
    for cls in (Thing, Slotted):
        before, after = cls(a=[1], b=2), cls(a=[1, 2])
        live, changes = changed({"it": before}, {"it": after}, {"it": cls(a=[1], b=2)})
        assert changes == [["del", ["it", {"attr": "b"}], None], ["append", ["it", {"attr": "a"}], [2]]]
        assert live["it"].state() == {"a": [1, 2]}
        live, _ = changed(after, before, cls(a=[1, 2]))
        assert live.state() == {"a": [1], "b": 2}


def test_what_was_not_changed_stays_the_same_object() -> None:
    """References that an agent keeps into an argument still point into it after a replayed change (B37)."""
    rows: list[Any] = [{"id": number, "tags": ["a"]} for number in range(5)]
    db: dict[str, Any] = {"rows": list(rows), "by": {7: rows[2]}, "pair": (rows[3],)}
    after = copy.deepcopy(db)
    del after["rows"][1]
    after["rows"].insert(0, after["rows"].pop())
    after["rows"][1]["tags"].append("b")
    inner = db["rows"]
    live, _ = changed(db, after, db)
    assert live["rows"] is inner
    assert [row["id"] for row in inner] == [4, 0, 2, 3]
    assert all(any(row is kept for kept in rows) for row in inner if row["id"] != 0)
    assert live == after


@pytest.mark.slow
def test_a_row_added_to_a_large_table_costs_a_row() -> None:
    """The change of a 2 MB database by one row is about as long as the row (B40)."""
    rows = {f"order-{number}": {**ROW, "id": f"A-{number}"} for number in range(15_000)}
    before: dict[str, Any] = {"orders": rows, "log": [copy.deepcopy(ROW) for _ in range(15_000)]}
    after = copy.deepcopy(before)
    after["orders"]["order-x"] = ROW
    after["orders"]["order-77"]["status"] = "done"
    after["log"].insert(0, {"new": True})
    assert len(msgspec.json.encode(before)) > 1_700_000
    live, changes = changed(before, after)
    assert len(msgspec.json.encode(changes)) < 2 * len(msgspec.json.encode(ROW)) + 150
    assert live == after


@pytest.mark.slow
def test_a_large_list_in_which_everything_moved_or_changed_is_compared() -> None:
    """In time that grows with the size only: with its square it would take hours."""
    rows = [{"id": number, "v": number % 7} for number in range(20_000)]
    others: list[Any] = [
        rows[::-1],
        [{**row, "v": 9} for row in rows],
        rows[1:] + rows[:1],
        list(range(20_000)),
    ]
    for after in others:
        live, _ = changed(rows, after)
        assert live == after


def test_a_list_that_was_turned_round_is_told_by_positions() -> None:
    """Elements that only moved are not written again, and stretches of them are one part."""
    rows = [{"id": number} for number in range(100)]
    _, changes = changed(rows, rows[50:] + rows[:50])
    assert changes == [["splice", [], [0, 100, [[50, 100], [0, 50]]]]]


def test_a_value_with_shared_parts_is_replaced_as_a_whole() -> None:
    """A reference counts on what stands around it, so none is written alone."""
    before = {"$shared": [[1]], "value": {"a": {"$ref": 0}, "b": {"$ref": 0}}}
    after = {"$shared": [[1, 2]], "value": {"a": {"$ref": 0}, "b": {"$ref": 0}}}
    assert diff(before, after) == [["fill", [], after]]
    assert diff({"a": 1}, after) == [["fill", [], after]]
    assert diff([1], after) is None


def test_a_target_in_another_state_gets_what_fits() -> None:
    """A change is applied to whatever the fixed agent passes, as far as it has a place."""
    changes = diff({"rows": [1, 2], "n": 1, "gone": 1}, {"rows": [1, 2, 3], "n": 2})
    live = {"rows": [7], "other": True}
    apply(live, changes or [], value_of)
    assert live == {"rows": [7, 3], "n": 2, "other": True}


@pytest.mark.parametrize(
    ("target", "change", "message"),
    [
        ({}, ["set", ["a", "b"], 1], r"set at \['a'\]\['b'\]"),
        ([], ["set", [3], 1], r"set at \[3\]"),
        ({"a": 5}, ["append", ["a"], [1]], r"append at \['a'\]"),
        ({"a": 5}, ["set", ["a", 0], 1], "int is no sequence"),
        ([], ["set", ["a"], 1], "list is no mapping"),
        ([5], ["set", [0, {"attr": "x"}], 1], r"set at \[0\]\.x"),
        ("text", ["fill", [], {"$set": [1]}], "fill at the value: the recorded value is a set"),
    ],
)
def test_a_change_without_a_place_is_told(target: Any, change: Any, message: str) -> None:
    """A path that does not exist is a LookupError naming it; all that has a place was applied."""
    fitting = ["set", ["fits"], True] if isinstance(target, dict) else None
    with pytest.raises(ChangeMisfit, match=message) as caught:
        apply(target, [change, *([fitting] if fitting else [])], value_of)
    assert isinstance(caught.value, LookupError)
    assert not fitting or target["fits"]


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab$", max_size=3)
KEYS = st.text("ab$", max_size=2) | st.integers(0, 3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text("ab$", max_size=2), inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(st.integers(0, 5) | st.text("ab", max_size=2), max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.binary(max_size=2).map(bytearray)
    ),
    max_leaves=20,
)
CONTAINERS = st.lists(VALUES, max_size=6) | st.dictionaries(KEYS, VALUES, max_size=5)


@thoroughly(100)
@given(st.data())
def test_applying_the_difference_gives_the_value_after(data: st.DataObject) -> None:
    """Whatever two values are, the one becomes the other in place, with types and order of keys (B37)."""
    before = data.draw(CONTAINERS)
    after = data.draw(
        st.just(_mixed(before, data)) | CONTAINERS.filter(lambda value: type(value) is type(before))
    )
    old, new = plain_of(before), plain_of(after)
    live = copy.deepcopy(before)
    apply(live, json.loads(json.dumps(diff(old, new) or [])), value_of)
    assert msgspec.json.encode(plain_of(live)) == msgspec.json.encode(plain_of(after))
    assert diff(new, copy.deepcopy(new)) is None


def _mixed(before: Any, data: st.DataObject) -> Any:
    """Change a value here and there, as a tool would."""
    after = copy.deepcopy(before)
    if isinstance(after, list):
        for _ in range(data.draw(st.integers(0, 3))):
            position = data.draw(st.integers(0, len(after)))
            if data.draw(st.booleans()) and position < len(after):
                after.append(after.pop(position))
            else:
                after.insert(position, data.draw(VALUES))
    for key in list(after) if isinstance(after, dict) else range(len(after)):
        if isinstance(after[key], (list, dict)) and data.draw(st.booleans()):
            after[key] = _mixed(after[key], data)
    return after


def test_the_real_codec_and_the_changes_fit() -> None:
    """Objects of every supported kind get the state that a tool left them in (B37)."""
    from mutable_kinds import KINDS
    from stepfork._codec import decode, encode

    for make, mutate in KINDS:
        before, after = make(), make()
        mutate(after)
        changes = diff(encode(before).plain, encode(after).plain)
        assert changes, make
        live = make()
        apply(live, json.loads(json.dumps(changes)), decode)
        assert encode(live).plain == encode(after).plain
