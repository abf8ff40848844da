"""What ``--expect``, ``--never`` and ``--times`` say."""

from __future__ import annotations

import pytest

from stepfork._calls import Call, Criterion, Outcome, Run
from stepfork._verdict.criterion import call_pattern, read_criterion
from stepfork._verdict.judge import judge_criterion
from stepfork.errors import OptionError


def a_run(*calls: Call) -> Run:
    """Return a run that denied what it was asked for."""
    root = Call("step", "handle", "handle#1", {}, Outcome("returned", {"status": "denied"}), list(calls))
    return Run("0", "handle", root)


def refund(number: int, order_id: str, amount: object = 1) -> Call:
    """Return one call of a tool."""
    return Call(
        "tool",
        "refund",
        f"handle#1/refund#{number}",
        {"order_id": order_id, "amount": amount},
        Outcome("returned"),
    )


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('status="refunded"', "status", "refunded"),
        ('note="a=b"', "note", "a=b"),
        ("items[0].total=120", "items[0].total", 120),
        ("$.output.items[?@.id==7].total=120", "$.output.items[?@.id==7].total", 120),
        ('result={"a": null}', "result", {"a": None}),
    ],
)
def test_an_expectation_is_a_path_and_a_value(text: str, path: str, value: object) -> None:
    """The first equals sign after which JSON stands parts them."""
    assert read_criterion([text], [], []).expect == {path: value}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((["status=refunded"], [], []), """status="refunded\""""),
        ((["status"], [], []), "PATH=JSON"),
        ((["items[=1"], [], []), "no JSONPath"),
        (([], [], ["refund"]), "TOOL=N"),
        (([], [], ["refund=many"]), "TOOL=N"),
        (([], ["refund(7)"], []), "by name"),
        (([], ["refund(order_id="], []), "does not name a call"),
        (([], ["refund(order_id=os.remove('x'))"], []), "does not name a call"),
    ],
)
def test_an_option_that_does_not_fit_is_named(
    options: tuple[list[str], list[str], list[str]], says: str
) -> None:
    """The message shows the form that it should have."""
    with pytest.raises(OptionError) as raised:
        read_criterion(*options)
    assert says in str(raised.value)


def test_a_call_may_be_meant_with_its_arguments() -> None:
    """Python's words and JSON's are understood, a plain name means every call."""
    assert call_pattern("refund") == ("refund", {})
    assert call_pattern('refund(order_id="A-17", amount=null, all=True)') == (
        "refund",
        {"order_id": "A-17", "amount": None, "all": True},
    )


@pytest.mark.parametrize(
    ("criterion", "reason"),
    [
        (Criterion(never=('refund(order_id="A-17")',)), 'refund(order_id="A-17") was called'),
        (Criterion(never=('refund(order_id="A-19")',)), ""),
        (Criterion(times={'refund(order_id="A-18")': 2}), "was called 1 time, expected 2"),
        (Criterion(times={'refund(order_id="A-18", amount=2.5)': 1}), ""),
        (Criterion(times={"refund": 2}), ""),
        (Criterion(expect={"status": "denied"}), ""),
        (Criterion(expect={"status": "refunded"}), 'status is "denied", expected "refunded"'),
        (Criterion(expect={"no.such": 1}), "not there"),
    ],
)
def test_a_run_is_judged_by_it(criterion: Criterion, reason: str) -> None:
    """Calls count only where the arguments that were named are equal."""
    judgement = judge_criterion(criterion, a_run(refund(1, "A-17"), refund(2, "A-18", 2.5)))
    assert reason in judgement.reason
    assert judgement.finding == ("shown" if reason else "gone")
