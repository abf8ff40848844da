"""What a recorded run holds: every call with its parent, its arguments and its outcome."""

from __future__ import annotations

import _thread
import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import stepfork
from recorded import Recorded, record
from stepfork._codec import decode, decode_exception
from stepfork._recording import read_run


@stepfork.tool
def lookup(order_id: str) -> dict[str, Any]:
    return {"id": order_id}


@stepfork.step
def plan(goal: str) -> str:
    lookup(goal)
    return goal.upper()


@stepfork.tool
async def alook(order_id: str, seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    return order_id.upper()


@stepfork.step
async def aplan(goal: str) -> str:
    return await alook(goal)


def test_calls_stand_below_the_step_that_made_them(tmp_path: Path) -> None:
    """The tree of addresses mirrors who called whom."""

    def agent() -> None:
        plan("a")
        lookup("b")
        plan("c")

    recorded = record(tmp_path / "run.jsonl", agent)

    assert recorded.tree == [{"plan#1": ["lookup#1"]}, "lookup#1", {"plan#2": ["lookup#1"]}]
    assert recorded.outputs("plan") == ["A", "C"]


def test_the_start_of_a_call_is_written_before_it_executes(tmp_path: Path) -> None:
    """A tool that reads the journal finds its own start in it."""
    seen: list[str] = []

    @stepfork.tool
    def peek() -> None:
        seen.append((tmp_path / "run.jsonl").read_text().splitlines()[-1])

    record(tmp_path / "run.jsonl", peek)

    assert '"event":"start","call":"test#1/peek#1"' in seen[0]


def test_what_changes_later_does_not_change_the_record(tmp_path: Path) -> None:
    """Arguments and results are encoded when they pass (B37)."""

    @stepfork.tool(mutates=())
    def take(messages: list[str]) -> list[str]:
        return messages

    def agent() -> None:
        messages = ["a"]
        take(messages).append("b")
        messages.append("c")

    recorded = record(tmp_path / "run.jsonl", agent)

    assert recorded.inputs("take") == [{"messages": ["a"]}]
    assert recorded.outputs("take") == [["a"]]


def test_a_change_in_place_is_found_and_kept_apart_from_the_input(tmp_path: Path) -> None:
    """The input is as it was on entry, the change is recorded as a change (B37)."""

    @stepfork.tool
    def book(database: dict[str, list[str]], order_id: str) -> str:
        database["orders"].append(order_id)
        return "done"

    recorded = record(tmp_path / "run.jsonl", lambda: book({"orders": ["A"], "other": ["x"] * 50}, "B"))

    call = recorded.call("book#1")
    assert decode(call.input["database"])["orders"] == ["A"]
    assert list(call.outcome.changes or {}) == ["database"]
    assert "xxx" not in str(call.outcome.changes)


def test_the_tools_own_exception_object_reaches_the_caller(tmp_path: Path) -> None:
    """Type, identity and traceback are the tool's; the record can rebuild it."""
    original = LookupError("no such order")

    @stepfork.tool
    def failing() -> None:
        raise original

    recorded = Recorded(tmp_path / "run.jsonl")
    with recorded, pytest.raises(LookupError) as caught:
        failing()

    assert caught.value is original
    assert caught.traceback[-1].name == "failing"
    rebuilt = decode_exception(recorded.call("failing#1").outcome.value)
    assert type(rebuilt) is LookupError
    assert rebuilt.args == ("no such order",)


@pytest.mark.parametrize(
    ("error", "is_failure"),
    [
        (KeyError("amount"), True),
        (SystemExit(3), True),
        (SystemExit(0), False),
        (KeyboardInterrupt(), False),
        (asyncio.CancelledError(), False),
    ],
)
def test_only_an_exception_that_the_root_ends_with_is_a_failure(
    tmp_path: Path, error: BaseException, is_failure: bool
) -> None:
    """Ctrl-C, a clean exit and cancellation are none."""

    @stepfork.step
    def inner() -> None:
        raise error

    recorded = Recorded(tmp_path / "run.jsonl")
    with pytest.raises(type(error)), recorded:
        inner()

    failure = recorded.run.failure
    assert (failure is not None) == is_failure
    if failure is not None:
        assert (failure.kind, failure.address) == ("raised", "test#1/inner#1")
        assert failure.type == f"builtins:{type(error).__name__}"


def test_a_caught_exception_is_no_failure(tmp_path: Path) -> None:
    """A run that returns has not failed, whatever went wrong inside."""

    @stepfork.tool
    def failing() -> None:
        raise ValueError

    def agent() -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            failing()

    recorded = record(tmp_path / "run.jsonl", agent)

    assert recorded.run.failure is None
    assert recorded.call("failing#1").outcome.status == "raised"


def test_a_run_can_be_marked_as_failed_from_within(tmp_path: Path) -> None:
    """``stepfork.fail`` and ``run.fail`` say where and why."""
    recorded = Recorded(tmp_path / "a.jsonl")
    with recorded:

        @stepfork.step
        def judge() -> None:
            stepfork.fail("denied an eligible refund")

        judge()
    other = Recorded(tmp_path / "b.jsonl")
    with other as opened:
        opened.fail("too slow")

    failure, second = recorded.run.failure, other.run.failure
    assert failure is not None
    assert (failure.kind, failure.address, failure.message) == (
        "failed",
        "test#1/judge#1",
        "denied an eligible refund",
    )
    assert second is not None
    assert (second.address, second.message) == ("test#1", "too slow")


def test_fail_without_a_run_is_silent() -> None:
    """An agent whose recording is off must not notice."""
    stepfork.fail("nobody listens")


@pytest.mark.anyio
async def test_concurrent_calls_stay_with_their_parents(tmp_path: Path) -> None:
    """gather, tasks and to_thread carry the context with them."""
    recorded = Recorded(tmp_path / "run.jsonl")
    async with recorded:
        await asyncio.gather(aplan("a"), aplan("b"), asyncio.to_thread(plan, "c"))
        async with asyncio.TaskGroup() as group:
            group.create_task(aplan("d"))

    assert sorted(map(str, recorded.tree)) == sorted(
        map(
            str,
            [
                {"aplan#1": ["alook#1"]},
                {"aplan#2": ["alook#1"]},
                {"aplan#3": ["alook#1"]},
                {"plan#1": ["lookup#1"]},
            ],
        )
    )


@pytest.mark.anyio
async def test_equal_concurrent_calls_are_numbered_as_they_started(tmp_path: Path) -> None:
    """The order in which they end does not matter (B20)."""

    @stepfork.tool
    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    recorded = Recorded(tmp_path / "run.jsonl")
    async with recorded:
        await asyncio.gather(wait(0.03), wait(0.02), wait(0.01))

    assert recorded.outputs("wait") == [0.03, 0.02, 0.01]


@pytest.mark.parametrize("start", ["pool", "executor", "thread"])
def test_work_in_threads_stands_below_the_step_that_started_it(tmp_path: Path, start: str) -> None:
    """ThreadPoolExecutor, run_in_executor and plain threads see an empty context of Python's (B17)."""

    async def in_executor() -> None:
        await asyncio.get_running_loop().run_in_executor(None, plan, "x")

    @stepfork.step
    def starter() -> None:
        if start == "pool":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(plan, "x").result()
        elif start == "executor":
            asyncio.run(in_executor())
        else:
            thread = threading.Thread(target=plan, args=("x",))
            thread.start()
            thread.join()

    assert record(tmp_path / "run.jsonl", starter).tree == [{"starter#1": [{"plan#1": ["lookup#1"]}]}]


def test_a_pool_that_outlives_a_run_does_not_carry_it_on(tmp_path: Path) -> None:
    """A worker started in one run serves the next one, and calls outside of any (B18)."""
    first, second = Recorded(tmp_path / "a.jsonl"), Recorded(tmp_path / "b.jsonl")

    with ThreadPoolExecutor(1) as pool:
        with first:
            pool.submit(lookup, "a").result()
        pool.submit(lookup, "outside").result()
        with second:
            pool.submit(lookup, "b").result()

    assert first.inputs("lookup") == [{"order_id": "a"}]
    assert second.inputs("lookup") == [{"order_id": "b"}]


def _without_context(function: Any, *args: Any) -> None:
    """Run it in a thread that nobody carried a context into."""
    done = threading.Event()

    def work() -> None:
        try:
            function(*args)
        finally:
            done.set()

    _thread.start_new_thread(work, ())
    assert done.wait(10)


def test_a_tool_without_context_joins_the_only_open_run(tmp_path: Path) -> None:
    """There is one run it can belong to (B17)."""
    assert record(tmp_path / "run.jsonl", lambda: _without_context(lookup, "x")).tree == ["lookup#1"]


def test_a_run_without_context_is_a_run_of_its_own(tmp_path: Path) -> None:
    """A server's second request does not end up in the first one's run."""
    first, second = Recorded(tmp_path / "a.jsonl"), Recorded(tmp_path / "b.jsonl")

    def serve() -> None:
        with second:
            plan("b")

    with first:
        plan("a")
        _without_context(serve)

    assert first.inputs("plan") == [{"goal": "a"}]
    assert second.inputs("plan") == [{"goal": "b"}]


def test_a_tool_without_context_among_several_runs_is_not_guessed(tmp_path: Path) -> None:
    """It is left out of both, with a warning that says what to do (B17)."""
    first, second = Recorded(tmp_path / "a.jsonl"), Recorded(tmp_path / "b.jsonl")
    entered, done = threading.Event(), threading.Event()

    def hold() -> None:
        with second:
            entered.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(10)
    with first, pytest.warns(RuntimeWarning, match="2 runs are open"):
        _without_context(lookup, "x")
    done.set()
    holder.join()

    assert first.tree == second.tree == []


def test_many_threads_lose_no_call(tmp_path: Path) -> None:
    """200 calls from a pool of 8 are 200 records, each with its own pair (B22)."""

    def agent() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lookup, [f"A-{number}" for number in range(200)]))

    recorded = record(tmp_path / "run.jsonl", agent)

    pairs = [
        (given["order_id"], got["id"])
        for given, got in zip(recorded.inputs("lookup"), recorded.outputs("lookup"), strict=True)
    ]
    assert sorted(pairs) == sorted((f"A-{number}",) * 2 for number in range(200))


def test_a_polled_tool_says_so_in_the_record(tmp_path: Path) -> None:
    """``repeats=True`` travels with the call."""

    @stepfork.tool(repeats=True)
    def poll() -> str:
        return "pending"

    assert record(tmp_path / "run.jsonl", poll).call("poll#1").repeats


def test_ignored_arguments_are_not_in_the_file(tmp_path: Path) -> None:
    """``ignore=`` leaves an argument out altogether."""

    @stepfork.tool(ignore=("connection",))
    def query(sql: str, connection: object) -> int:
        return 1

    recorded = record(tmp_path / "run.jsonl", lambda: query("select 1", connection=b"4711"))

    assert recorded.inputs("query") == [{"sql": "select 1"}]
    assert "NDcxMQ" not in recorded.path.read_text()


def test_a_secret_is_known_by_the_name_of_its_parameter(tmp_path: Path) -> None:
    """``password=`` hides whatever is passed, in the file and in a replay (B43, B44)."""

    @stepfork.tool
    def login(user: str, password: str) -> str:
        return f"hello {user}"

    @stepfork.step
    def agent() -> str:
        return login("bob", password="tr0ub4dor-xyz")

    recorded = record(tmp_path / "run.jsonl", agent)

    assert "tr0ub4dor" not in recorded.path.read_text()
    with stepfork.replaying(recorded.path):
        assert agent() == "hello bob"


def test_the_input_of_a_block_is_told_alike_wherever_it_stands(tmp_path: Path) -> None:
    """A run opened by hand inside another one is a step of it, and has its arguments by the same names."""
    path = tmp_path / "run.jsonl"
    with stepfork.run("outer", path=path, a=1), stepfork.run("inner", a=2, name="x"):
        pass

    run = read_run(path)
    assert [call.input for call in run.walk()] == [{"a": 1}, {"a": 2, "name": "x"}]
