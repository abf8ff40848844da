"""What ``make-test`` was asked for: names and paths that the run does not have."""

from __future__ import annotations

import pytest

from stepfork._calls import Call, Criterion, Outcome, Run
from stepfork._making.wishes import Wishes, check_wishes, notes_on_paths
from stepfork.errors import CriterionMet, OptionError


def a_run() -> Run:
    """Return a run that searched twice and published."""
    calls = [
        Call("tool", name, f"handle#1/{name}#{number}", {}, Outcome("returned", None))
        for name, number in (("search", 1), ("search", 2), ("publish", 1))
    ]
    result = {"state": "done", "items": [{"total": 3}]}
    return Run("1", "handle", Call("step", "handle", "handle#1", {}, Outcome("returned", result), calls))


@pytest.mark.parametrize(
    ("criterion", "near"),
    [(Criterion(never=("publsh",)), ["publish"]), (Criterion(times={"serch": 4}), ["search"])],
)
def test_a_misspelt_tool_is_refused_with_the_name_that_was_meant(
    criterion: Criterion, near: list[str]
) -> None:
    """It was never called, so its criterion would mean nothing."""
    with pytest.raises(OptionError) as raised:
        check_wishes(a_run(), Wishes(criterion=criterion))
    assert raised.value.near == near
    assert f"did you mean {near[0]}?" in raised.value.ways_on


def test_a_tool_that_should_have_been_called_need_not_be_in_the_run() -> None:
    """One that is like no other is taken as it is, and so is any with brackets."""
    check_wishes(a_run(), Wishes(criterion=Criterion(times={"refund": 1})))
    check_wishes(a_run(), Wishes(criterion=Criterion(times={"serch()": 4})))
    with pytest.raises(CriterionMet):
        check_wishes(a_run(), Wishes(criterion=Criterion(never=("publsh()",))))


def test_a_path_that_the_recorded_result_does_not_have_is_told() -> None:
    """It may be new in the fix, or misspelt."""
    expected = Criterion(expect={"stat": "x", "items[0].totl": 3, "zzz": 1, "state": "y"})
    assert list(notes_on_paths(expected, a_run())) == [
        "stat is not in the recorded result; near: state",
        "items[0].totl is not in the recorded result; near: total",
        "zzz is not in the recorded result; there: items, state, total",
    ]
