"""Whether a run that was marked as failed from outside failed again in its replay."""

from __future__ import annotations

from stepfork._alias import Facts
from stepfork._calls import Call, Failure, Outcome, Plain, Run
from stepfork._verdict.judge import judge


def _run(prompt: str = "Decide on T-1", how: str = "deny", result: Plain = "closed") -> Run:
    """Return a run in which the model is asked, the ticket closed, and ``result`` returned."""
    ask = Call("model", "ask", "handle#1/ask#1", {"prompt": prompt}, Outcome("returned", how))
    close = Call("tool", "close", "handle#1/close#1", {"how": how}, Outcome("returned", "closed"))
    root = Call("step", "handle", "handle#1", {}, Outcome("returned", result), children=[ask, close])
    return Run("1", "handle", root, failure=Failure("marked", message="denied"))


def _finding(now: Run, *, stopped: bool = False) -> str:
    return judge(_run(), now, stopped=stopped, facts=Facts()).finding


def test_the_same_result_and_tool_calls_are_the_failure_again() -> None:
    """Nothing else tells what was wrong with the run."""
    assert _finding(_run()) == "shown"


def test_another_prompt_alone_is_no_fix() -> None:
    """The agent did the same, whatever words it asked the model in."""
    assert _finding(_run(prompt="Kindly decide on T-1")) == "shown"


def test_another_tool_call_or_another_result_is_a_fix() -> None:
    """Either may be what was wrong."""
    assert _finding(_run(how="refund")) == "gone"
    assert _finding(_run(result="refunded")) == "gone"


def test_a_run_that_stopped_before_its_end_no_longer_fails_as_it_did() -> None:
    """The recording answers whatever the recorded run did: what it cannot answer is new."""
    assert _finding(_run(), stopped=True) == "gone"
