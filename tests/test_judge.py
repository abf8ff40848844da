"""Whether a run that was marked as failed from outside failed again in its replay."""

from __future__ import annotations

from stepfork._alias import Facts
from stepfork._calls import Call, Failure, Outcome, Plain, Run, Status
from stepfork._verdict.judge import judge
from stepfork.tolerance import Rules, approx


def _run(prompt: str = "Decide on T-1", how: str = "deny", result: Plain = "closed") -> Run:
    """Return a run in which the model is asked, the ticket closed, and ``result`` returned."""
    ask = Call("model", "ask", "handle#1/ask#1", {"prompt": prompt}, Outcome("returned", how))
    close = Call("tool", "close", "handle#1/close#1", {"how": how}, Outcome("returned", "closed"))
    root = Call("step", "handle", "handle#1", {}, Outcome("returned", result), children=[ask, close])
    return Run("1", "handle", root, failure=Failure("marked", message="denied"))


def _cut_off(run: Run, status: Status, *, unrecorded: bool = False) -> Run:
    """Return the run as one in which the process ended, or the replay stops, in the last call."""
    run.root.outcome = Outcome(status)
    last = run.root.children[-1]
    last.outcome, last.unrecorded = Outcome(status), unrecorded
    return run


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


def test_a_killed_run_fails_again_where_it_stops_at_the_call_that_was_under_way() -> None:
    """It has no result: a mark can only mean where it was cut off."""
    recorded = _cut_off(_run(), "killed")

    def judged(now: Run) -> str:
        return judge(recorded, now, stopped=True, facts=Facts()).finding

    assert judged(_cut_off(_run(), "stopped", unrecorded=True)) == "shown"
    assert judged(_cut_off(_run(how="refund"), "stopped", unrecorded=True)) == "gone"
    elsewhere = _cut_off(_run(), "stopped", unrecorded=True)
    elsewhere.root.children[-1].name = "reopen"
    assert judged(elsewhere) == "gone"


def test_an_interrupted_run_fails_again_wherever_the_interrupt_is_raised() -> None:
    """The line at which Ctrl-C came is another one in a replay."""

    def interrupted(at: str) -> Run:
        run = _run()
        run.root.outcome = Outcome(
            "suspended", {"$exception": "builtins:KeyboardInterrupt", "message": "", "at": at}
        )
        return run

    now = interrupted("serve.py:9")
    assert judge(interrupted("agent.py:3"), now, stopped=False, facts=Facts()).finding == "shown"


def test_a_result_within_tolerance_is_the_same_result() -> None:
    """What varies within its rule from run to run was not what was wrong with it."""
    rules = {"handle": Rules({"$.output": approx(rel=0.1)})}
    recorded = _run(result=1.0)
    near = judge(recorded, _run(result=1.05), stopped=False, facts=Facts(), rules=rules)
    far = judge(recorded, _run(result=1.5), stopped=False, facts=Facts(), rules=rules)
    assert (near.finding, far.finding) == ("shown", "gone")


def _failed(message: str, kind: str = "builtins:KeyError") -> Run:
    """Return a run that raised this at its root."""
    run = _run()
    run.failure = Failure("raised", "handle#1", kind, message)
    return run


def test_an_error_of_the_same_type_that_came_too_early_is_another() -> None:
    """It says something else, and the agent had not yet made the recorded calls."""
    recorded, unmade = _failed("'amount'"), _run().root.children

    def judged(now: Run, left: list[Call], *, stopped: bool = False) -> str:
        return judge(recorded, now, stopped=stopped, facts=Facts(), unmade=left).finding

    assert judged(_failed("'SHOP_KEY'"), unmade) == "gone"
    assert judged(_failed("'SHOP_KEY'"), unmade, stopped=True) == "unknown"
    assert judged(_failed("'SHOP_KEY'"), []) == "shown"
    assert judged(_failed("'amount'"), unmade) == "shown"
    polled = Call("tool", "poll", "handle#1/poll#1", {}, Outcome("returned", 1), repeats=True)
    assert judged(_failed("'SHOP_KEY'"), [polled]) == "shown"


def test_a_message_with_a_secret_is_the_same_with_another_one() -> None:
    """Of a recorded secret only its place is known."""
    recorded, unmade = _failed("no account for [redacted-1]****"), _run().root.children
    now = _failed("no account for no-key-in-a-replay")
    assert judge(recorded, now, stopped=False, facts=Facts(), unmade=unmade).finding == "shown"


def test_an_error_that_a_test_put_there_is_taken_for_the_recorded_one() -> None:
    """Whoever injects an error of this type knows what it stands for."""
    recorded, now = _failed("'amount'"), _failed("'injected'")
    now.root.overridden = True
    unmade = _run().root.children
    assert judge(recorded, now, stopped=False, facts=Facts(), unmade=unmade).finding == "shown"
