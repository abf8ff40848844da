"""The source of a test: recorded text cannot break it, and it is formatted as ruff would."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfork._calls import Call, Criterion, Failure, Outcome, Run
from stepfork._making.entry import Reach
from stepfork._making.source import (
    added_to,
    describe,
    functions_in,
    harmless,
    identifier,
    name_of_test,
    new_file,
)
from stepfork.errors import OptionError

NASTY = [
    '"""',
    'ends in "',
    "ends in \\",
    "C:\\Users\\new",
    "a\0b",
    "two\nlines",
    "{x}",
    "%s",
    "'''",
    "\u202e",
    "",
]
TEXTS = st.one_of(st.sampled_from(NASTY), st.text(max_size=200))
NAMES = st.one_of(st.from_regex(r"[a-z_][a-z0-9_]{0,63}", fullmatch=True), st.just("n" * 64))
PARTS = st.from_regex(r"[a-z][a-z0-9]{0,29}x", fullmatch=True)
REACHES = st.builds(
    lambda parts, imported, method, missing: Reach(
        ".".join(parts), imported, f"{imported}.{method}" if method else imported, missing=tuple(missing)
    ),
    st.lists(PARTS, min_size=1, max_size=4),
    PARTS,
    st.one_of(st.just(""), PARTS),
    st.lists(PARTS, max_size=2, unique=True),
)
RUNS = st.builds(
    lambda name, failure, criterion, ended: Run(
        "0", name, Call("step", "h", "h#1", {}, Outcome("returned")), failure, criterion, ended=ended
    ),
    TEXTS,
    st.one_of(
        st.none(),
        st.builds(Failure, st.sampled_from(["raised", "failed", "marked"]), TEXTS, TEXTS, TEXTS),
    ),
    st.one_of(st.none(), st.builds(Criterion, st.dictionaries(TEXTS, TEXTS, max_size=2), st.tuples(TEXTS))),
    st.booleans(),
)
CASES = st.tuples(RUNS, NAMES, REACHES, st.booleans())

REACH = Reach("shop.agent", "handle", "handle")


def a_run(name: str = "handle", failure: Failure | None = None, criterion: Criterion | None = None) -> Run:
    """Return a run of one call."""
    return Run("0", name, Call("step", "handle", "handle#1", {}, Outcome("returned")), failure, criterion)


def left_alone_by_ruff(folder: Path, sources: dict[str, str]) -> str:
    """Return what ``ruff format`` would change, with its own settings."""
    for name, source in sources.items():
        (folder / name).write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--no-cache", "--diff", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@given(case=CASES)
def test_any_recorded_text_gives_a_file_that_parses(case: tuple[Run, str, Reach, bool]) -> None:
    """Names, messages and criteria are data, whatever stands in them (B79)."""
    run, name, reach, xfail = case
    tree = ast.parse(new_file(run, name, reach, xfail=xfail))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions == [f"test_{name}"]
    kinds = {type(node) for node in tree.body}
    assert kinds <= {ast.Expr, ast.Import, ast.ImportFrom, ast.FunctionDef}


@given(case=CASES)
def test_any_recorded_text_can_be_added_to_a_file(case: tuple[Run, str, Reach, bool]) -> None:
    """What was in the file is still there, before the new function (B79)."""
    run, name, reach, xfail = case
    before = b'"""Mine."""\n\nimport os\n\n\ndef test_mine():\n    """\xe2\x80\xa8"""\n    assert os.name\n'
    after = added_to(before, run, name, reach, xfail=xfail, path=Path("test_mine.py"))
    tree = ast.parse(after)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions == ["test_mine", f"test_{name}"]
    assert after.startswith(before[: before.index(b"\n\n\ndef")])


def test_ruff_leaves_every_file_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Long names, long imports and long docstrings are broken where ruff would break them (B79)."""
    sources: dict[str, str] = {}

    @given(case=CASES)
    def collect(case: tuple[Run, str, Reach, bool]) -> None:
        run, name, reach, xfail = case
        sources[f"t{len(sources)}.py"] = new_file(run, name, reach, xfail=xfail)

    collect()
    assert left_alone_by_ruff(tmp_path_factory.mktemp("sources"), sources) == ""


@given(text=TEXTS)
def test_a_text_in_a_docstring_is_one_printable_line(text: str) -> None:
    """No quote can end it, no backslash escape anything, no control character reach a terminal (B79)."""
    kept = harmless(text)
    assert kept.isprintable()
    assert not {'"', "\\"} & set(kept)
    assert len(kept) <= 90


@given(text=TEXTS)
def test_a_name_is_made_of_letters_digits_and_underscores(text: str) -> None:
    """It names the test, the recording and the snapshot on every file system."""
    name = identifier(text)
    assert name.isascii()
    assert f"test_{name}".isidentifier()
    assert 0 < len(name) <= 50
    assert name not in ("con", "nul", "com1")


def test_the_docstring_says_what_failed_and_what_is_right() -> None:
    """The criterion stands beside the failure, in words."""
    failure = Failure("raised", "handle#1/decide#1", "builtins:KeyError", "'amount'")
    assert describe(a_run(failure=failure)) == [
        "handle raised KeyError: 'amount' in decide#1. Recorded 1970-01-01."
    ]
    criterion = Criterion({"status": "refunded"}, ("delete_user",), {"refund": 1, "search": 2})
    lines = describe(a_run(failure=Failure("marked", message="denied it"), criterion=criterion))
    assert lines == [
        "handle denied it. Recorded 1970-01-01.",
        "",
        "Right is: status is 'refunded'.",
        "Right is: delete_user is not called.",
        "Right is: refund is called once.",
        "Right is: search is called 2 times.",
    ]


def test_the_name_says_what_failed() -> None:
    """The agent's name and the exception's, as words."""
    failure = Failure("raised", "handle#1", "shop.errors:Shop.CardDeclined", "no")
    assert name_of_test(a_run("RefundAgent.handle", failure)) == "refund_agent_handle_card_declined"
    assert name_of_test(a_run("con")) == "con_run"
    in_capitals = Failure("raised", "handle#1", "json.decoder:JSONDecodeError", "no")
    assert name_of_test(a_run("research", in_capitals)) == "research_json_decode_error"


def test_a_file_keeps_its_line_ends_and_its_own_names() -> None:
    """An import never takes a name away that the file uses for something else."""
    before = b"from other import handle\r\n\r\n\r\ndef test_mine():\r\n    handle()\r\n"
    after = added_to(before, a_run(), "new", REACH, xfail=False, path=Path("test_mine.py")).decode()
    assert after.count("\n") == after.count("\r\n")
    assert "from other import handle\r\nfrom shop.agent import handle as shop_agent_handle\r\n" in after
    assert 'replay("new", shop_agent_handle)' in after


def test_an_import_that_is_there_is_not_written_again() -> None:
    """The second test of an agent in a file adds its function alone."""
    before = new_file(a_run(), "one", REACH, xfail=False).encode()
    after = added_to(before, a_run(), "two", REACH, xfail=False, path=Path("test_one.py"))
    assert after.startswith(before)
    assert after.count(b"import") == 1


@pytest.mark.parametrize(
    ("before", "why"), [(b"def (", "no Python file"), (b"def test_new(): ...\n", "has a test_new already")]
)
def test_a_file_that_cannot_take_the_test_is_refused(before: bytes, why: str) -> None:
    """One that is not Python, and one that has a test of this name."""
    with pytest.raises(OptionError, match=why):
        added_to(before, a_run(), "new", REACH, xfail=False, path=Path("test_mine.py"))


def test_functions_are_found_at_any_depth(tmp_path: Path) -> None:
    """A method of a test class counts too, so that names stay apart."""
    path = tmp_path / "test_x.py"
    path.write_text("class TestX:\n    async def test_a(self): ...\n\n\ndef test_b(): ...\n")
    assert functions_in(path) == {"test_a", "test_b"}
