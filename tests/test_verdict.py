"""The verdict table as a pure function: of every case there is exactly one row, and the first that fits."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfork._verdict.judge import Finding
from stepfork._verdict.table import TABLE, Accepted, Case, Likeness, RowName, decide

CASES = st.builds(
    Case,
    other_assertion_failed=st.booleans(),
    stopped=st.booleans(),
    finding=st.sampled_from(get_args(Finding)),
    stale=st.booleans(),
    accepted=st.sampled_from(get_args(Accepted)),
    likeness=st.sampled_from(get_args(Likeness)),
    ended_badly=st.booleans(),
)

# As it is promised: what ``pytest`` and ``pytest --snapshot-update`` do, in this order.
DESIGN = (
    ("another assertion failed", "fail", "refuse"),
    ("cannot be judged: stopped", "fail", "refuse"),
    ("still failing", "fail", "refuse"),
    ("cannot be judged: stale", "fail", "refuse"),
    ("as accepted", "pass", "pass"),
    ("as it failed", "fail", "refuse"),
    ("ended badly", "fail", "refuse"),
    ("no snapshot", "fail", "accept"),
    ("stopped, but ended once", "fail", "refuse"),
    ("failure gone, stopped", "fail", "accept"),
    ("stopped elsewhere", "fail", "accept"),
    ("different", "fail", "accept"),
)


def test_the_table_is_the_one_that_is_promised() -> None:
    """The rows stand in their order, each with what it decides."""
    assert tuple((row.name, row.check, row.update) for row in TABLE) == DESIGN
    assert {row.name for row in TABLE} == set(get_args(RowName))


@given(case=CASES)
def test_the_first_row_that_fits_decides(case: Case) -> None:
    """No case is without a row, and no later row overrules an earlier one."""
    row = decide(case)
    position = TABLE.index(row)
    assert row.fits(case)
    assert not any(earlier.fits(case) for earlier in TABLE[:position])


def test_every_row_decides_some_case() -> None:
    """No row is hidden by those above it."""
    every = product(
        (False, True),
        (False, True),
        get_args(Finding),
        (False, True),
        get_args(Accepted),
        get_args(Likeness),
        (False, True),
    )
    assert {decide(Case(*values)).name for values in every} == {row.name for row in TABLE}


@given(case=CASES)
def test_a_test_that_fails_elsewhere_is_never_accepted(case: Case) -> None:
    """Another assertion of the same test that fails refuses every update."""
    row = decide(case._replace(other_assertion_failed=True))
    assert (row.check, row.update) == ("fail", "refuse")


@given(case=CASES)
def test_the_recorded_failure_is_never_accepted(case: Case) -> None:
    """Whatever the snapshot holds and however the replay ended: the bug neither passes nor is written."""
    row = decide(case._replace(finding="shown"))
    assert (row.check, row.update) == ("fail", "refuse")


@given(case=CASES)
def test_what_passes_is_like_the_snapshot(case: Case) -> None:
    """Green needs a snapshot, and nothing but drift and other places of steps."""
    row = decide(case)
    if row.check == "pass":
        assert case.accepted in ("stopped", "ended")
        assert case.likeness != "different"
        assert not (case.stopped and case.accepted == "ended")
        assert case.finding in ("gone", "none") or (case.finding == "unknown" and not case.stopped)


@given(case=CASES)
def test_an_accepted_end_is_not_given_up_for_a_frontier(case: Case) -> None:
    """Once a run has ended by itself, a replay that stops early is never accepted."""
    row = decide(case._replace(accepted="ended", stopped=True))
    assert (row.check, row.update) == ("fail", "refuse")


@given(case=CASES)
def test_what_is_like_the_recorded_failure_is_neither_green_nor_accepted(case: Case) -> None:
    """Where nothing differs from the run that failed, nothing was mended."""
    row = decide(case._replace(accepted="recorded failure", likeness="equal"))
    assert (row.check, row.update) == ("fail", "refuse")


@given(case=CASES)
def test_what_ends_badly_is_not_accepted(case: Case) -> None:
    """An exception that nobody expects, or a time limit, is written to no snapshot."""
    row = decide(case._replace(ended_badly=True))
    assert row.update != "accept"


@pytest.mark.parametrize("accepted", get_args(Accepted))
def test_a_frontier_is_accepted_unless_a_run_has_ended(accepted: Accepted) -> None:
    """What stops past the recorded failure may be accepted; what had ended by itself may not."""
    case = Case(stopped=True, finding="gone", accepted=accepted, likeness="different")
    assert decide(case).update == ("refuse" if accepted == "ended" else "accept")
