"""Two documents side by side: what is paired, what differs, and in which order it was seen."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given

from documents import document_of, raised, returned, roots, step, tool
from properties import thoroughly
from stepfork._calls import Call, Outcome
from stepfork._compare import compare as _compare
from stepfork._compare.compare import Comparison
from stepfork._verdict.align import Alignment, align, keep_drifted
from stepfork._verdict.document import walk
from stepfork._verdict.report import coloured, difference_lines
from stepfork.tolerance import Rules, approx


def between(old: Call, new: Call, **rules: Rules) -> Alignment:
    """Align the documents of two runs."""
    return align(document_of(old), document_of(new), rules)


def lines(alignment: Alignment) -> list[str]:
    """Return what a report shows of the differences."""
    return list(difference_lines(alignment))


@thoroughly(40)
@given(root=roots())
def test_a_run_is_aligned_with_itself(root: Call) -> None:
    """Equal documents have no difference of any kind."""
    made = document_of(root)
    alignment = align(made, copy.deepcopy(made))
    assert alignment.within
    assert (alignment.moved, alignment.drift, alignment.summary(), lines(alignment)) == ([], 0, "", [])


@thoroughly(40)
@given(old=roots(), new=roots())
def test_no_difference_between_two_runs_is_lost(old: Call, new: Call) -> None:
    """What is found to be the same is the same, whatever the two runs are."""
    left, right = document_of(old), document_of(new)
    alignment = align(left, right)
    if alignment.within and not (alignment.moved or alignment.drifted):
        assert left == right
    assert bool(lines(alignment)) == bool(alignment.moved or not alignment.within)


def test_a_changed_value_is_found_at_its_path() -> None:
    """Only what differs inside a value is shown."""
    old = step("handle#1", tool("refund#1", order={"id": "A-17", "amount": 120}))
    new = step("handle#1", tool("refund#1", order={"id": "A-17", "amount": 121}))
    assert lines(between(old, new)) == [
        "  handle#1/refund#1",
        "    - input.order.amount: 120",
        "    + input.order.amount: 121",
    ]


def test_fields_of_an_object_are_named_without_the_codecs_own_steps() -> None:
    """The path is that of the user's value."""
    old, new = (
        step("handle#1", order={"$object": "shop:Order", "state": {"total": {"$tuple": [total, 1]}}})
        for total in (1, 2)
    )
    assert lines(between(old, new))[1] == "    - input.order.total[0]: 1"


def test_the_first_divergence_is_marked_and_told_apart_from_what_came_after() -> None:
    """A step's output is seen after what it called, so the caller is not the first (B28)."""
    old = step(
        "handle#1", step("decide#1", outcome=returned(120)), tool("refund#1", n=120), outcome=returned("a")
    )
    new = step(
        "handle#1", step("decide#1", outcome=returned(0)), tool("refund#1", n=0), outcome=returned("b")
    )
    assert [line for line in lines(between(old, new)) if not line.startswith("    ")] == [
        "  handle#1/decide#1   <- first divergence",
        "  and what came after it:",
        "  handle#1/refund#1",
        "  handle#1",
    ]


def test_a_call_that_is_not_made_any_more_stands_where_it_would_have_been() -> None:
    """A missing call is the first divergence where nothing before it differs (B28)."""
    old = step("handle#1", tool("check#1"), tool("refund#1", n=1), tool("note#1", text="a"))
    new = step("handle#1", tool("check#1"), tool("note#1", text="b"))
    assert lines(between(old, new))[:2] == [
        "  handle#1/refund#1   <- first divergence",
        "    - tool refund#1(n=1)",
    ]


def test_another_ending_is_one_change() -> None:
    """A step that raises where it returned says so in one line."""
    alignment = between(
        step("handle#1", outcome=returned(1)), step("handle#1", outcome=raised("KeyError", "'a'"))
    )
    assert lines(alignment) == [
        "  handle#1",
        "    - output: 1",
        "    + raised KeyError: 'a'",
        "  outcome",
        "    - returned",
        "    + raised KeyError: 'a' at handle#1",
    ]
    assert alignment.summary() == "1 value, another outcome"


def test_a_renamed_step_is_moved_and_what_it_called_is_paired_with_it() -> None:
    """Only names and places differ, and the move is told once."""
    old = step("handle#1", step("plan#1", tool("look#1", key="A")))
    new = step("handle#1", step("plan_better#1", tool("look#1", key="A")))
    alignment = between(old, new)
    assert alignment.within
    assert lines(alignment) == ["  moved: handle#1/plan#1 -> handle#1/plan_better#1"]


def test_a_renamed_step_hides_no_other_order_of_its_calls() -> None:
    """The calls of a moved step still have an order to keep."""
    calls = [tool("look#1", key="A"), tool("refund#1", n=1)]
    old = step("handle#1", step("plan#1", *calls))
    new = step("handle#1", step("plan_better#1", tool("refund#1", n=1), tool("look#1", key="A")))
    assert between(old, new).reordered == ["handle#1/plan_better#1/look#1"]


def test_a_renamed_tool_is_no_move() -> None:
    """Another tool is another behaviour."""
    alignment = between(step("handle#1", tool("refund#1", n=1)), step("handle#1", tool("delete#1", n=1)))
    assert not alignment.within
    assert alignment.summary() == "1 call added, 1 call removed"


def test_a_second_equal_call_is_seen() -> None:
    """A double refund is a call too many (B66)."""
    old = step("handle#1", tool("refund#1", n=1))
    new = step("handle#1", tool("refund#1", n=1), tool("refund#2", n=1))
    assert between(old, new).summary() == "1 call added"


def test_drift_within_a_rule_is_counted_and_keeps_its_old_reference() -> None:
    """Tolerance never ratchets: the document to be written has the old value."""
    rules = Rules({"score": approx(rel=0.1)})
    old, new = (document_of(step("rate#1", outcome=returned({"score": score}))) for score in (1.0, 1.05))
    alignment = align(old, new, {"rate": rules})
    assert alignment.within
    assert alignment.drift == 1
    assert keep_drifted(new, alignment) == old


def test_drift_beside_a_change_keeps_its_reference_too() -> None:
    """An update that accepts a change does not move what only drifted."""
    rules = Rules({"score": approx(rel=0.1)})
    old = document_of(step("rate#1", outcome=returned({"score": 1.0, "name": "a"})))
    new = document_of(step("rate#1", outcome=returned({"score": 1.05, "name": "b"})))
    kept = keep_drifted(new, align(old, new, {"rate": rules}))
    assert kept["calls"][0]["output"] == {"score": 1.0, "name": "b"}
    assert new["calls"][0]["output"]["score"] == 1.05


def test_another_tolerance_is_a_change_to_be_reviewed() -> None:
    """Loosening a rule does not pass by itself."""
    made = document_of(step("rate#1", outcome=returned({"score": 1.0})))
    loosened = {**made, "rules": {"rate": {"score": "anything()"}}}
    alignment = align({**made, "rules": {"rate": {"score": "approx(rel=0.1)"}}}, loosened)
    assert not alignment.within
    assert lines(alignment) == [
        "  tolerance",
        "    - rate: score approx(rel=0.1)",
        "    + rate: score anything()",
    ]


def test_a_move_of_the_frontier_alone_is_no_other_outcome() -> None:
    """The outcome names addresses, and they follow a renamed step."""

    def stopped(inner: str) -> Call:
        call = tool("refund#1", Outcome("stopped"), n=1)
        call.unrecorded = True
        return step("handle#1", step(inner, call, outcome=Outcome("stopped")), outcome=Outcome("stopped"))

    assert between(stopped("plan#1"), stopped("plan_better#1")).within


def test_a_value_that_was_not_compared_in_full_is_not_called_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the time was up before a difference was found, the report says so."""
    monkeypatch.setattr(_compare, "compare", lambda *_: Comparison([], [], {}, truncated=True))
    alignment = between(step("handle#1", n=1), step("handle#1", n=2))
    assert not alignment.within
    assert lines(alignment) == ["  handle#1", "    not compared in full: too large, or out of time"]


def test_long_text_is_shown_line_by_line() -> None:
    """Of a long prompt only the lines that differ are shown, each by its sign."""
    prompt = "\n".join(f"rule {number}" for number in range(50))
    old, new = (step("handle#1", prompt=text) for text in (prompt, prompt.replace("rule 25", "be kind")))
    assert lines(between(old, new)) == [
        "  handle#1",
        "    input.prompt:",
        "        rule 24",
        "      - rule 25",
        "      + be kind",
        "        rule 26",
    ]


def test_a_long_value_is_shown_where_it_differs() -> None:
    """What two long lines have in common hides nothing of what they do not."""
    old, new = (step("handle#1", note=f"{'x' * 400}{end}") for end in ("denied", "granted"))
    _, before, after = lines(between(old, new))
    assert before.endswith('denied"')
    assert after.endswith('granted"')
    assert max(len(before), len(after)) < 130


def test_recorded_control_characters_do_not_reach_the_terminal() -> None:
    """An escape sequence in a recorded value is shown, not obeyed."""
    old, new = (step("handle#1", text=f"\x1b[2J{end}\r\n") for end in "ab")
    text = "\n".join(lines(between(old, new)))
    assert text.replace("\n", "").isprintable()


def test_colours_tell_the_two_sides_apart() -> None:
    """On a terminal what was accepted is red and what is now is green; the rest stays as it is."""
    text = coloured("  a#1   <- first divergence\n    - x: 1\n    + x: 2\nplain")
    assert text.splitlines() == [
        "  a#1   \033[0;1;33m<- first divergence\033[0m",
        "\033[0;31m    - x: 1\033[0m",
        "\033[0;32m    + x: 2\033[0m",
        "plain",
    ]


def test_the_order_of_addresses_does_not_matter_for_what_is_added() -> None:
    """Every call of the new run is either paired or added."""
    old = step("handle#1", step("a#1"), tool("x#1", k=1))
    new = step("handle#1", step("b#1", tool("y#1", k=2)), tool("x#1", k=1))
    alignment = between(old, new)
    addresses = {address for address, _ in walk(document_of(new)["calls"])}
    assert {address for address, _ in alignment.added} <= addresses
    assert alignment.summary() == "1 call added, 1 call moved"
