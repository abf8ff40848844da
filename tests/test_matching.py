"""How a call finds its recorded outcome, rule by rule."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import stepfork
from properties import thoroughly
from replays import made, record, rerun, stops
from stepfork import tolerance

_replies: Iterator[int] = itertools.count()


@stepfork.tool
def look(key: Any) -> str:
    return f"{key}:{next(_replies)}"


@stepfork.tool
def search(key: Any) -> str:
    return f"found {key}:{next(_replies)}"


@stepfork.model
def ask(prompt: str) -> str:
    return f"reply to {prompt}"


@stepfork.step
def plan(*keys: Any) -> list[str]:
    return [look(key) for key in keys]


@stepfork.step(name="think")
def renamed_plan(*keys: Any) -> list[str]:
    return [look(key) for key in keys]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_equal_calls_are_served_in_recorded_order(path: Path) -> None:
    """The n-th equal call gets the n-th outcome (B25)."""
    before = record(path, lambda: [look("a"), look("a"), look("b"), look("a")])
    run = stepfork.replay(path, lambda: [look("a"), look("b"), look("a"), look("a")])
    assert run.result == [before[0], before[2], before[1], before[3]]
    assert run.unused == []
    assert run.frontiers == []


def test_a_call_in_a_renamed_step_is_served_and_reported_as_moved(path: Path) -> None:
    """The same call elsewhere in the recording answers where this parent had none."""
    run = rerun(path, lambda: renamed_plan("a", "a"), lambda: plan("a", "a"))
    assert [call.moved_from for call in made(run)] == ["test#1/plan#1/look#1", "test#1/plan#1/look#2"]
    assert [call.address for call in made(run)] == ["test#1/think#1/look#1", "test#1/think#1/look#2"]
    assert run.unused == []
    assert run.frontiers == []


def test_a_repeat_does_not_take_the_call_of_another_step(path: Path) -> None:
    """A parent that had recorded that very call repeats it: that is a frontier, not a move."""
    run = rerun(path, lambda: (plan("a", "a"), plan("a")), lambda: (plan("a"), plan("a")))
    assert stops(run) == ["look#2"]


def test_a_parent_whose_call_was_handed_out_elsewhere_takes_another_one(path: Path) -> None:
    """A stolen call that is wanted later is made up for once, and not more often."""
    before = record(path, lambda: (plan("a"), search("x"), plan("a"), look("a")))
    run = stepfork.replay(path, lambda: (renamed_plan("a"), search("x"), plan("a"), plan("a")))
    assert run.result == (before[0], before[1], before[2], [before[3]])
    again = stepfork.replay(path, lambda: (renamed_plan("a"), plan("a"), plan("a", "a")))
    assert stops(again) == ["look#3"]


def test_the_nearest_tolerance_wins_for_a_place(path: Path) -> None:
    """The test's rule before the decorator's before the settings', whatever keys lead to the place."""
    project = '[project]\nname = "shop"\n[tool.stepfork.tolerance]\namount = "approx(abs=1000)"\n'
    (path.parent / "pyproject.toml").write_text(project, "utf-8")

    @stepfork.tool(tolerance={"$.input.amount": tolerance.approx(abs=5)})
    def pay(amount: float) -> str:
        return "paid"

    record(path, lambda: pay(100.0))
    assert stops(stepfork.replay(path, lambda: pay(104.0))) == []
    assert stops(stepfork.replay(path, lambda: pay(150.0))) == ["pay#2"]
    wide = {"amount": tolerance.approx(abs=100)}
    assert stops(stepfork.replay(path, lambda: pay(150.0), tolerance=wide)) == []


def test_a_float_within_tolerance_is_drift(path: Path) -> None:
    """Floats are equal to 1e-9 relative; JSON in a text is compared as JSON."""
    run = rerun(
        path,
        lambda: [look(0.1 + 0.2), look('{"a": 1, "b": 2}'), look([float("nan")])],
        lambda: [look(0.3), look('{"b":2,"a":1}'), look([float("nan")])],
    )
    assert [call.drifted for call in made(run)] == [True, True, False]
    assert run.frontiers == []
    assert run.unused == []


def test_a_rule_of_the_test_wins_over_that_of_the_decorator(path: Path) -> None:
    """The nearest rule decides whether arguments are equal."""

    @stepfork.tool(tolerance={"$.input.amount": tolerance.approx(abs=5)})
    def pay(amount: float) -> str:
        return f"paid {amount}"

    record(path, lambda: pay(100.0))
    assert made(stepfork.replay(path, lambda: pay(103.0)))[0].drifted
    assert stops(stepfork.replay(path, lambda: pay(109.0))) == ["pay#2"]
    strict = {"$.input.amount": tolerance.approx(abs=1)}
    assert stops(stepfork.replay(path, lambda: pay(103.0), tolerance=strict)) == ["pay#2"]


def test_a_changed_prompt_gets_the_next_reply_and_is_stale(path: Path) -> None:
    """Only a model is answered by a reply to another prompt; tools never are."""
    run = rerun(path, lambda: [ask("new"), ask("second")], lambda: [ask("first"), ask("second")])
    assert run.result == ["reply to first", "reply to second"]
    assert [view.address for view in run.stale] == ["test#1/ask#1"]
    assert stops(rerun(path.with_name("b.jsonl"), lambda: look("new"), lambda: look("old"))) == ["look#2"]


def test_a_third_model_call_after_two_recorded_ones_is_a_frontier(path: Path) -> None:
    """There is no next reply any more."""
    run = rerun(path, lambda: [ask("1"), ask("2"), ask("3")], lambda: [ask("1"), ask("2")])
    assert stops(run) == ["ask#3"]


def test_match_says_which_arguments_identify_a_call(path: Path) -> None:
    """Arguments outside match= may differ; the call is served as the same."""

    @stepfork.tool(match=("order_id",))
    def fetch(order_id: str, note: str = "") -> str:
        return f"{order_id} {note}"

    run = rerun(path, lambda: fetch("A", "now"), lambda: fetch("A", "then"))
    assert run.result == "A then"
    assert made(run)[0].moved_from is None
    assert stops(stepfork.replay(path, lambda: fetch("B", "then"))) == ["fetch#2"]


def test_an_ignored_argument_is_neither_recorded_nor_compared(path: Path) -> None:
    """A connection may be another object, or missing a repr."""

    @stepfork.tool(ignore=("conn",))
    def fetch(conn: object, key: str) -> str:
        return f"{key} of {type(conn).__name__}"

    run = rerun(path, lambda: fetch(3.5, "k"), lambda: fetch(object(), "k"))
    assert run.result == "k of object"
    assert list(made(run)[0].input) == ["key"]


def test_a_parameter_newer_than_the_recording_has_its_default_there(path: Path) -> None:
    """Adding a parameter with a default is no change; giving it another value is one."""

    def old(order_id: str) -> str:
        return order_id

    def new(order_id: str, region: str = "eu") -> str:
        return order_id + region

    was, now = stepfork.tool(old, name="fetch"), stepfork.tool(new, name="fetch")
    run = rerun(path, lambda: now("A"), lambda: was("A"))
    assert run.result == "A"
    assert run.frontiers == []
    assert stops(stepfork.replay(path, lambda: now("A", "us"))) == ["fetch#2"]


def test_constants_that_look_like_ids_are_told_apart(path: Path) -> None:
    """Two calls whose ids the code wrote as literals are no two calls with made ids."""
    first, second = "call_abcdef123456", "call_fedcba654321"
    before = record(path, lambda: [look(first), look(second)])
    assert stepfork.replay(path, lambda: [look(second), look(first)]).result == before[::-1]


def test_a_step_takes_the_address_of_the_recorded_sibling_with_equal_input(path: Path) -> None:
    """Else the lowest unused number; a further one gets a number of its own."""
    run = rerun(
        path, lambda: (plan("b"), plan("new"), plan("more")), lambda: (plan("a"), plan("b")), live={"look"}
    )
    assert [call.address for call in run.run.root.children] == [
        "test#1/plan#2",
        "test#1/plan#1",
        "test#1/plan#3",
    ]


def test_substituting_a_call_consumes_what_was_recorded_inside_it(path: Path) -> None:
    """What a tool's body called is not left over, and answers nobody else."""

    @stepfork.tool
    def outer(key: str) -> str:
        return look(key)

    run = rerun(path, lambda: outer("a"))
    assert run.unused == []
    assert stops(stepfork.replay(path, lambda: (outer("a"), look("a")))) == ["look#1"]
    assert stepfork.replay(path, lambda: look("a")).run.root.children[0].moved_from == "test#1/outer#1/look#1"


def test_a_polled_tool_goes_on_with_its_last_outcome(path: Path) -> None:
    """repeats=True: asked more or less often than recorded is no difference (B25)."""
    states = iter(["pending", "pending", "done"])

    @stepfork.tool(repeats=True)
    def poll(job: str) -> str:
        return next(states)

    record(path, lambda: [poll("j") for _ in range(3)])
    assert (
        stepfork.replay(path, lambda: [poll("j") for _ in range(5)]).result
        == ["pending", "pending"] + ["done"] * 3
    )
    assert stepfork.replay(path, lambda: poll("j")).unused == []
    assert stops(stepfork.replay(path, lambda: poll("other"))) == ["poll#4"]


def test_a_secret_taken_out_of_the_recording_matches_whatever_stands_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay runs without the keys of production, or with others."""
    monkeypatch.setenv("SHOP_API_KEY", "zq81-hemmelig-9944")
    record(path, lambda: look("Bearer zq81-hemmelig-9944"))
    assert b"hemmelig" not in path.read_bytes()
    monkeypatch.delenv("SHOP_API_KEY")
    assert stepfork.replay(path, lambda: look("Bearer nothing")).frontiers == []


_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["look", "search", "ask", "plan"]),
        st.one_of(
            st.integers(0, 2),
            st.text(max_size=2),
            st.floats(),
            st.none(),
            st.lists(st.booleans(), max_size=2),
        ),
    ),
    max_size=12,
)


def _play(calls: list[tuple[str, Any]]) -> list[Any]:
    known: dict[str, Callable[[Any], Any]] = {"look": look, "search": search, "ask": ask, "plan": plan}
    return [known[name](key) for name, key in calls]


@thoroughly(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_CALLS)
def test_the_same_agent_gets_every_outcome_and_leaves_none(calls: list[tuple[str, Any]]) -> None:
    """Any recording replayed by the agent that made it: exact, nothing unused, nothing stale."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        before = record(path, lambda: _play(calls))
        run = stepfork.replay(path, lambda: _play(calls))
    assert run.result == before
    assert run.unused == []
    assert run.stale == []
    assert run.frontiers == []
    assert not any(call.moved_from or call.drifted for call in run.run.walk())


@thoroughly(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from("aabc"), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_in_any_order_each_argument_keeps_its_own_outcomes(keys: list[str], order: random.Random) -> None:
    """Calls are found by their arguments, never by arrival."""
    shuffled = order.sample(keys, len(keys))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        before = record(path, lambda: [look(key) for key in keys])
        run = stepfork.replay(path, lambda: [look(key) for key in shuffled])
    outcomes = {
        key: iter([out for k, out in zip(keys, before, strict=True) if k == key]) for key in set(keys)
    }
    assert run.result == [next(outcomes[key]) for key in shuffled]
    assert run.unused == []
