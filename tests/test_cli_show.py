from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project import Project, clean_environment
from sample_runs import KEY_ERROR, killed, raised, returned, write_journal
from stepfork._calls import Plain, Usage
from stepfork._events import CallEnded, CallStarted, Event, RunEnded, RunMarked
from stepfork.cli._terminal import Span, cells, clean, columns, cut, cut_start
from stepfork.cli._values import pretty, short
from stepfork.cli._words import tokens

ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def runs(project: Project) -> Path:
    """The folder of the runs of the scratch project."""
    return project.root / ".stepfork" / "runs"


def one_call(value: Plain, **arguments: Plain) -> list[Event]:
    """Return the events of a run of one call."""
    return [
        CallStarted("handle#1", "step", arguments),
        CallEnded("handle#1", "returned", value, at=1),
        RunEnded(1),
    ]


def on_a_terminal(project: Project, *arguments: str, **env: str) -> str:
    """Return what a command prints to a terminal of 100 columns."""
    controller, terminal = pty.openpty()
    environment = {**clean_environment(project.root), "COLUMNS": "100", "TERM": "xterm-256color", **env}
    if "NO_COLOR" not in env:
        del environment["NO_COLOR"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stepfork", *arguments],
        cwd=project.root,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    printed = b""
    while chunk := _read(controller):
        printed += chunk
    os.close(controller)
    process.wait(timeout=30)
    return printed.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux: nobody has the other side open any more
        return b""


def test_the_tree_has_one_line_a_call_and_marks_the_one_that_failed(project: Project, runs: Path) -> None:
    """Kind, input, outcome and duration stand in columns; the exception stands below its call."""
    write_journal(runs, "3f2a9c01bd", raised())
    shown = project.stepfork("show", "3f2", env={"COLUMNS": "100"})
    assert shown.code == 0, shown
    assert shown.out == (
        "handle  3f2a9c01bd  raised KeyError\n"
        "5 calls in 1.2 s, 3 min ago, .stepfork/runs/3f2a9c01bd.jsonl\n"
        "\n"
        'step   handle#1(ticket=Ticket(order_id="A-17"))   raised KeyError               1.2 s\n'
        'tool   ├─ lookup_order#1(order_id="A-17", regio…  raised TimeoutError: order…  312 ms\n'
        'tool   ├─ lookup_order#2(order_id="A-17", regio…  {"id": "A-17", "items": [{…   10 ms\n'
        'model  ├─ ask#1(messages=[{"role": "user", "con…  "approve"                     1.2 s\n'
        'step   └─ decide#1(order={"id": "A-17", "items"…  raised KeyError               10 ms'
        "  ◀ failed here\n"
        "             KeyError: 'amount'\n"
        "\n"
        "one call in full: stepfork show 3f2 decide#1\n"
        "a test of it:     stepfork make-test 3f2\n"
    )


def test_tokens_stand_in_the_heading_and_behind_each_model_call(project: Project, runs: Path) -> None:
    """In short in the tree, exact where the call is shown in full; a narrow terminal has no room for it."""
    write_journal(runs, "3f2a9c01bd", raised(Usage(12_400, 312, 1000)))
    shown = project.stepfork("show", env={"COLUMNS": "120"}).out
    assert shown.splitlines()[1] == (
        "5 calls in 1.2 s, 12k tokens in (1.0k cached), 312 out, 3 min ago, .stepfork/runs/3f2a9c01bd.jsonl"
    )
    told = [line for line in shown.splitlines() if line.endswith("1.2 s  12k in, 312 out")]
    assert [line.split()[2].partition("(")[0] for line in told] == ["ask#1"]
    assert max(map(cells, shown.splitlines())) <= 120
    assert "312 out" not in project.stepfork("show", env={"COLUMNS": "70"}).out.partition("bd.jsonl")[2]
    in_full = project.stepfork("show", "3f2", "ask").out.splitlines()
    assert in_full[:3] == [
        "model handle#1/ask#1",
        "returned in 1.2 s",
        "12,400 tokens in (1,000 of them from a cache), 312 out",
    ]


def test_tokens_are_given_to_programs_once_for_the_run_and_for_each_call(
    project: Project, runs: Path
) -> None:
    """What a call did not tell is null, and no zero."""
    write_journal(runs, "1111111111", raised(Usage(1240, 312)))
    used = {"input": 1240, "output": 312, "cached": 0}
    document = project.stepfork("show", "--json").json
    assert document["usage"] == used
    assert [call["usage"] for call in document["calls"]] == [None, None, None, used, None]
    assert not any("usage" in call["outcome"] for call in document["calls"])
    write_journal(runs, "2222222222", raised(), minutes_ago=1)
    assert project.stepfork("show", "--json").json["usage"] is None
    assert "tokens" not in project.stepfork("show").out


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (9949, "9.9k"),
        (9950, "10k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_500_000_000, "1.5B"),
        (7 * 10**12, "7000B"),
    ],
)
def test_tokens_are_rounded_to_two_digits_that_matter(number: int, text: str) -> None:
    """A list is there to be looked over."""
    assert tokens(Usage(number, 1)) == f"{text} in, 1 out"


def test_the_last_failed_run_is_shown_where_none_is_named(project: Project, runs: Path) -> None:
    """Newer runs that did not fail are passed over."""
    write_journal(runs, "1111111111", raised(), minutes_ago=30)
    write_journal(runs, "2222222222", raised(), minutes_ago=20)
    write_journal(runs, "3333333333", killed(), minutes_ago=10)
    assert project.stepfork("show", "--json").json["id"] == "2222222222"


def test_a_call_without_its_run_is_told_how_it_is_named(project: Project, runs: Path) -> None:
    """A tree of calls is on the screen; what stands there is typed first."""
    write_journal(runs, "1111111111", raised())
    refused = project.stepfork("show", "lookup_order#1")
    assert (refused.code, "stepfork show RUN 'lookup_order#1'" in refused.err) == (3, True), refused


def test_a_killed_run_shows_where_its_process_ended(project: Project, runs: Path) -> None:
    """All calls under way were killed; the mark stands at the innermost."""
    write_journal(runs, "1111111111", killed(), torn=b'{"event":"end","call":"han')
    shown = project.stepfork("show", "1").out
    assert [line for line in shown.splitlines() if "killed here" in line] == [
        line for line in shown.splitlines() if "decide#1(" in line
    ]
    assert shown.splitlines()[0].endswith("killed")


def test_a_marked_run_tells_the_reason(project: Project, runs: Path) -> None:
    """The reason stands in the heading, for no call is to blame."""
    write_journal(runs, "1111111111", [*returned(), RunMarked("denied an eligible refund")])
    shown = project.stepfork("show").out
    assert shown.splitlines()[0] == "handle  1111111111  failed: denied an eligible refund"
    assert "failed here" not in shown


def test_a_call_is_shown_in_full_with_text_as_lines(project: Project, runs: Path) -> None:
    """An end of the address that is unique will do."""
    write_journal(runs, "1111111111", raised())
    shown = project.stepfork("show", "1", "ask")
    assert shown.out == (
        "model handle#1/ask#1\n"
        "returned in 1.2 s\n"
        "\n"
        "input\n"
        "  messages:\n"
        '    - role: "user"\n'
        "      content:\n"
        "        │ Dear shop,\n"
        "        │ please refund\n"
        "\n"
        "output\n"
        '  "approve"\n'
    )
    assert project.stepfork("show", "1", "handle#1/ask#1").out == shown.out
    failed = project.stepfork("show", "1", "decide#1").out
    assert "raised in 10 ms  ◀ failed here" in failed
    assert "\nraised\n  KeyError: 'amount'\n" in failed


def test_streams_and_changes_in_place_are_shown(project: Project, runs: Path) -> None:
    """A call did more than return when it yielded chunks or changed its arguments."""
    from stepfork._events import ItemYielded

    events: list[Event] = [
        CallStarted("handle#1", "tool", {"state": {}}),
        ItemYielded("handle#1", "Hel"),
        ItemYielded("handle#1", "lo"),
        CallEnded("handle#1", "returned", None, shape="stream", changes={"state": [["set", ["n"], 1]]}, at=1),
        RunEnded(1),
    ]
    write_journal(runs, "1111111111", events)
    assert "2 chunks" in project.stepfork("show", "1").out
    whole = project.stepfork("show", "1", "handle#1").out
    assert '\nchunks\n  ["Hel", "lo"]\n' in whole
    assert '\nchanged in place\n  state: [["set", ["n"], 1]]\n' in whole


def test_an_address_of_none_or_several_calls_names_the_near_ones(project: Project, runs: Path) -> None:
    """A wrong address is a usage error that shows the right ones."""
    write_journal(runs, "1111111111", raised())
    several = project.stepfork("show", "1", "lookup_order")
    assert several.code == 2
    assert "handle#1/lookup_order#1" in several.err
    assert "handle#1/lookup_order#2" in several.err
    none = project.stepfork("show", "1", "lokup_order#2", "--json")
    assert (none.code, none.err) == (2, "")
    assert "did you mean handle#1/lookup_order#2" in none.json["error"]["ways_on"][0]


def test_recorded_text_cannot_steer_the_terminal(project: Project, runs: Path) -> None:
    """Escape sequences, C1 controls and characters that reorder text are shown as escapes, everywhere."""
    evil = "\x1b]0;owned\x07\x9b31m\u202eesrever\r\x08\x00"
    value = {evil: [evil, {"$opaque": "x:Y", "repr": evil}, {"$path": evil}], "lines": f"{evil}\n{evil}"}
    error = {"$exception": f"x:{evil}", "args": [], "message": evil}
    events: list[Event] = [
        CallStarted("handle#1", "step", {evil: value}),
        CallStarted(f"handle#1/{evil}#1", "tool", {"x": value}),
        CallEnded(f"handle#1/{evil}#1", "raised", error, at=1),
        CallEnded("handle#1", "returned", value, at=1),
        RunEnded(1),
        RunMarked(evil),
    ]
    write_journal(runs, "1111111111", events, name=evil)
    commands: tuple[tuple[str, ...], ...] = (
        ("runs",), ("runs", "--json"), ("show",), ("show", "--json"), ("show", "1", "handle#1"),
        ("show", "1", f"handle#1/{evil[:-1]}"), ("show", evil[:-1]), ("export", "1", "--output", "-"),
    )  # fmt: skip
    for command in commands:
        printed = ESCAPE_SEQUENCES.sub("", on_a_terminal(project, *command))
        assert set("\x1b\x07\x9b\u202e\r\x08\x00").isdisjoint(printed), (command, printed)
        assert "owned" in printed


def test_a_terminal_shows_the_failure_in_red(project: Project, runs: Path) -> None:
    """Colours are for terminals whose user did not refuse them."""
    write_journal(runs, "1111111111", raised())
    coloured = on_a_terminal(project, "show")
    assert re.search(r"\x1b\[1;31m[^\n]*KeyError: 'amount'", coloured)
    plain = on_a_terminal(project, "show", NO_COLOR="1")
    assert "\x1b" not in plain
    assert ESCAPE_SEQUENCES.sub("", coloured) == plain
    assert max(map(cells, plain.splitlines())) <= 100
    assert "\x1b" not in on_a_terminal(project, "show", TERM="dumb")


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_the_list_fits_the_terminal(project: Project, runs: Path, columns: str) -> None:
    """On a narrow one the outcome, the place and the name give way, in this order."""
    write_journal(
        runs, "1111111111", [*returned(), RunMarked("a long reason " * 20)], name="refund-agent" * 3
    )
    write_journal(runs, "2222222222", raised())
    printed = on_a_terminal(project, "runs", COLUMNS=columns, NO_COLOR="1").splitlines()
    assert max(map(cells, printed)) <= max(int(columns), 76)
    assert "1111111111" in printed[1] + printed[2]


def test_output_in_a_poorer_encoding_is_still_readable(project: Project, runs: Path) -> None:
    """What the encoding lacks becomes an escape, and boxes are drawn in ASCII (B46)."""
    write_journal(runs, "1111111111", [*raised(), RunMarked("退款")])
    shown = project.stepfork("show", env={"PYTHONIOENCODING": "ascii"})
    assert shown.code == 0, shown
    assert "|- lookup_order#1" in shown.out
    write_journal(runs, "2222222222", one_call("退款 😀"), minutes_ago=1)
    assert "\\u9000\\u6b3e" in project.stepfork("show", "2222", env={"PYTHONIOENCODING": "cp1252"}).out


def test_a_deep_tree_and_a_deep_value_are_shown(project: Project, runs: Path) -> None:
    """A thousand calls below each other, and lists in lists, need no recursion."""
    addresses = ["handle#1"]
    for _ in range(1100):
        addresses.append(f"{addresses[-1]}/f#1")
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    events: list[Event] = [CallStarted(address, "step", {}) for address in addresses]
    events += [CallEnded(address, "returned") for address in reversed(addresses[1:])]
    write_journal(runs, "1111111111", [*events, CallEnded("handle#1", "returned", deep), RunEnded(1)])
    assert len(project.stepfork("show", "1").out.splitlines()) == 2 + 1 + 1101 + 1
    assert len(project.stepfork("show", "1", "--json").json["calls"]) == 1101
    assert project.stepfork("show", "1", "handle#1").code == 0


def test_json_holds_every_call_with_input_and_outcome(project: Project, runs: Path) -> None:
    """A program gets the whole run from one command, and one call from the other."""
    write_journal(runs, "1111111111", raised())
    document = project.stepfork("show", "1", "--json").json
    assert document["failure"]["address"] == document["place"] == "handle#1/decide#1"
    assert [call["address"].rpartition("/")[2] for call in document["calls"]] == [
        "handle#1", "lookup_order#1", "lookup_order#2", "ask#1", "decide#1",
    ]  # fmt: skip
    call = project.stepfork("show", "1", "decide", "--json").json
    assert call == document["calls"][-1]
    assert call["outcome"]["value"] == KEY_ERROR


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (None, "None"),
        ([True, 1, 1.5, 'say "a\\b"\n'], '[True, 1, 1.5, "say \\"a\\\\b\\"\\n"]'),
        ({"$$ref": 1, "a": {}}, '{"$ref": 1, "a": {}}'),
        ({"$tuple": [1, {"$float": "nan"}]}, "(1, nan)"),
        ({"$set": ["a"]}, '{"a"}'),
        ({"$frozenset": [1]}, "frozenset({1})"),
        ({"$tuple": "damaged"}, "<a damaged tuple>"),
        ({"$dict": [[1, "a"], [{"$tuple": [1]}, 2]]}, '{1: "a", (1): 2}'),
        ({"$int": "0x10000000000000000"}, "18446744073709551616"),
        ({"$bytes": "aGk="}, "b'hi'"),
        ({"$bytes": "%%%"}, "bytes that cannot be read"),
        ({"$datetime": "2026-11-30T10:00:00"}, "2026-11-30T10:00:00"),
        ({"$decimal": "1.50"}, 'Decimal("1.50")'),
        ({"$path": "/tmp/x"}, 'Path("/tmp/x")'),
        ({"$enum": "shop:Colour", "name": "RED"}, "Colour.RED"),
        ({"$object": "shop:make.<locals>.Order", "state": {"id": "A", "n": 1}}, 'Order(id="A", n=1)'),
        ({"$object": "shop:Ids", "state": [1, 2]}, "Ids(state=[1, 2])"),
        ({"$exception": "shop:Denied", "args": [], "message": "no"}, "Denied: no"),
        ({"$opaque": "shop:Lock", "repr": "<Lock object>"}, "<Lock object>"),
        ({"$timedelta": [1, 2, 3]}, "timedelta([1, 2, 3])"),
        ({"$str": "\\ud83d!"}, '"\\ud83d!"'),
        ({"$of-tomorrow": {"a": 1}}, 'of-tomorrow({"a": 1})'),
        ({"$int": None}, "<a damaged int>"),
    ],
)  # fmt: skip
def test_values_are_written_much_as_python_writes_them(plain: Plain, text: str) -> None:
    """Every tag of the format has its form, and one that is not known or damaged breaks nothing."""
    assert short(plain) == text


def test_a_long_value_costs_only_what_is_shown_of_it() -> None:
    """Ten million numbers are not written out to show eighty columns of them."""
    from time import process_time

    large = [{"text": "x" * 1000}] * 5_000_000
    begun = process_time()
    assert short({"first": "y" * 10_000_000, "rest": 1}, 80).startswith('{"first": "yyy')
    assert len(short(large, 80)) == 80
    assert process_time() - begun < 30


KEYS = st.text() | st.sampled_from(["$tuple", "$object", "$bytes"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


@given(PLAIN, st.integers(min_value=5, max_value=200))
def test_any_value_can_be_shown_in_any_width(plain: Plain, width: int) -> None:
    """Neither form raises, whatever a file holds, and the short one keeps to its width."""
    assert cells(short(plain, width)) <= width
    assert "\n" not in short(plain)
    assert "\n" not in "".join(pretty(plain, width))


@given(st.text(), st.integers(min_value=3, max_value=50))
def test_a_cut_text_fits_and_is_harmless(text: str, limit: int) -> None:
    """Cutting never splits an escape off a control character's danger."""
    for result in (cut(text, limit), cut_start(text, limit)):
        assert cells(result) <= limit
        assert clean(result) == result


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), min_size=1))
def test_columns_begin_at_the_same_cell(rows: list[list[str]]) -> None:
    """Whatever the characters take, the last column starts where it does in every other row."""
    lines = columns([[[Span(text)] for text in row] for row in rows])
    starts = {sum(cells(clean(span.text)) for span in line[:-2]) for line in lines}
    assert len(starts) == 1
