"""Makes the answer to a call out of its recorded outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from stepfork._calls import Call
from stepfork._codec import decode, decode_exception
from stepfork._mutation.apply import ChangeMisfit, apply
from stepfork._replay.maker import loop_runs_here
from stepfork._replay.serve import Recorded
from stepfork.errors import ReplayStopped, StepforkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Plain
    from stepfork._replay.session import Replay
    from stepfork._spec import Spec


def recorded_answer(
    session: Replay, spec: Spec, recorded: Call, call: Call, arguments: Mapping[str, Any]
) -> Recorded:
    """Let ``call`` be answered by what ``recorded`` did, on its live arguments too."""
    options: dict[str, Any] = {"hints": spec.hints, "aliases": session.moved_classes}

    def decoded(plain: Plain) -> Any:
        try:
            return decode(session.bindings.rebound(plain), **options)
        except StepforkError as error:
            _refuse(session, error)

    def decoded_exception(plain: Plain) -> BaseException:
        try:
            error = decode_exception(session.bindings.rebound(plain), **options)
        except StepforkError as misfit:
            _refuse(session, misfit)
        seen(error)
        session.failures.mark_served(error)
        return error

    def seen(error: BaseException) -> None:
        session.failures.origin(error, _origin_now(recorded, call))

    def change() -> None:
        for name, changes in (recorded.outcome.changes or {}).items():
            if name in arguments:
                try:
                    apply(arguments[name], changes, decoded)
                except ChangeMisfit as misfit:
                    why = f"what it changed in {name} has no place there: {misfit}"
                    raise session.stop(call, why) from None

    def wait(seconds: float) -> None:
        if not loop_runs_here():
            session.wait(seconds)

    def part(below: Call) -> Recorded:
        return recorded_answer(session, spec, below, _moved(below, recorded.address, call.address), {})

    def stop(why: str) -> ReplayStopped:
        return session.stop(call, why)

    return Recorded(recorded, decoded, decoded_exception, change, stop, wait, part, seen)


def _moved(below: Call, then: str, now: str) -> Call:
    address = now + below.address[len(then) :]
    return Call(below.kind, below.name, address, below.input, below.outcome)


def _refuse(session: Replay, error: StepforkError) -> NoReturn:
    """A recorded value that no longer fits its class must not look like a fault of the agent."""
    session.errors.append(error)
    raise ReplayStopped(str(error)) from error


def _origin_now(recorded: Call, call: Call) -> str:
    """Return where the recorded exception was first seen, as addresses are now."""
    origin = recorded.outcome.origin or recorded.address
    if origin == recorded.address or origin.startswith(f"{recorded.address}/"):
        return call.address + origin[len(recorded.address) :]
    return origin
