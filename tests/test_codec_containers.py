"""Dicts, lists, sets, and whatever is nested in any depth or in circles."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from codec_values import Line, Many, Model, Node, Pair, Strict, run_python, through_json
from stepfork._codec import canonical, decode, encode, register_type


def test_the_order_of_a_dict_is_kept() -> None:
    """Keys come back in the order in which they were put in, also where they need tags."""
    assert list(through_json({"b": 1, "a": (2,)})) == ["b", "a"]
    assert list(through_json({"b": 1, 0: 2, "a": 3})) == ["b", 0, "a"]


def test_a_set_is_written_the_same_in_every_process() -> None:
    """Sets have no order, so their recorded form is sorted and does not depend on the hash seed."""
    code = "from stepfork._codec import *; print(canonical(encode({'a', 'b', (1, frozenset('xyz'))}).plain))"
    outputs = {run_python(code, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    assert len(outputs) == 1


def test_later_mutation_does_not_reach_what_was_decoded() -> None:
    """Each decoding makes new containers, so that one call cannot change what the next is served (B37)."""
    plain = encode({"a": [1], "b": (1, {"c": []})}).plain
    first = decode(plain)
    first["a"].append(2)
    first["b"][1]["c"].append(3)
    assert decode(plain) == {"a": [1], "b": (1, {"c": []})}


def test_a_value_that_contains_itself_comes_back_so() -> None:
    """Cycles through dicts, lists, tuples, sets and objects are closed again (B11)."""
    knot: dict[str, Any] = {"n": 1}
    knot["self"] = knot
    back = through_json(knot)
    assert back["self"] is back

    inner: list[Any] = []
    inner.append(inner)
    back = through_json((inner,))
    assert back[0][0] is back[0]

    outer = (inner,)
    inner[:] = [outer]
    back = through_json(outer)
    assert back[0][0] is back

    parent = Node(name="p")
    parent.children = (Node(parent=parent), Node(parent=parent))
    back = through_json(parent)
    assert all(child.parent is back for child in back.children)

    line = Line("a")
    line.tags.append(line)  # type: ignore[arg-type]
    assert (back := through_json(line)).tags[0] is back


def test_a_cycle_through_model_struct_and_subclass_comes_back() -> None:
    """Each kind of class exists before it is filled."""
    model = Model(x=1)
    many, struct = Many(), Strict(1)
    many.append(model)
    struct.a = many  # type: ignore[assignment]
    model.line = struct  # type: ignore[assignment]
    back = through_json(model)
    assert back.line.a[0] is back


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda part: [part], lambda deep: deep[0]),
        (lambda part: (part, 1), lambda deep: deep[0]),
        (lambda part: {"k": part}, lambda deep: deep["k"]),
        (lambda part: {1: part}, lambda deep: deep[1]),
        (lambda part: frozenset([part]), lambda deep: next(iter(deep))),
        (lambda part: Node(k=part), lambda deep: deep.k),
        (lambda part: Pair(part), lambda deep: deep.left),
        (lambda part: Many([part]), lambda deep: deep[0]),
    ],
    ids=["list", "tuple", "dict", "dict with other keys", "frozenset", "object", "namedtuple", "subclass"],
)
def test_a_depth_of_two_thousand_comes_back(wrap: Callable[[Any], Any], unwrap: Callable[[Any], Any]) -> None:
    """Depth is bounded in the recorded form, not in what it stands for (B11)."""
    value: Any = "bottom"
    for _ in range(2000):
        value = wrap(value)
    back = through_json(value)
    for _ in range(2000):
        assert type(back) is type(value)
        back = unwrap(back)
    assert back == "bottom"


def test_a_deep_stack_of_the_agent_does_not_matter() -> None:
    """A call made near the recursion limit is recorded all the same (B11)."""

    def dive(left: int) -> Any:
        return encode({"a": [(1, {2})]}) if left == 0 else dive(left - 1)

    room = sys.getrecursionlimit() - len(list(stack_frames()))
    for margin in range(5, 60):
        try:
            encoded = dive(room - margin)
        except RecursionError as error:
            if inside(encode, error):
                raise
            continue
        assert encoded.lossy or decode(encoded.plain) == {"a": [(1, {2})]}


def inside(function: Callable[..., Any], error: BaseException) -> bool:
    """Whether the function was entered before the error; its first line is where it is not yet."""
    code = function.__code__
    entries = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code is code and line > code.co_firstlineno for frame, line in entries)


def stack_frames() -> Iterator[types.FrameType]:
    """Yield the frames that lie on the stack."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_what_is_reached_by_very_many_ways_is_written_once() -> None:
    """Forty lists that hold each other twice are a million millions of paths (B11)."""
    value: Any = ["leaf", (1,)]
    for _ in range(40):
        value = [value, value]
    encoded = encode(value)
    assert not encoded.lossy
    assert len(canonical(encoded.plain)) < 5000
    back = decode(encoded.plain)
    for _ in range(40):
        back = back[1]
    assert back == ["leaf", (1,)]


def test_sharing_alone_does_not_change_what_is_written() -> None:
    """Whether two equal parts are one object is chance, and must not keep a call from being found."""
    part = {"a": (1,)}
    assert encode([part, part]) == encode([{"a": (1,)}, {"a": (1,)}])


def test_what_is_too_large_becomes_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    """One value costs a bounded number of bytes; what is small beside it is kept (B11)."""
    monkeypatch.setattr("stepfork._codec.fast.MAX_SIZE", 50_000)
    monkeypatch.setattr("stepfork._codec.writing.MAX_SIZE", 50_000)
    plain, lossy = encode({"small": "s", "big": "x" * 60_000, "set": {1}})
    assert lossy
    assert (plain["small"], plain["set"]) == ("s", {"$set": [1]})
    assert plain["big"]["repr"] == "<str object, too large to record>"
    assert encode(list(range(5000))).lossy


def test_what_takes_too_long_becomes_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that one value takes is bounded as well (B11)."""
    monkeypatch.setattr("stepfork._codec.writing.MAX_SECONDS", 0.2)

    class Slow: ...

    register_type(Slow, lambda value: time.sleep(0.01), lambda parts: Slow())
    started = time.monotonic()
    encoded = encode([Slow() for _ in range(1000)])
    assert encoded.lossy
    assert time.monotonic() - started < 20


def test_a_large_dict_that_changes_while_garbage_is_collected_is_recorded_all_the_same() -> None:
    """A collection runs finalizers, and lets other threads run, in the middle of what looks like one step."""
    value: dict[str, Any] = {str(number): (number,) for number in range(3000)}

    def change(phase: str, _info: object) -> None:
        if phase == "start":
            value[f"new {len(value)}"] = 0

    gc.callbacks.append(change)
    try:
        plains = [encode(value).plain for _ in range(20)]
    finally:
        gc.callbacks.remove(change)
    assert len(value) > 3000
    assert all(isinstance(plain, dict) and len(plain) >= 3000 for plain in plains)


def test_a_value_that_another_thread_changes_is_recorded_all_the_same() -> None:
    """A dict that grows while it is walked does not raise into the agent (B11)."""
    shared: dict[Any, Any] = {"t": (1,), **{f"k{n}": [n] for n in range(50)}}
    stop = threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            shared[f"x{n % 97}"] = n
            shared.pop(f"x{(n + 50) % 97}", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            decode(encode(shared).plain)
    finally:
        stop.set()
        thread.join()


def test_canonical_bytes_do_not_depend_on_the_order_of_keys() -> None:
    """Two equal dicts have the same bytes."""
    assert canonical(encode({"b": 1, "a": (2,)}).plain) == canonical(encode({"a": (2,), "b": 1}).plain)
    assert canonical(encode({1: 1}).plain) != canonical(encode({"1": 1}).plain)
