"""Stubs and injected faults: what is served instead, where, and what happens to a key that fits nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import stepfork
from project import MINIMAL, Project
from replays import Bodies, made, record, stops
from stepfork.errors import UnrecordedCall, UnusedOverride

bodies = Bodies()


@stepfork.tool
def search(query: str) -> str:
    bodies.ran.append(query)
    return f"found {query}"


@stepfork.tool
async def later(query: str) -> str:
    bodies.ran.append(query)
    return f"later {query}"


@stepfork.tool
def stream(query: str) -> Iterator[str]:
    bodies.ran.append(query)
    yield query


@stepfork.tool
async def astream(query: str) -> AsyncIterator[str]:
    bodies.ran.append(query)
    yield query


@stepfork.step
def plan(*queries: str) -> list[str]:
    return [search(query) for query in queries]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    record(path, lambda: (plan("a", "b"), plan("c")))
    return path


def both(*more: str) -> list[str]:
    return [*plan("a", "b"), *plan("c", *more)]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("test#1/plan#1/search#2", ["found a", "stub", "found c"]),
        ("plan#2/search#1", ["found a", "found b", "stub"]),
        ("search#1", ["stub", "found b", "stub"]),
    ],
)
def test_a_key_is_an_address_or_the_end_of_one(path: Path, key: str, expected: list[str]) -> None:
    """An address names one call, its end every call that ends so."""
    run = stepfork.replay(path, both, override={key: "stub"})
    assert run.result == expected
    assert run.unused == []
    assert [call.overridden for call in made(run)] == [value == "stub" for value in expected]


def test_a_bare_name_stands_for_the_unanswered_calls_of_the_tool(path: Path) -> None:
    """Calls that the recording answers are not touched by it."""
    run, ran = bodies.ran_in(
        lambda: stepfork.replay(path, lambda: both("new", "newer"), override={"search": None})
    )
    assert run.result == ["found a", "found b", "found c", None, None]
    assert run.frontiers == []
    assert ran == 0


def test_an_exception_is_raised_at_its_call_each_time(path: Path) -> None:
    """An instance or a class; where it was injected is where it is seen first."""

    def agent() -> list[str]:
        seen = []
        for query in ("x", "y"):
            try:
                seen.append(search(query))
            except TimeoutError as error:
                seen.append(str(error))
        return seen

    assert stepfork.replay(path, agent, override={"search": TimeoutError("slow")}).result == ["slow", "slow"]
    run = stepfork.replay(path, both, override={"plan#2/search#1": TimeoutError})
    assert run.run.failure is not None
    assert run.run.failure.address == "test#1/plan#2/search#1"
    assert run.run.failure.type == "builtins:TimeoutError"


def test_every_flavour_of_a_tool_can_be_stubbed(path: Path) -> None:
    """A list stands for the chunks of a stream, as a recorded one or a new one."""

    async def agent() -> list[object]:
        return [await later("q"), list(stream("q")), [chunk async for chunk in astream("q")]]

    stubs = {"later": 1, "stream": ["x", "y"], "astream": ["z"]}
    run, ran = bodies.ran_in(lambda: stepfork.replay(path, agent, override=stubs))
    assert run.result == [1, ["x", "y"], ["z"]]
    assert ran == 0


def test_a_key_that_no_call_used_is_an_error_naming_near_addresses(path: Path) -> None:
    """A slip of the pen must not leave the test without its fault."""
    with pytest.raises(UnusedOverride, match=r"plan#1/search#2") as caught:
        stepfork.replay(path, both, override={"plan#1/serch#2": "stub"})
    assert caught.value.unused == ["plan#1/serch#2"]
    with pytest.raises(UnusedOverride, match="made no tool or model call"):
        stepfork.replay(path, lambda: None, override={"search#1": "stub"})


def test_a_stop_is_not_hidden_by_an_override_that_was_not_reached(path: Path) -> None:
    """Where the replay stopped before, the frontier is the news."""
    run = stepfork.replay(path, lambda: [search("new"), plan("a")], override={"later#1": 1})
    assert stops(run) == ["search#1"]


def test_a_misspelt_override_is_named_where_the_replay_stops(path: Path) -> None:
    """The call that it was meant for is the very one without an answer; a recorded one may still come."""
    stubs = {"plan#1/serch#3": "stub", "plan#2/search#1": "stub", "later": "stub"}
    run = stepfork.replay(path, lambda: [search("new"), *both()], override=stubs)
    message = str(run.stop_error())
    assert "override 'plan#1/serch#3': near plan#1/search#" in message
    assert "'plan#2/search#1'" not in message
    assert "override 'later': near none" in message
    with (
        pytest.raises(UnrecordedCall, match="override 'serch': near search"),
        stepfork.replaying(path, override={"serch": "stub"}),
    ):
        search("new")


def test_only_what_looks_like_a_key_is_near(path: Path) -> None:
    """The most similar comes first; a bare name that all its calls answered shows these."""

    def near(key: str) -> str:
        with pytest.raises(UnusedOverride) as caught:
            stepfork.replay(path, both, override={key: "stub"})
        return caught.value.detail[0][1]

    assert near("serch#2").split(", ")[0] == "search#2"
    assert near("search") == "search#1, search#2"
    assert near("serch") == "search"
    assert near("publish#1") == "none"


def test_a_killed_call_is_answered_by_an_override_only(project: Project) -> None:
    """What was under way when the process ended has no outcome, and nothing stands for it."""
    project.write(
        {
            "agent.py": """
                import os, signal, stepfork

                @stepfork.tool
                def pay():
                    os.kill(os.getpid(), signal.SIGKILL)

                if __name__ == "__main__":
                    with stepfork.run("test", path="run.jsonl"):
                        pay()
            """
        }
    ).run("python", "agent.py")
    killed = project.root / "run.jsonl"

    @stepfork.tool
    def pay() -> str:
        bodies.ran.append("pay")
        return "really"

    run, ran = bodies.ran_in(lambda: stepfork.replay(killed, pay))
    assert ran == 0
    assert stops(run) == ["pay#1"]
    assert "under way" in run.frontiers[0].why
    assert made(run)[0].unrecorded
    assert made(run)[0].address == "test#1/pay#1"
    assert stepfork.replay(killed, pay, override={"pay": "paid"}).result == "paid"


def test_the_settings_stub_too_and_may_go_unused(path: Path) -> None:
    """[tool.stepfork.override] is for all tests: one that does not need it is no error."""
    settings = (
        MINIMAL["pyproject.toml"] + '[tool.stepfork.override]\n"plan#2/search#1" = "common"\nother = 1\n'
    )
    (path.parent / "pyproject.toml").write_text(settings)
    assert stepfork.replay(path, both).result == ["found a", "found b", "common"]
    own = stepfork.replay(path, both, override={"plan#2/search#1": "own"})
    assert own.result[-1] == "own"
