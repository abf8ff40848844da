"""The road from a failed run that raised nothing to a guarded fix, sync and async."""

from __future__ import annotations

from pathlib import Path

import pytest

from road import Road
from test_roads import FLAVOURS, crash

DENIED = """
    @stepfork.step
    async def handle(order_id):
        order = await lookup_order(order_id)
        reply = await ask(f"order {order['id']}: refund?")
        if reply["action"] == "refund" and order["total"] > 1000:
            return {"status": "refunded", "said": await refund(order_id, order["total"])}
        return {"status": "denied"}
"""


def run_id(road: Road) -> str:
    """Return the id of the only run that was recorded."""
    runs = road.project.stepfork("runs", "--json").json
    return str((runs["runs"] if isinstance(runs, dict) else runs)[0]["id"])


@FLAVOURS
@pytest.mark.slow
def test_a_wrong_answer_is_judged_by_its_criterion(tmp_path: Path, is_async: bool) -> None:
    """What is expected of the result keeps the test red until the agent, run to its end, shows it."""
    road = Road(tmp_path, crash(DENIED), is_async=is_async)
    assert road.record().code == 0
    run = run_id(road)
    met = road.try_make(run, "--expect", 'status="denied"')
    assert met.code == 2, met
    assert met.json["error"]["code"] == "SF403"
    made = road.make(run, "--expect", 'status="refunded"', "--times", "refund=1", "--name", "denied")
    assert 'status is "denied", expected "refunded"' in made["reason"]
    assert "refund was called 0 times, expected 1" in made["reason"]
    road.refuses_the_bug("StillFailing")
    bug, fix = "> 1000", "> 100"
    road.change(bug, fix)
    road.is_red("cannot be judged: stopped at refund(")
    refused = road.pytest("--snapshot-update")
    assert (refused.code, road.ran()) == (1, [])
    road.pytest("--stepfork-extend")
    assert road.ran() == ["refund"]
    road.is_accepted("accepted")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_a_tool_that_must_never_be_called_keeps_the_test_red(tmp_path: Path, is_async: bool) -> None:
    """A ban may name the arguments it is about, and is judged on what was asked."""
    road = Road(tmp_path, crash(DENIED.replace("> 1000", "> 100")), is_async=is_async)
    road.record()
    run = run_id(road)
    assert road.try_make(run, "--never", 'refund(order_id="A-18")').code == 2
    made = road.make(run, "--never", 'refund(order_id="A-17", amount=120)', "--name", "refunded")
    assert made["reason"] == 'refund(order_id="A-17", amount=120) was called'
    road.refuses_the_bug("StillFailing")
    bug, fix = "> 100", "> 1000"
    road.change(bug, fix)
    road.is_red("denied")
    road.is_accepted("1 call removed")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_a_run_marked_from_outside_needs_no_criterion(tmp_path: Path, is_async: bool) -> None:
    """Without one the same result and the same tool calls are the failure; any other counts as a fix."""
    road = Road(tmp_path, crash(DENIED), is_async=is_async)
    road.record()
    marked = road.project.stepfork("fail", run_id(road), "--reason", "denied an eligible refund")
    assert marked.code == 0, marked
    made = road.make()
    assert any("any change of the result" in note for note in made["notes"])
    assert "denied an eligible refund" in road.project.read(road.test_file())
    road.refuses_the_bug("StillFailing", "the same result")
    bug, fix = "> 1000", "> 100"
    road.change(bug, fix)
    road.is_red("the recorded failure is gone", "refund(")
    road.is_accepted("guards up to refund")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_a_changed_prompt_is_judged_after_one_live_run(tmp_path: Path, is_async: bool) -> None:
    """Offline the old replies show the old failure; one live run of the model, and it is green offline."""
    agent = """
    @stepfork.step
    async def handle(order_id):
        order = await lookup_order(order_id)
        reply = await ask(f"order {order['id']}: what to do?")
        if reply["action"] == "none":
            stepfork.fail("denied an eligible refund")
        return reply["action"]
"""
    road = Road(tmp_path, crash(agent), is_async=is_async)
    road.record()
    made = road.make()
    assert made["reason"] == "failed: denied an eligible refund"
    road.refuses_the_bug("StillFailing")
    bug, fix = "what to do?", "is a refund due?"
    road.change(bug, fix)
    road.is_red("cannot be judged offline: the prompt changed", "at least 1 live call")
    refused = road.pytest("--snapshot-update")
    assert (refused.code, road.ran()) == (1, [])
    road.pytest("--stepfork-extend")
    assert road.ran() == ["ask"]
    road.is_accepted("accepted")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_a_run_that_was_killed_is_guarded_up_to_that_call(tmp_path: Path, is_async: bool) -> None:
    """A process that SIGKILL ended in a tool has no failure: green up to there, and on with an override."""
    agent = """
    import os
    import signal

    @stepfork.tool
    async def charge(amount):
        ran("charge")
        os.kill(os.getpid(), signal.SIGKILL)

    @stepfork.step
    async def handle(order_id):
        order = await lookup_order(order_id)
        return f"charged {await charge(order['total'])}"
"""
    road = Road(tmp_path, crash(agent), is_async=is_async)
    assert road.record().code == -9
    run = run_id(road)
    made = road.make(run)
    assert made["stopped"] == ["handle#1/charge#1"]
    assert "was killed" in road.project.read(road.test_file())
    road.is_green("guards only part")
    right, wrong = "order['total']", "order['total'] + 1"
    road.change(right, wrong)
    road.is_red("charge", "121")
    road.change(wrong, right)
    road.project.replace(road.test_file(), ", handle)", ', handle, override={"charge#1": "all"})')
    road.is_red("charged all")
    road.is_accepted("accepted")
    assert "guards" not in road.is_green().out
    road.change(right, wrong)
    road.is_red("121")


FALLBACK = """
    @stepfork.step
    async def decide(order):
        reply = await ask(f"order {order['id']}: refund?")
        return order["amount"] if reply["action"] == "refund" else 0

    @stepfork.step
    async def handle(order_id):
        try:
            order = await lookup_order(order_id)
            return await refund(order_id, await decide(order))
        except Exception:
            return "sorry, try again later"
"""


@FLAVOURS
@pytest.mark.slow
def test_an_agent_that_catches_everything_is_marked_in_its_code(tmp_path: Path, is_async: bool) -> None:
    """The failure is the call of stepfork.fail; its own except does not swallow the frontier (B27)."""
    marked = FALLBACK.replace('return "sorry', 'stepfork.fail("gave up")\n            return "sorry')
    road = Road(tmp_path, crash(marked), is_async=is_async)
    assert road.record().code == 0
    assert road.make()["reason"] == "failed: gave up"
    road.refuses_the_bug("StillFailing", "gave up")
    bug, fix = 'order["amount"]', 'order["total"]'
    road.change(bug, fix)
    road.is_red("the recorded failure is gone", "refund(")
    road.is_accepted("guards up to refund")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_an_agent_that_catches_everything_is_marked_from_outside(tmp_path: Path, is_async: bool) -> None:
    """A caught exception is no failure by itself: somebody says that the run was one (B27)."""
    road = Road(tmp_path, crash(FALLBACK), is_async=is_async)
    road.record()
    run = run_id(road)
    road.project.stepfork("fail", run, "--reason", "gave up")
    road.make()
    road.refuses_the_bug("StillFailing")
    bug, fix = 'order["amount"]', 'order["total"]'
    road.change(bug, fix)
    road.is_red("the recorded failure is gone", "refund(")
    road.is_accepted("guards up to refund")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_a_failure_that_does_not_come_back_makes_no_test(tmp_path: Path, is_async: bool) -> None:
    """The message names the call where the replay first parted from the run, and no file is written."""
    agent = """
    SEEN = Path(__file__).parent.parent / "seen.txt"

    @stepfork.step
    async def decide(order, is_first):
        return order["amount"] if is_first else order["total"]

    @stepfork.step
    async def handle(order_id):
        is_first = not SEEN.exists()
        SEEN.touch()
        order = await lookup_order(order_id)
        return await decide(order, is_first)
"""
    road = Road(tmp_path, crash(agent), is_async=is_async)
    road.record()
    before = road.project.files()
    folders = sorted(path for path in road.project.root.rglob("*") if path.is_dir())
    result = road.try_make()
    assert result.code == 3, result
    error = result.json["error"]
    assert (error["code"], error["what"]) == ("SF401", "the recorded failure did not come back")
    assert any("handle#1/decide#1" in text and "is_first" in text for _, text in error["detail"])
    assert road.project.files() == before
    assert sorted(path for path in road.project.root.rglob("*") if path.is_dir()) == folders
