"""The road from a crash to a guarded fix, in strangers' projects, sync and async: exceptions.

Each is walked to its end: red for the recorded reason, fixed, the change shown, accepted, green, the
bug put back, red again; and an update never accepts the bug.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from road import Road

SHOP = """
    @stepfork.tool
    async def lookup_order(order_id, region="us"):
        ran("lookup_order")
        if region != "eu":
            return {"id": order_id, "total": 120}
        raise LookupError(f"no order {order_id} in {region}")

    @stepfork.tool
    async def refund(order_id, amount):
        ran("refund")
        return f"refunded {amount}"

    @stepfork.model
    async def ask(prompt):
        ran("ask")
        return {"action": "refund" if "refund" in prompt else "none"}
"""

FLAVOURS = pytest.mark.parametrize(
    "is_async", [pytest.param(False, id="sync"), pytest.param(True, id="async", marks=pytest.mark.slow)]
)


def crash(body: str, call: str = 'handle("A-17")') -> str:
    """Return the shop's agent with this code in it, run as a script."""
    return f"{SHOP}\n{body}\n    if __name__ == '__main__':\n        asyncio.run({call})\n"


@FLAVOURS
@pytest.mark.slow
def test_the_fix_stays_inside_the_recording(tmp_path: Path, is_async: bool) -> None:
    """A fix that asks for nothing new is replayed to its end, and guarded to its end."""
    agent = """
    @stepfork.step
    async def decide(order):
        reply = await ask(f"order {order['id']}: refund?")
        return order["amount"] if reply["action"] == "refund" else 0

    @stepfork.step
    async def handle(order_id):
        order = await lookup_order(order_id)
        return f"worth {await decide(order)}"
"""
    road = Road(tmp_path, crash(agent), is_async=is_async)
    assert "KeyError: 'amount'" in road.record().err
    made = road.make()
    assert (made["verdict"], made["reason"]) == ("still failing", "KeyError: 'amount'")
    road.refuses_the_bug("StillFailing", "KeyError: 'amount'")
    bug, fix = 'order["amount"]', 'order["total"]'
    road.change(bug, fix)
    road.is_red("decide#1", "worth 120")
    road.is_accepted("accepted")
    road.guards(bug, fix, "StillFailing")


UNRECORDED = """
    @stepfork.step
    async def decide(order):
        reply = await ask(f"order {order['id']}: refund?")
        return order["amount"] if reply["action"] == "refund" else 0

    @stepfork.step
    async def handle(order_id):
        order = await lookup_order(order_id)
        return await refund(order_id, await decide(order))
"""


@FLAVOURS
@pytest.mark.slow
def test_a_tool_that_was_never_recorded_is_accepted_as_the_end(tmp_path: Path, is_async: bool) -> None:
    """The fixed agent goes on past its recording; the test then guards up to that call."""
    road = Road(tmp_path, crash(UNRECORDED), is_async=is_async)
    road.record()
    road.make()
    road.refuses_the_bug("StillFailing")
    bug, fix = 'order["amount"]', 'order["total"]'
    road.change(bug, fix)
    road.is_red(
        "the recorded failure is gone", "refund(", "--stepfork-extend", "override", "--snapshot-update"
    )
    road.is_accepted("guards up to refund")
    assert "unrecorded: true" in road.project.read(f"snapshots/tests/test_{road.name}/test_{road.name}.yaml")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_a_tool_that_was_never_recorded_is_stubbed(tmp_path: Path, is_async: bool) -> None:
    """With an override the agent runs to its end, and all of it is guarded."""
    road = Road(tmp_path, crash(UNRECORDED), is_async=is_async)
    road.record()
    road.make()
    bug, fix = 'order["amount"]', 'order["total"]'
    road.change(bug, fix)
    road.project.replace(road.test_file(), ", handle)", ', handle, override={"refund#1": "refunded 120"})')
    road.is_red("refund#1")
    road.is_accepted("accepted")
    assert "guards" not in road.is_green().out
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_a_tool_that_was_never_recorded_is_run_once_for_an_extension(tmp_path: Path, is_async: bool) -> None:
    """The flag is the consent: the call runs live once, and is replayed offline from then on."""
    road = Road(tmp_path, crash(UNRECORDED), is_async=is_async)
    road.record()
    road.make()
    bug, fix = 'order["amount"]', 'order["total"]'
    road.change(bug, fix)
    recording = road.project.read(f"tests/recordings/{road.name}.jsonl")
    refused = road.pytest("--stepfork-extend", env={"CI": "1"})
    assert refused.code != 0
    assert road.ran() == []
    road.pytest("--stepfork-extend")
    assert road.ran() == ["refund"]
    assert road.project.read(f"tests/recordings/{road.name}.jsonl") == recording
    assert any(".ext-" in file for file in road.project.files("tests/recordings"))
    road.is_accepted("accepted")
    assert "guards" not in road.is_green().out
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_the_bug_was_a_wrong_argument_of_a_tool(tmp_path: Path, is_async: bool) -> None:
    """The corrected call was never made in the recording: it is the frontier, and the old one is unused."""
    agent = """
    @stepfork.step
    async def handle(order_id):
        order = await lookup_order(order_id, region="eu")
        return await refund(order_id, order["total"])
"""
    road = Road(tmp_path, crash(agent), is_async=is_async)
    assert "no order A-17 in eu" in road.record().err
    assert road.make()["reason"] == "LookupError: no order A-17 in eu"
    road.refuses_the_bug("StillFailing")
    bug, fix = 'region="eu"', 'region="asia"'
    road.change(bug, fix)
    road.is_red("the recorded failure is gone", "region", "eu", "asia")
    road.is_accepted("guards up to lookup_order")
    road.guards(bug, fix, "StillFailing")


RETRY = """
    CALLS = Path(__file__).parent.parent / "calls.txt"

    @stepfork.tool
    async def fetch(url):
        ran("fetch")
        if not CALLS.exists():
            CALLS.write_text("once")
            raise ConnectionError("reset by peer")
        return "the page"

    @stepfork.step
    async def handle(url):
        return len(await fetch(url))
"""
RETRIED = """\
try:
        page = await fetch(url)
    except ConnectionError:
        page = await fetch(url)
    return len(page)"""


@FLAVOURS
@pytest.mark.slow
def test_the_fix_retries_a_tool_that_raised(tmp_path: Path, is_async: bool) -> None:
    """The second attempt was never recorded: a frontier, or one that is stubbed."""
    road = Road(tmp_path, crash(RETRY, 'handle("x")'), is_async=is_async)
    road.record()
    assert road.make()["reason"] == "ConnectionError: reset by peer"
    road.refuses_the_bug("StillFailing")
    bug, fix = "return len(await fetch(url))", RETRIED
    road.change(bug, fix)
    road.is_red("the recorded failure is gone", "this is call 2", "--stepfork-extend")
    road.is_accepted("guards up to fetch")
    road.project.replace(road.test_file(), ", handle)", ', handle, override={"fetch#2": "12345"})')
    road.is_red("fetch#2")
    road.is_accepted("accepted")
    road.guards(bug, fix, "StillFailing")


@FLAVOURS
@pytest.mark.slow
def test_the_call_that_raised_is_run_live_by_its_address(tmp_path: Path, is_async: bool) -> None:
    """Where the fault was inside the tool, its body is in no replay: one live run of it shows the repair."""
    road = Road(tmp_path, crash(RETRY, 'handle("x")'), is_async=is_async)
    road.record()
    road.make()
    road.is_red("StillFailing", "--stepfork-extend=fetch#1")
    road.pytest("--stepfork-extend=fetch#1")
    assert road.ran() == ["fetch"]
    road.is_red("returned")
    road.is_accepted("accepted")


@FLAVOURS
@pytest.mark.slow
def test_the_fix_makes_fewer_calls(tmp_path: Path, is_async: bool) -> None:
    """Recorded calls that are no longer made stand in the report, and go once that is accepted (B28)."""
    agent = """
    @stepfork.step
    async def handle(order_id):
        order = await lookup_order(order_id)
        reply = await ask("anything to do?")
        if reply["action"] == "none":
            raise RuntimeError("nothing to do")
        return order["total"]
"""
    road = Road(tmp_path, crash(agent), is_async=is_async)
    road.record()
    road.make()
    road.refuses_the_bug("StillFailing")
    bug = (
        'reply = await ask("anything to do?")\n        if reply["action"] == "none":\n'
        '            raise RuntimeError("nothing to do")\n        return order["total"]'
    ).replace("\n    ", "\n")
    fix = 'return order["total"]'
    road.change(bug, fix)
    road.is_red("ask#1")
    road.is_accepted("1 call removed")
    road.change(fix, bug)
    road.is_red("StillFailing")
    road.refuses_the_renamed_test()


@FLAVOURS
@pytest.mark.slow
def test_a_renamed_step_passes(tmp_path: Path, is_async: bool) -> None:
    """Names and places of steps are no behaviour: green, the moves counted, the bug still found (F15)."""
    road = Road(tmp_path, crash(UNRECORDED), is_async=is_async)
    road.record()
    road.make()
    bug, fix = 'order["amount"]', 'order["total"]'
    road.change(bug, fix)
    road.is_accepted("guards up to refund")
    text = road.project.read("agent.py").replace("decide(", "amount_due(")
    road.project.write({"agent.py": text})
    road.is_green("moved")
    road.is_accepted("moved")
    assert "amount_due#1" in road.project.read(f"snapshots/tests/test_{road.name}/test_{road.name}.yaml")
    road.guards(bug, fix, "StillFailing")
