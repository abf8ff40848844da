"""The verdict table as it is promised, and for each row the situations in which it is met."""

from __future__ import annotations

from verdict_project import Situation

# The table as it is promised: what ``pytest`` and ``pytest --snapshot-update`` do.
ROWS = {
    "another assertion of the same test failed": ("fail", "refused"),
    "stops at a frontier before its criterion can be judged": ("fail", "refused"),
    "shows the recorded failure again, or misses its criterion": ("fail", "refused"),
    "shows it again, but on stale replies": ("fail", "refused"),
    "equals the snapshot, drifts, or differs only in names and places of steps": ("pass", "moved addresses"),
    "ends badly": ("fail", "refused"),
    "has no snapshot": ("fail", "written"),
    "stops at a frontier, and the accepted run ended by itself": ("fail", "refused"),
    "stops at a frontier, and the snapshot is still the recorded failure": ("fail", "accepted"),
    "stops at another frontier than the accepted one": ("fail", "accepted"),
    "differs, and ended well": ("fail", "accepted"),
}
(OTHER, UNJUDGED, STILL, STALE, SAME, BADLY, MISSING, ENDED_ONCE, GONE_ON, ELSEWHERE, DIFFERENT) = ROWS

COMPARE = "run = replay({recording!r}, {agent})\nassert run == snapshot"
LEFT_SIDE = "run = replay({recording!r}, {agent})\nassert snapshot == run"
METHOD = "run = replay({recording!r}, {agent})\nsnapshot.assert_match(run)"

SITUATIONS = (
    Situation("assert_after", OTHER, "assert 1 == 2|failure is gone", "crash", COMPARE + "\nassert 1 == 2"),
    Situation("assert_before", OTHER, "assert 1 == 2", "crash", "assert 1 == 2\n" + COMPARE),
    Situation(
        "crash_before",
        OTHER,
        "ZeroDivisionError",
        "crash",
        "run = replay({recording!r}, {agent})\n1 / 0\nassert run == snapshot",
    ),
    Situation(
        "unjudged",
        UNJUDGED,
        r"cannot be judged: stopped at refund\(order=\"A-17\", amount=1\)",
        "deny_then_ask",
    ),
    Situation(
        "still",
        STILL,
        r"StillFailing: the recorded failure shows again: KeyError: 'amount' at crash_still#1 \(shop",
        "crash_still",
    ),
    Situation(
        "still_left", STILL, r"StillFailing: the recorded failure shows again", "crash_still", LEFT_SIDE
    ),
    Situation(
        "still_criterion", STILL, r"StillFailing: .*output is \"denied\", expected \"approved\"", "deny_still"
    ),
    Situation("still_failed", STILL, r"StillFailing: .*failed: gave up at give_up#1", "give_up"),
    Situation("still_marked", STILL, r"StillFailing: .*the same result and the same tool calls", "shrug"),
    Situation("still_renamed", STILL, r"StillFailing", "crash_still", before="still_once"),
    Situation("no_snapshot_still_failing", STILL, r"StillFailing", "crash_still"),
    Situation(
        "stale",
        STALE,
        r"cannot be judged offline: the prompt changed; --stepfork-extend makes at least 1 live call",
        "prompt_only",
    ),
    Situation("equal", SAME, "", "crash", accepted=True),
    Situation("equal_left", SAME, "", "crash", LEFT_SIDE, accepted=True),
    Situation("equal_method", SAME, "", "crash", METHOD, accepted=True),
    Situation("drift", SAME, "", "score", accepted=True),
    Situation("moved", SAME, "", "moved", accepted=True),
    Situation(
        "badly",
        BADLY,
        r"ended badly: ValueError: a new bug at crash_otherwise#1 \(shop/agent.py:\d+\)",
        "crash_otherwise",
    ),
    Situation(
        "badly_early",
        BADLY,
        r"(?s)ended badly: KeyError: 'SHOP_REGION' at crash_early#1 \(shop/agent.py:\d+\)\n"
        r".*not the recorded failure, KeyError: 'amount' at crash_early#1:\n"
        r".*0 of 1 recorded tool and model calls were made before it\n"
        r".*set SHOP_REGION, which is not set here, to what it was",
        "crash_early",
    ),
    Situation(
        "too_long",
        BADLY,
        r"took longer than 0.3 s",
        "hang",
        "assert replay({recording!r}, {agent}, timeout=0.3) == snapshot",
    ),
    Situation(
        "nothing",
        BADLY,
        r"nothing to compare",
        "crash",
        "assert replay('crash', agent.no_call if agent.FIXED else agent.crash) == snapshot",
    ),
    Situation(
        "no_snapshot", MISSING, r"no snapshot at snapshots/tests/test_shop/test_no_snapshot.yaml", "deny"
    ),
    Situation("no_snapshot_stopped", MISSING, r"no snapshot at snapshots", "goes_on"),
    Situation(
        "renamed",
        MISSING,
        r"no snapshot at .*test_renamed.yaml; the same steps are accepted in .*test_old_name.yaml",
        "crash",
        before="old_name",
        accepted=True,
    ),
    Situation(
        "ended_once",
        ENDED_ONCE,
        r"the accepted run ended by itself; now the agent stopped at refund\(order=\"A-17\", amount=120\)",
        "went_on_later",
        accepted=True,
    ),
    Situation(
        "renamed_ended_once",
        ENDED_ONCE,
        r"the accepted run ended by itself",
        "went_on_later",
        before="ended_before",
        accepted=True,
    ),
    Situation(
        "gone_on",
        GONE_ON,
        r"the recorded failure is gone; the agent went on to refund\(order=\"A-17\", amount=120\)",
        "goes_on",
    ),
    Situation(
        "elsewhere",
        ELSEWHERE,
        r"(?s)stopped at another call than accepted: refund.*- input.amount: 120\n.*\+ input.amount: 121",
        "goes_elsewhere",
        accepted=True,
    ),
    Situation(
        "different",
        DIFFERENT,
        r"(?s)behaves differently.*- output.note: \"old\"\n.*\+ output.note: \"new\"",
        "well",
    ),
    Situation("different_left", DIFFERENT, r"behaves differently", "well", LEFT_SIDE),
    Situation("different_method", DIFFERENT, r"behaves differently", "well", METHOD),
    Situation("on_stale", DIFFERENT, r"answered by replies to other prompts: reworded#1/ask#1", "reworded"),
)
