"""Runs the root function of a replay, sync or async, within its time limit."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork import _context
from stepfork._calls import Call, Outcome, Run
from stepfork._codec import decode
from stepfork._control_flow import at_heart, is_control_flow
from stepfork._paths import project_root
from stepfork._replay.extension import ExtensionWriter
from stepfork._replay.leaving import end_child, let_go
from stepfork._replay.load import Recording, load_recording
from stepfork._replay.override import Overrides
from stepfork._replay.processes import watching_processes
from stepfork._replay.protocol import new_session
from stepfork._replay.result import Replayed
from stepfork._replay.root_call import root_arguments
from stepfork._replay.stop import comes_of_stop
from stepfork._replay.surroundings import surroundings_of
from stepfork._replay.time_limit import LoopLimit, time_limit
from stepfork._settings import Settings, settings
from stepfork._spec import spec_of
from stepfork.errors import OptionError, ReplayStopped, ReplayTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from stepfork._calls import Failure
    from stepfork.tolerance import Rule

_QUIET_TURNS = 20
"""Turns of the event loop without a new call after which nothing more is expected from other tasks."""


class Conductor:
    """One replay from its options to its result."""

    def __init__(
        self,
        recording: Recording,
        function: Callable[..., Any],
        *,
        override: Mapping[str, Any],
        live: frozenset[str],
        tolerance: Mapping[str, Rule],
        timeout: float | None,
        extend: tuple[str, ...] | None,
        provided: Mapping[str, Any],
    ) -> None:
        chosen = settings(project_root(recording.path.parent))
        self.recording = recording
        self.function = function
        self.extension = None
        if extend is not None:
            self.extension = ExtensionWriter(recording.path, recording.run.id, extend)
            self.extension.expect(recording.run)
        self.overrides = Overrides(override, chosen.override)
        self.seconds = chosen.timeout if timeout is None else timeout
        self.session = new_session(
            recording,
            chosen,
            overrides=self.overrides,
            tolerance=tolerance,
            live=live,
            extension=self.extension,
        )
        self._asks_somebody = bool(live) or extend is not None
        self.limit = LoopLimit()
        self._process = os.getpid()
        self.value: Any = None
        self.error: BaseException | None = None
        self.spec = spec_of(function)
        self.args, self.kwargs = self._arguments(provided, chosen)

    def _arguments(
        self, provided: Mapping[str, Any], chosen: Settings
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        hints = self.spec.hints if self.spec else []
        return root_arguments(
            self.function,
            self.recording.run.root,
            provided,
            lambda plain: decode(plain, hints=hints, aliases=chosen.moved),
        )

    @contextlib.contextmanager
    def _on_stage(self) -> Iterator[None]:
        session = self.session
        with watching_processes(session), _context.opened(session), _context.running(session.base):
            try:
                with time_limit(self.seconds, self.limit.expired):
                    session.begin()
                    yield
            except BaseException as error:
                end_child(self._process, error)
                if self._is_for_caller(error):
                    raise
                self.error = error
            finally:
                end_child(self._process, None)
                self.limit.lift()
                session.end(self.value, self.error)
                session.close()
                let_go(self.error)

    def _is_for_caller(self, error: BaseException) -> bool:
        """Whether Ctrl-C was pressed, or the task that replays was cancelled, just now."""
        if isinstance(error, KeyboardInterrupt):
            return not self.session.failures.was_served(error)
        return isinstance(error, asyncio.CancelledError) and self.limit.is_cancelled_from_outside()

    def _surroundings(self) -> AbstractContextManager[None]:
        return surroundings_of(self.recording.run, asks_somebody=self._asks_somebody)

    def play(self) -> Replayed:
        """Run a root in this thread; an async one in an event loop of its own."""
        with self._surroundings():
            return self._play()

    def _play(self) -> Replayed:
        if self._is_async():
            _refuse_running_loop()
            with self._on_stage():
                self._play_in_loop(self._call)
        else:
            with self._on_stage():
                result = self._call()
                if inspect.isawaitable(result) or inspect.isasyncgen(result):
                    self._play_in_loop(lambda: result)
                else:
                    self.value = _drawn(result, self._chunks_recorded())
        return self._result()

    async def aplay(self) -> Replayed:
        """Run an async root in the event loop that is running."""
        with self._surroundings():
            with self._on_stage():
                await self._awaited(self._call)
            return self._result()

    def _call(self) -> Any:
        return _as_it_is_now(self.function)(*self.args, **self.kwargs)

    def _play_in_loop(self, start: Callable[[], Any]) -> None:
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(_without_stops)
            runner.run(self._awaited(start))

    def _is_async(self) -> bool:
        target = (
            self.function if inspect.isroutine(self.function) else getattr(self.function, "__call__", None)  # noqa: B004
        )
        return (
            inspect.iscoroutinefunction(target)
            or inspect.isasyncgenfunction(target)
            or self.recording.run.root.outcome.shape in ("awaitable", "astream")
        )

    async def _awaited(self, start: Callable[[], Any]) -> None:
        self.limit.watch_this_task()
        self.session.begin()
        try:
            result = start()
            if inspect.isawaitable(result):
                result = await result
            if inspect.isasyncgen(result):
                self.value = await _adrawn(result, self._chunks_recorded())
            else:
                self.value = _drawn(result, self._chunks_recorded())
        except ReplayStopped:
            await self._let_others_finish()
            raise
        except BaseException:
            self.session.is_ending = not self.session.has_stopped
            await self._let_others_finish()
            raise
        # In the recording these tasks had the time that the tools took; what they did not ask for
        # before the root ended was not recorded, and is no frontier.
        self.session.is_ending = not self.session.has_stopped
        await self._let_others_finish()

    async def _let_others_finish(self) -> None:
        """Let tasks that run beside the root reach their own end, so that it is always the same."""
        if self.session.arrivals is not None:
            self.session.arrivals.hurry()
        quiet, seen = 0, self.session.calls_made
        while quiet < _QUIET_TURNS and len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.session.calls_made == seen else 0
            seen = self.session.calls_made

    def _chunks_recorded(self) -> int | None:
        """Return how many chunks the recorded consumer took before it left; None: all."""
        outcome = self.recording.run.root.outcome
        return len(outcome.items or ()) if outcome.status == "closed_early" else None

    def _result(self) -> Replayed:
        session = self.session
        if session.errors:
            raise session.errors[0]
        run = self._run()
        timed_out = self.limit.is_over
        addresses = [call.address for call in run.walk() if call.kind != "step"]
        if self.extension is not None:
            self.extension.check_used([*self.recording.addresses, *addresses])
        # An agent that ended with a failure may not have come as far as the call: that is what to tell.
        if not session.frontiers and not timed_out and run.failure is None:
            self.overrides.check_used(addresses)
        return Replayed(
            self.recording,
            run,
            value=self.value,
            error=self._time_error() if timed_out else self.error,
            expected=self.spec.options.expected if self.spec else (),
            frontiers=session.frontiers,
            under_way=session.failures.under_way,
            unused_calls=session.unused,
            unknown_overrides=self.overrides.unknown([*self.recording.addresses, *addresses]),
            facts=session.bindings.facts,
            clock=session.clock,
            rules={name: rules for name, rules in session.rules.items() if rules is not None},
            given_rules=session.given_rules,
            timed_out=timed_out,
            extended=list(self.extension.calls) if self.extension else [],
            hints=tuple(self.spec.hints) if self.spec else (),
        )

    def _time_error(self) -> ReplayTimeout:
        return ReplayTimeout(
            f"the replay of {self.recording.name} took longer than {self.seconds:g} s",
            ways_on=[
                "replay(..., timeout=SECONDS), or [tool.stepfork] timeout",
                "look for a loop that waits for a call",
            ],
        )

    def _run(self) -> Run:
        recorded = self.recording.run
        made = self.session.calls
        root = made[0] if made else _no_call(recorded, self.value)
        return Run(
            id=recorded.id,
            name=recorded.name,
            root=root,
            failure=self._failure(root),
            criterion=recorded.criterion,
            entry=recorded.entry,
            facts=recorded.facts,
        )

    def _failure(self, root: Call) -> Failure | None:
        """Return the failure; an exception that only came of the stop is none, and hides none."""
        error, failures = self.error, self.session.failures
        expected = self.spec.options.expected if self.spec else ()
        cause = error and at_heart(error)
        if cause is None or self.limit.is_over or is_control_flow(cause) or isinstance(cause, expected):
            return failures.first
        if comes_of_stop(error):
            failures.stopped(error, root.address)
            return failures.first
        return failures.raised(cause, root.address)


def _as_it_is_now(function: Any) -> Any:
    """Return a method that an adapter may have wrapped since the test took it from its object."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", None)
    if owner is None or not isinstance(name, str) or not inspect.ismethod(function):
        return function
    return getattr(owner, name, function)


def _no_call(recorded: Run, value: Any) -> Call:
    """Stands for the root where the function made no decorated call at all."""
    from stepfork._codec import encode

    return Call(
        "step", recorded.root.name, recorded.root.address, {}, Outcome("returned", encode(value).plain)
    )


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise OptionError(
        "this agent is async and an event loop is running here already",
        ways_on=["in an async test use the fixture areplay: run = await areplay(...)"],
    )


def _without_stops(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), ReplayStopped):
        loop.default_exception_handler(context)


def _drawn(result: Any, limit: int | None) -> Any:
    """Return a stream's chunks, as many as were taken when it was recorded; anything else as it is."""
    if not (inspect.isgenerator(result) or type(result).__name__ == "WatchedIterator"):
        return result
    chunks = []
    if limit != 0:
        for item in result:
            chunks.append(item)
            if len(chunks) == limit:
                break
    close = getattr(result, "close", None)
    if limit is not None and close is not None:
        close()
    return chunks


async def _adrawn(result: Any, limit: int | None) -> list[Any]:
    chunks: list[Any] = []
    if limit != 0:
        async for item in result:
            chunks.append(item)
            if len(chunks) == limit:
                break
    if limit is not None:
        await result.aclose()
    return chunks


def replay(
    recording: str | Path,
    function: Callable[..., Any],
    /,
    *,
    override: Mapping[str, Any] | None = None,
    live: set[str] | frozenset[str] = frozenset(),
    tolerance: Mapping[str, Rule] | None = None,
    timeout: float | None = None,
    **provided: Any,
) -> Replayed:
    """Run ``function`` again with its tools and models answered from a recording.

    ``recording`` is a path. ``override`` maps an address, its end or a tool's name to a value or
    exception that is served instead; ``live`` names models or tools that really run; ``tolerance``
    maps paths to rules; ``timeout`` is in seconds. Further keywords are arguments of the root that
    were not recorded. Raises the errors of a recording that cannot be read or no longer fits; how
    the agent itself ended is in the result.
    """
    return _conductor(recording, function, override, live, tolerance, timeout, provided).play()


async def areplay(
    recording: str | Path,
    function: Callable[..., Awaitable[Any]],
    /,
    *,
    override: Mapping[str, Any] | None = None,
    live: set[str] | frozenset[str] = frozenset(),
    tolerance: Mapping[str, Rule] | None = None,
    timeout: float | None = None,
    **provided: Any,
) -> Replayed:
    """Do what :func:`replay` does, in the event loop that is running."""
    return await _conductor(recording, function, override, live, tolerance, timeout, provided).aplay()


def _conductor(
    recording: str | Path,
    function: Callable[..., Any],
    override: Mapping[str, Any] | None,
    live: set[str] | frozenset[str],
    tolerance: Mapping[str, Rule] | None,
    timeout: float | None,
    provided: Mapping[str, Any],
) -> Conductor:
    return Conductor(
        load_recording(Path(recording)),
        function,
        override=override or {},
        live=frozenset(live),
        tolerance=tolerance or {},
        timeout=timeout,
        extend=None,
        provided=provided,
    )
