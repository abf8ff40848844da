"""The recorded arguments of the root, fed back to the function as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepfork
from replays import record
from stepfork._calls import Call, Outcome
from stepfork._replay.root_call import root_arguments
from stepfork.errors import RootArgumentsError


def fed(function: Any, recorded: dict[str, Any], **provided: Any) -> Any:
    """Call a function with recorded and provided arguments, as a replay does."""
    root = Call("step", "handle", "handle#1", recorded, Outcome("returned"))
    args, kwargs = root_arguments(function, root, provided, lambda plain: plain)
    return function(*args, **kwargs)


def everything(a: Any, /, b: Any = 2, *rest: Any, c: Any, d: Any = 4, **more: Any) -> Any:
    return a, b, rest, c, d, more


def test_every_kind_of_parameter_gets_its_recorded_value() -> None:
    """Positional-only, variable, keyword-only and free keywords."""
    recorded = {"a": 1, "b": 20, "rest": [30, 31], "c": 3, "more": {"x": 9}}
    assert fed(everything, recorded) == (1, 20, (30, 31), 3, 4, {"x": 9})


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(), min_size=4), st.lists(st.integers()))
def test_what_a_call_had_is_what_it_gets(values: dict[str, int], rest: list[int]) -> None:
    """For any values: the call of the replay is the call that was recorded."""
    found = fed(everything, {**values, "rest": rest, "more": {}})
    assert found == (*(values[name] for name in "ab"), tuple(rest), values["c"], values["d"], {})


def test_a_new_parameter_between_recorded_ones_has_its_default() -> None:
    """A parameter that the fix added in the middle does not shift those behind it."""

    def now(a: int, added: str = "default", b: int = 0) -> Any:
        return a, added, b

    assert fed(now, {"a": 1, "b": 2}) == (1, "default", 2)


def test_what_was_not_recorded_is_handed_in() -> None:
    """By name; it also wins over what was recorded, and may go into free keywords."""

    def now(ticket: str, session: Any) -> Any:
        return ticket, session

    assert fed(now, {"ticket": "A"}, session=3) == ("A", 3)
    assert fed(now, {"ticket": "A"}, session=3, ticket="B") == ("B", 3)
    assert fed(everything, {"a": 1, "c": 3}, x=7)[-1] == {"x": 7}


@pytest.mark.parametrize(
    ("recorded", "provided", "says"),
    [
        ({"ticket": 1}, {}, "'session' was not recorded and has no default"),
        ({"ticket": 1, "gone": 2}, {"session": 3}, "no parameter 'gone' any more"),
        ({"ticket": 1}, {"session": 3, "overide": {}}, "no parameter 'overide', and replay"),
    ],
)
def test_what_does_not_fit_says_so(recorded: dict[str, Any], provided: dict[str, Any], says: str) -> None:
    """The function, the parameter, both signatures, and what to do."""

    def handle(ticket: str, session: Any) -> None: ...

    with pytest.raises(RootArgumentsError, match=says) as caught:
        fed(handle, recorded, **provided)
    assert "recorded   handle(ticket" in str(caught.value)
    assert "session: 'Any'" in str(caught.value)


def test_a_callable_without_signature_gets_what_there_is() -> None:
    """Some built-ins do not show one."""
    assert fed(dict, {"a": 1}, b=2) == {"a": 1, "b": 2}


class Agent:
    def __init__(self, name: str = "x") -> None:
        self.name = name

    @stepfork.step
    def handle(self, ticket: str, *, urgent: bool = False) -> str:
        return f"{self.name} {ticket} {urgent}"


def test_a_bound_method_is_a_root_like_any_other(tmp_path: Path) -> None:
    """What it is bound to is not recorded: it is that of the method which is handed in."""
    path = tmp_path / "run.jsonl"
    with stepfork.run("test", path=path, ticket="A", urgent=True):
        pass
    assert stepfork.replay(path, Agent("y").handle).result == "y A True"


def test_the_root_changes_arguments_without_changing_the_recording(tmp_path: Path) -> None:
    """Each replay gets its own copy, decoded from the recording."""
    path = tmp_path / "run.jsonl"

    def agent(rows: list[int]) -> int:
        rows.append(0)
        return len(rows)

    record(path, agent, rows=[1])
    assert [stepfork.replay(path, agent).result for _ in range(2)] == [2, 2]
