from __future__ import annotations

import datetime
import re
import secrets
import tempfile
import time
import uuid
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import thoroughly
from stepfork._alias import Aliases, Facts, Token, pair, rebind, tokens
from stepfork._plain import canonical

ID = "550e8400-e29b-41d4-a716-446655440000"
OTHER = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
NOW = datetime.datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=datetime.UTC)


def fresh(*known: Any, clock: tuple[float, float] | None = None) -> Aliases:
    """Return aliases with these facts."""
    facts = Facts()
    for value in known:
        facts.add(value)
    return Aliases(facts, clock=clock)


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        (ID, "<uuid>"),
        (ID.upper(), "<uuid>"),
        (ID.replace("-", ""), "<uuid>"),
        (f"order_{ID}.json", "order_<uuid>.json"),
        (f"urn:uuid:{ID}, again {OTHER}", "urn:uuid:<uuid>, again <uuid>"),
        ("<Agent object at 0x7f20b1ba5980>", "<Agent object at <address>>"),
        (NOW.isoformat(), "<time>"),
        (NOW.replace(tzinfo=None).isoformat(), "<time>"),
        (str(NOW), "<time>"),
        (NOW.strftime("%Y-%m-%dT%H:%M:%SZ"), "<time>"),
        (NOW.strftime("%Y%m%dT%H%M%SZ"), "<time>"),
        (NOW.strftime("%Y-%m-%d %H:%M"), "<time>"),
        (NOW.date().isoformat(), "<time>"),
        (format_datetime(NOW), "<time>"),
        (NOW.ctime(), "<time>"),
        ("Today is Monday, November 30, 2026.", "Today is <time>."),
        ("30 November 2026", "<time>"),
        ("Nov 30 2026", "<time>"),
        ("November 30th, 2026 12:00", "<time>"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "<ulid>"),
        ("call_abc123DEF456ghi789", "<id>"),
        ("toolu_01A09q90qw90lq917835lq9", "<id>"),
        ("toolu_vrtx_01A09q90qw90lq917835lq9", "<id>"),
        (f"chatcmpl-{ID}", "<id>"),
        ("msg_0123456789abcdef", "<id>"),
        ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "<hex>"),
        ("/tmp/tmpab12cd3e/report.csv", "<path>/report.csv"),
        ("/tmp/tmpabcdefgh/report.csv", "<path>/report.csv"),
        ("file:///var/folders/zz/zyxvpxvq6csfxvn_n0/T/agent_abcdefgh.csv", "file://<path>.csv"),
        (r"C:\Users\me\AppData\Local\Temp\tmpx8f2a1qk\x.txt", r"<path>\x.txt"),
        ("/tmp/report.csv", "<path>/report.csv"),
        ("/tmp/pytest-of-me/pytest-0/test_a0/x", "<path>/test_a0/x"),
    ],
)
def test_what_code_makes_anew_in_every_run_is_blanked(text: str, blank: str) -> None:
    """Ids, addresses, temp paths and times are found in any text; what code named itself stays (B71, B72)."""
    assert fresh().blank(text) == blank
    assert all(token.text in text for token in tokens(text))


@pytest.mark.parametrize(
    "text",
    [
        *("A-17", "HAT056", "#W1234567", "ORD_12345678", "SKU-99-B", "1a2b3c4", "v1.2.3", "10.0.0.1"),
        *("call_customer", "msg_template", "run_analysis_2", "file_name", "555-123-4567", "5551234567"),
        *("1234567890123456", "deadbeef", "aaaaaaaaaaaaaaaaaaaa", "2026-13-45", "12026-11-301", "may 2026"),
        *(
            "$1,234.56",
            "http://example.com/tmp/a1b2c3",
            "src/tmp/a1",
            "0xff",
            "python3.11",
            "",
            "plain words",
        ),
        *("1 < 2 and 3 > 2", "<b>bold</b>", "<uuid", "uuid:1>"),
    ],
)
def test_ordinary_names_and_numbers_are_left_alone(text: str) -> None:
    """An order number is not an id that code made, and a comparison must not be blind to it."""
    assert fresh().blank(text) is text
    assert fresh().number([text]) == [text]


def test_every_id_that_python_makes_is_found() -> None:
    """Not most of the time: a random id that happens to be missed would be a flaky test."""
    made = [str(uuid.uuid4()) for _ in range(300)]
    made += [uuid.uuid4().hex for _ in range(300)] + [secrets.token_hex(16) for _ in range(300)]
    folders = [tempfile.mkdtemp(prefix=prefix) for prefix in ("tmp", "agent_") for _ in range(100)]
    for folder in folders:
        Path(folder).rmdir()

    assert {fresh().blank(text) for text in made} == {"<uuid>"}
    assert {fresh().blank(f"{folder}/a.txt") for folder in folders} == {"<path>/a.txt"}


def test_a_fact_is_compared_exactly() -> None:
    """An id of the input or of a recorded outcome was given to the agent: the wrong one must fail."""
    aliases = fresh({"order": ID}, [{"at": NOW.isoformat(), "since": 1_750_000_000}], clock=(1.74e9, 1.76e9))

    assert aliases.blank([ID, OTHER]) == [ID, "<uuid>"]
    assert aliases.blank(f"{NOW.isoformat()} {NOW.date()}") == f"{NOW.isoformat()} <time>"
    assert aliases.blank([1_750_000_000, 1_750_000_001]) == [1_750_000_000, "<epoch>"]
    assert aliases.blank('{"since": 1750000000}') == '{"since": 1750000000}'
    assert aliases.blank("1750000001") == "<epoch>"


def test_what_the_code_made_is_no_fact_because_a_tool_echoed_it() -> None:
    """The texts known to be made are left out, all others of the same outcome are facts."""
    facts = Facts()
    facts.add({"id": ID, "order": OTHER}, unless={ID})

    assert ID not in facts
    assert OTHER in facts


def test_keys_are_aliased_like_values_and_none_is_lost() -> None:
    """Two ids as keys of one dict become two pairs, in an order that does not depend on the ids."""
    aliases = fresh()

    assert aliases.blank({ID: 1, "a": 2}) == {"<uuid>": 1, "a": 2}
    assert aliases.blank({ID: "x", OTHER: "y"}) == aliases.blank({OTHER: "x", ID: "y"})
    assert aliases.number({ID: "x", OTHER: "y"}) == fresh().number({OTHER: "x", ID: "y"})


def test_a_set_of_ids_is_the_same_in_every_run() -> None:
    """A set is sorted by its elements, so that its order follows the ids."""
    now, then = [{"$set": sorted(ids)} for ids in ([ID, OTHER], [str(uuid.uuid4()), str(uuid.uuid4())])]
    parts = [{"$set": [{"id": a, "n": 1}, {"id": b, "n": 2}]} for a, b in ((ID, OTHER), (OTHER, ID))]

    assert fresh().number(now) == fresh().number(then) == {"$set": ["<uuid:1>", "<uuid:2>"]}
    assert fresh().number(parts[0]) == fresh().number(parts[1])


def test_the_same_id_has_the_same_number_wherever_it_stands() -> None:
    """The id made in step 2 has to be the id used in step 5."""
    aliases = fresh()

    assert aliases.number({"b": OTHER, "a": [ID, f"at {NOW.isoformat()}"]}) == {
        "b": "<uuid:2>",
        "a": ["<uuid:1>", "at <time:1>"],
    }
    assert aliases.number(f"{OTHER} {ID} {uuid.uuid4()}") == "<uuid:2> <uuid:1> <uuid:3>"


def test_a_value_without_made_tokens_is_returned_itself() -> None:
    """Nothing is copied where nothing has to be."""
    value = {"order": "A-17", "lines": [{"n": 1, "x": None, "s": {"$set": [1, 2]}}], "id": ID}

    assert fresh(value).blank(value) is value
    assert fresh(value).number(value) is value
    assert fresh().blank(value)["lines"] is value["lines"]


def test_text_that_looks_like_an_alias_is_told_from_one() -> None:
    """Brackets are doubled, so that what the user wrote can never stand for an id."""
    aliases = fresh()

    assert aliases.number("<uuid:1>") == "<<uuid:1>"
    assert aliases.number(f"<{ID}>") == "<<<uuid:1>>"
    assert aliases.number("<<uuid:1>") == "<<<<uuid:1>"
    assert aliases.blank("<time> <path>") == "<<time> <<path>"
    assert aliases.blank("<title>") == "<title>"


def test_numbers_are_times_only_while_the_clock_ran() -> None:
    """Seconds and milliseconds, whole or not, in values and in text; all other numbers stay."""
    now = time.time()
    aliases = fresh(clock=(now, float("inf")))

    assert aliases.blank([now, int(now), int(now * 1000), f"t={int(now)}"]) == [
        "<epoch-float>",
        "<epoch>",
        "<epoch-ms>",
        "t=<epoch>",
    ]
    assert aliases.blank([now - 60, now + 60, 17, True, 4_102_444_800]) == [
        now - 60,
        now + 60,
        17,
        True,
        4_102_444_800,
    ]
    assert fresh().blank([now, f"t={int(now)}"]) == [now, f"t={int(now)}"]
    assert aliases.number([int(now), int(now), int(now) + 1]) == ["<epoch:1>", "<epoch:1>", "<epoch:2>"]


def test_tagged_values_are_looked_into() -> None:
    """A UUID, a date or a path object is aliased like its text."""
    value = {"id": {"$uuid": ID}, "at": {"$datetime": NOW.isoformat()}, "to": {"$path": "/tmp/tmpab12cd3e/x"}}

    assert fresh().number(value) == {
        "id": {"$uuid": "<uuid:1>"},
        "at": {"$datetime": "<time:1>"},
        "to": {"$path": "<path:1>/x"},
    }


def test_tokens_come_in_an_order_that_ids_do_not_change() -> None:
    """Keys are sorted, and those that are ids themselves by what stands under them."""
    assert list(tokens({"b": f"{ID} on {NOW.date()}", "a": ["call_abc12345"], "n": 1})) == [
        Token("id", "call_abc12345"),
        Token("uuid", ID),
        Token("time", "2026-11-30"),
    ]
    assert [t.text for t in tokens({ID: "x", OTHER: "y"})] == [ID, OTHER]
    assert [t.text for t in tokens({OTHER: "x", ID: "y"})] == [OTHER, ID]


def test_an_echoed_id_is_bound_to_the_one_made_now() -> None:
    """A recorded outcome that repeats the code's own id is served with the id of this run."""
    mapping = pair(
        {"id": ID, "note": f"at {NOW.isoformat()}"}, {"id": OTHER, "note": "at 2027-01-01T00:00:00"}
    )

    assert mapping == {ID: OTHER, NOW.isoformat(): "2027-01-01T00:00:00"}
    assert rebind({"ok": f"created {ID}", ID: [1]}, mapping) == {"ok": f"created {OTHER}", OTHER: [1]}
    assert rebind(f"x{ID}", mapping) == f"x{ID}"
    untouched = {"ok": "A-17"}
    assert rebind(untouched, mapping) is untouched
    assert pair({"id": ID}, {"id": ID}) == {}


def test_a_value_too_deep_to_be_looked_through_is_left_as_it_is() -> None:
    """It is compared as it stands, and nothing raises."""
    deep: Any = ID
    for _ in range(3_000):
        deep = [deep]

    assert fresh().blank(deep) is deep
    assert rebind(deep, {ID: OTHER}) is deep


def made_tokens() -> st.SearchStrategy[str]:
    """Draw texts that code could have made."""
    return st.one_of(
        st.uuids(version=4).map(str),
        st.datetimes(min_value=datetime.datetime(2000, 1, 1), timezones=st.just(datetime.UTC)).map(str),
        st.integers(16**11, 16**12 - 1).map(lambda n: f"0x{n:012x}"),
        st.from_regex(r"call_[a-z]{4}[0-9][A-Za-z0-9]{10}", fullmatch=True),
    )


literals = st.one_of(
    st.sampled_from(
        ["<uuid:1>", "<<uuid>", "<", "<<", ">", " ", "order A-17", "<time:2", "1>", ":1>", "<b>", "uuid"]
    ),
    st.text(alphabet="<>uid:1 ", max_size=6),
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[Any, list[str]]:
    """Draw a value in which ``{n}`` stands for the n-th made token, and the tokens."""
    made = draw(st.lists(made_tokens(), min_size=1, max_size=4, unique=True))
    piece = st.one_of(st.integers(0, len(made) - 1).map(lambda n: f" \0{n}\0 "), literals)
    bracketed = st.tuples(st.sampled_from(["<", "<<", ""]), piece).map(lambda p: p[0] + p[1].strip())
    text = st.lists(st.one_of(piece, bracketed), max_size=4).map(" ".join)
    leaf = st.one_of(text, st.integers(0, 3), st.none())
    key = st.sampled_from(["a", "b", "c"]) | text
    tree = st.recursive(
        leaf, lambda v: st.lists(v, max_size=3) | st.dictionaries(key, v, max_size=3), max_leaves=8
    )
    return draw(tree), made


def filled(template: Any, made: list[str]) -> Any:
    """Return the value with the tokens in their places."""
    if isinstance(template, str):
        return re.sub("\0(\\d)\0", lambda match: made[int(match[1])], template)
    if isinstance(template, list):
        return [filled(value, made) for value in template]
    if isinstance(template, dict):
        return {filled(key, made): filled(value, made) for key, value in template.items()}
    return template


def renewed(text: str) -> str:
    """Return another token of the same kind."""
    if text.startswith("call_"):
        return f"call_{secrets.token_hex(8)}1"
    if text.startswith("0x"):
        return hex(secrets.randbelow(16**11) + 16**11)
    return (
        str(uuid.uuid4())
        if text[8] == "-"
        else str(datetime.datetime.fromtimestamp(secrets.randbelow(10**9), datetime.UTC))
    )


@thoroughly(100)
@given(documents())
def test_two_runs_that_differ_in_made_tokens_only_are_blanked_alike(drawn: tuple[Any, list[str]]) -> None:
    """The blank form is what a call is found by, so it has to be the same in every run."""
    template, made = drawn
    again = [renewed(text) for text in made]
    old, new = filled(template, made), filled(template, again)

    assert canonical(fresh().blank(old)) == canonical(fresh().blank(new))
    assert canonical(fresh().number(old)) == canonical(fresh().number(new))
    mapping = pair(old, new)
    assert canonical(rebind(old, mapping)) == canonical(new)


@thoroughly(300)
@given(st.lists(literals | made_tokens(), max_size=4), st.lists(literals | made_tokens(), max_size=4))
def test_different_texts_of_one_run_never_get_the_same_aliases(left: list[str], right: list[str]) -> None:
    """Within one side the aliases can be read back: nothing that differs is made equal."""
    aliases = fresh()
    first, second = " ".join(left), " ".join(right)

    assert (aliases.number(first) == aliases.number(second)) is (first == second)
    assert (aliases.number("".join(left)) == aliases.number("".join(right))) is (
        "".join(left) == "".join(right)
    )


@thoroughly(30)
@given(documents())
def test_numbering_again_gives_the_same_aliases(drawn: tuple[Any, list[str]]) -> None:
    """An alias, once given, stays."""
    value = filled(*drawn)
    aliases = fresh()

    assert aliases.number(value) == aliases.number(value)


def test_the_folder_of_temporary_files_is_known_whatever_it_is(tmp_path: Path) -> None:
    """A machine may keep it elsewhere than in /tmp."""
    inside = Path(tempfile.gettempdir()) / "tmpq1w2e3r4" / "out.txt"

    assert fresh().blank(str(inside)) == "<path>/out.txt"


def test_a_text_of_facts_comes_back_as_it_is_however_often() -> None:
    """A conversation is looked at once for each call that repeats it."""
    facts = Facts()
    facts.add("order 6f9619ff-8b86-4d01-b42d-00cf4fc964ff")
    aliases = Aliases(facts)
    text = "refund 6f9619ff-8b86-4d01-b42d-00cf4fc964ff, made 1b4e28ba-2fa1-41d2-883f-0016d3cca427"
    plain = ["refund 6f9619ff-8b86-4d01-b42d-00cf4fc964ff", text]
    for _ in range(2):
        assert aliases.blank(plain[0]) is plain[0]
        assert aliases.number(plain)[1] == text.replace("1b4e28ba-2fa1-41d2-883f-0016d3cca427", "<uuid:1>")


def test_a_time_that_the_clock_reaches_later_is_aliased_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was no time of this run at first sight may become one."""
    aliases = Aliases(Facts(), clock=(1_800_000_000.0, float("inf")))
    monkeypatch.setattr(time, "time", lambda: 1_800_000_010.0)
    assert aliases.blank("at 1800000100") == "at 1800000100"
    monkeypatch.setattr(time, "time", lambda: 1_800_000_200.0)
    assert aliases.blank("at 1800000100") == "at <epoch>"
