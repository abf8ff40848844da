"""A replay that stopped, or that may still hold the bug, is neither green nor accepted, whatever it does."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import pytest

import stepfork
from replays import record, stops
from stepfork._calls import Criterion, Failure
from stepfork._recording import read_run
from stepfork._replay.load import Recording
from stepfork._verdict import snapshot as snapshots
from stepfork._verdict.assess import Assessment, assess
from stepfork.errors import ReplayStopped


@stepfork.tool
def look(order: str) -> dict[str, int]:
    return {"total": 120}


@stepfork.tool
def page(whom: str) -> None: ...


@stepfork.tool
async def apage(whom: str) -> None: ...


@stepfork.tool
def charge(order: str) -> str:
    raise TimeoutError("no answer")


class Case:
    """One recorded agent, and what the verdict is on another that takes its place."""

    def __init__(self, folder: Path) -> None:
        self.recording = folder / "run.jsonl"
        self.snapshot = folder / "test.yaml"

    def record(self, agent: Callable[[], Any]) -> None:
        with suppress(Exception):
            record(self.recording, agent)

    def record_root(self, agent: Callable[[], Any]) -> None:
        """Record a step that is the root itself, as a stranger's run is."""
        stepfork.configure(record_under_pytest=True)
        agent()
        stepfork.configure(record_under_pytest=False)
        (journal,) = (Path(os.environ["STEPFORK_DIR"]) / "runs").glob("*.jsonl")
        self.recording.write_bytes(journal.read_bytes())

    def assess(self, agent: Callable[[], Any]) -> Assessment:
        return assess(stepfork.replay(self.recording, agent), self.snapshot, "test_it")

    def accept(self, agent: Callable[[], Any]) -> None:
        snapshots.write(self.snapshot, self.assess(agent).text)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def swallowed() -> None:
    with suppress(BaseException):
        page("on-call")


jobs: queue.Queue[threading.Event] = queue.Queue()


def work() -> None:
    while True:
        done = jobs.get()
        swallowed()
        done.set()


threading.Thread(target=work, daemon=True).start()


def in_an_empty_context() -> None:
    contextvars.Context().run(swallowed)


@stepfork.step
def escalate() -> None:
    swallowed()


def in_a_step_in_an_empty_context() -> None:
    contextvars.Context().run(escalate)


def in_a_raw_thread() -> None:
    done = threading.Event()

    def run() -> None:
        swallowed()
        done.set()

    _thread.start_new_thread(run, ())
    done.wait()


def in_an_old_worker_thread() -> None:
    done = threading.Event()
    jobs.put(done)
    done.wait()


def in_a_task_with_an_empty_context() -> None:
    async def main() -> None:
        with suppress(BaseException):
            await asyncio.create_task(apage("on-call"), context=contextvars.Context())

    asyncio.run(main())


WITHOUT_CONTEXT = [value for name, value in sorted(globals().items()) if name.startswith("in_a")]


@pytest.mark.parametrize("escape", WITHOUT_CONTEXT, ids=lambda escape: escape.__name__)
def test_a_call_without_context_stops_an_accepted_run(case: Case, escape: Callable[[], None]) -> None:
    """It hangs on the root that runs, as in a recording: so the document and every criterion see it (B27)."""
    escapes: list[Callable[[], None]] = []

    @stepfork.step
    def handle() -> int:
        total = look("A-17")["total"]
        for each in escapes:
            each()
        return total

    case.record_root(handle)
    case.accept(handle)
    assert case.assess(handle).row.name == "as accepted"
    escapes.append(escape)
    assessment = case.assess(handle)
    assert stops(assessment.replayed) in (["page#1"], ["apage#1"])
    assert (assessment.row.name, assessment.row.update) == ("stopped, but ended once", "refuse")


def test_a_criterion_sees_a_call_without_context(case: Case) -> None:
    """--never counts the calls of the whole run, in whatever context they were made."""

    @stepfork.step
    def handle() -> int:
        in_an_empty_context()
        return look("A-17")["total"]

    case.record(lambda: look("A-17"))
    run = read_run(case.recording)
    run.failure, run.criterion = Failure("marked"), Criterion(never=("page",))
    replayed = stepfork.replay(case.recording, handle)
    replayed.recording = Recording(case.recording, run, [])
    assert assess(replayed, case.snapshot, "test_it").row.name == "still failing"


def bug() -> int:
    return look("A-17")["amount"]


class PagesOnTheWayOut:
    """A context manager that calls a tool as it is left."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        page("on-call")


def handler_pages() -> int:
    try:
        return bug()
    except KeyError:
        page("on-call")
        raise


def finally_pages() -> int:
    try:
        return bug()
    finally:
        page("on-call")


def leaving_a_block_pages() -> int:
    with PagesOnTheWayOut():
        return bug()


def a_step_of_the_handler_pages() -> int:
    @stepfork.step
    def escalate_now() -> None:
        page("on-call")

    try:
        return bug()
    except KeyError:
        escalate_now()
        raise


def a_thread_of_the_handler_pages() -> int:
    from concurrent.futures import ThreadPoolExecutor

    try:
        return bug()
    except KeyError:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(page, "on-call").result()
        raise


async def a_coroutine_of_the_handler_pages() -> int:
    try:
        return bug()
    except KeyError:
        await apage("on-call")
        raise


def the_stop_becomes_the_bug() -> int:
    try:
        page("on-call")
    except ReplayStopped:
        raise KeyError("amount")
    return 0


def the_bug_pretends_to_come_of_a_stop() -> NoReturn:
    with suppress(ReplayStopped):
        page("on-call")
    raise KeyError("amount") from ReplayStopped("x")


HANDLERS = [
    handler_pages,
    finally_pages,
    leaving_a_block_pages,
    a_step_of_the_handler_pages,
    a_thread_of_the_handler_pages,
    a_coroutine_of_the_handler_pages,
    the_stop_becomes_the_bug,
    the_bug_pretends_to_come_of_a_stop,
]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_the_bug_is_not_gone_because_its_handler_asks_for_something_new(
    case: Case, handler: Callable[[], int | Coroutine[Any, Any, int]]
) -> None:
    """Where the replay stops with the recorded failure under way nobody can tell; it is not accepted."""
    parts: list[Callable[[], Any]] = [bug]

    @stepfork.step
    async def handle() -> Any:
        result = parts[0]()
        return await result if asyncio.iscoroutine(result) else result

    case.record(handle)
    assert case.assess(handle).row.name == "still failing"
    parts[0] = handler
    assessment = case.assess(handle)
    assert stops(assessment.replayed)
    assert assessment.judgement.finding in ("shown", "unknown")
    assert (assessment.row.check, assessment.row.update) == ("fail", "refuse")


def test_a_bug_of_a_step_is_under_way_in_the_step_that_handles_it(case: Case) -> None:
    """The exception has left the step where it was raised: that is its place, as it was recorded."""

    @stepfork.step
    def decide() -> int:
        return bug()

    @stepfork.step
    def handle(pages: bool = False) -> int:
        try:
            return decide()
        except KeyError:
            if pages:
                page("on-call")
            raise

    case.record(handle)
    assessment = case.assess(lambda: handle(pages=True))
    assert assessment.row.name == "cannot be judged: stopped"


def test_a_fix_that_goes_on_after_another_exception_is_accepted(case: Case) -> None:
    """An exception of another kind under way at the frontier says nothing of the recorded failure."""

    @stepfork.step
    def handle(mended: bool = False) -> int:
        if not mended:
            return bug()
        try:
            raise ValueError("handled")
        except ValueError:
            page("on-call")
        return look("A-17")["total"]

    case.record(handle)
    assert case.assess(lambda: handle(mended=True)).judgement.finding == "gone"


def test_a_fix_that_handles_what_a_tool_raised_is_accepted(case: Case) -> None:
    """Retrying, or asking another tool, is how such a failure is mended: its handler is past the bug."""

    @stepfork.step
    def handle(mended: bool = False) -> str:
        try:
            return charge("A-17")
        except TimeoutError:
            if not mended:
                raise
            return charge("A-17")

    case.record(handle)
    assert case.assess(handle).row.name == "still failing"
    assert case.assess(lambda: handle(mended=True)).judgement.finding == "gone"


def test_a_run_called_failed_after_a_stop_cannot_be_judged(case: Case) -> None:
    """An agent that catches the stop and then calls itself failed may do so because of it, or as before."""

    def before() -> None:
        stepfork.fail("gave up")

    def now() -> None:
        try:
            page("on-call")
        except BaseException:
            stepfork.fail("gave up")

    case.record(before)
    assert case.assess(before).row.name == "still failing"
    assert case.assess(now).row.name == "cannot be judged: stopped"


def test_a_stop_that_no_call_shows_is_never_like_what_ended(case: Case) -> None:
    """Whatever the document says: a replay with a frontier is another than one that ended."""

    @stepfork.step
    def handle() -> int:
        return look("A-17")["total"]

    case.record(handle)
    case.accept(handle)
    replayed = stepfork.replay(case.recording, handle)
    stopped = stepfork.replay(case.recording, lambda: (handle(), page("on-call")))
    replayed.frontiers = stopped.frontiers
    assessment = assess(replayed, case.snapshot, "test_it")
    assert (assessment.case.likeness, assessment.row.check) == ("different", "fail")


SECRET = "sk-ant-api03-" + "Zq8" * 30


def test_what_a_failure_says_is_redacted(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the text of an exception, or of fail(), reaches neither a snapshot nor a report."""

    @stepfork.step
    def handle(how: str) -> None:
        if how == "raise":
            raise ValueError(f"refused for {SECRET}")
        stepfork.fail(f"refused for {SECRET}")

    for how in ("raise", "fail"):
        path = case.recording.with_name(f"{how}.jsonl")
        with suppress(ValueError):
            record(path, lambda how=how: handle(how))
        assessment = assess(stepfork.replay(path, lambda how=how: handle(how)), case.snapshot, "test_it")
        assert assessment.judgement.finding == "shown"
        assert "refused for" in assessment.judgement.reason
        assert SECRET not in assessment.judgement.reason + assessment.text
