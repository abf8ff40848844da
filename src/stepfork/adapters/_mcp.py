"""Clients of MCP servers: each request is a tool call, whatever it travels on.

What is recorded of a result is its JSON, so that neither a later version of the SDK nor a hand that
edits the recording has to know its classes. In a replay a server is reached only for a call that runs live.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from stepfork._context import _frame, replay_is_open, running
from stepfork._served import served_later
from stepfork.adapters._boundary import frame_of
from stepfork.adapters._mcp_connection import SERVER, Connection, connection_of, is_replayed, runs_live

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import ModuleType

    from stepfork._context import Frame
    from stepfork.adapters._boundary import Described
    from stepfork.adapters._patches import Patches

    Execute = Callable[[Any], Awaitable[Any]]

HANDSHAKES = ("initialize", "server/discover")


def hook(module: ModuleType, patches: Patches) -> None:
    """Hook the sessions of clients, of either generation of the SDK."""
    session = module.ClientSession
    patches.wrap(session, "send_request", _send_request)
    patches.wrap(session, "send_notification", _send_notification)
    if hasattr(session, "send_discover"):
        patches.wrap(session, "send_discover", _send_discover)
    patches.wrap(session, "_on_request" if hasattr(session, "_on_request") else "_received_request", _asked)


def mcp_frame(describe: Callable[[], Described], made_in: Frame | None = None) -> Frame | None:
    """Return the frame of what is asked of a server."""
    return frame_of("tool", describe, made_in, tolerance=_tolerance() if replay_is_open() else ())


async def unanswered(method: str) -> None:
    """Refuse a request that was not recorded, since no call of the SDK's sends it."""
    frame = mcp_frame(lambda: (_name_of(method), {}))
    if frame is not None and frame.answer is not None:
        await served_later(frame.answer)


@cache
def _tolerance() -> tuple[tuple[str, Any], ...]:
    """Of calls that are equal but for the server it is the one of the same server that answers."""
    from stepfork.tolerance import anything

    return ((f'$.input["{SERVER}"]', anything()),)


def _send_request(wrapped: Any, session: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    given = dict(zip(_PARAMETERS, args, strict=False)) | dict(kwargs)
    if "request" not in given:
        return wrapped(*args, **kwargs)  # which says so
    request = getattr(given["request"], "root", given["request"])

    async def execute(told: Any) -> Any:
        return await wrapped(**{**given, "progress_callback": told})

    return _request(session, request, given, execute, _frame.get())


_PARAMETERS = ("request", "result_type", "request_read_timeout_seconds", "metadata", "progress_callback")


async def _request(
    session: Any, request: Any, given: Mapping[str, Any], execute: Execute, made_in: Frame | None
) -> Any:
    connection = connection_of(session)
    told = given.get("progress_callback")
    frame = mcp_frame(lambda: _described(request, connection), made_in)
    if frame is None or frame.answer is None:
        return await _executed(execute, connection, frame, request.method, told)
    if told is not None and not hasattr(frame.answer, "injected"):
        for progress in frame.answer.items():
            await _report(told, progress)
    result = await _served(frame, connection, request.method, lambda: execute(None))
    return _rebuilt(result, given["result_type"]) if isinstance(result, dict) else result


def _send_discover(wrapped: Any, session: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    async def execute(_told: Any) -> Any:
        return await wrapped(*args, **kwargs)

    async def discover(made_in: Frame | None) -> Any:
        connection = connection_of(session)
        frame = mcp_frame(lambda: ("mcp.server.discover", connection.place), made_in)
        if frame is None or frame.answer is None:
            return await _executed(execute, connection, frame, "server/discover", None)
        return await _served(frame, connection, "server/discover", lambda: execute(None))

    return discover(_frame.get())


def _described(request: Any, connection: Connection) -> Described:
    method, params = request.method, request.params
    if method in HANDSHAKES:  # the version of the SDK is in it
        return _name_of(method), connection.place
    if method != "tools/call":
        return _name_of(method), _fields(params, exclude={"meta"}) | connection.named
    driven = _fields(params, include={"input_responses", "request_state"})
    arguments = dict(params.arguments or {}) | {f"mcp.{name}": value for name, value in driven.items()}
    return params.name, arguments | connection.named


def _name_of(method: str) -> str:
    return "mcp." + method.replace("/", ".")


def _fields(params: Any, **which: Any) -> dict[str, Any]:
    if params is None:
        return {}
    fields: dict[str, Any] = params.model_dump(by_alias=True, mode="json", exclude_none=True, **which)
    return fields


async def _served(frame: Frame, connection: Connection, method: str, send: Callable[[], Any]) -> Any:
    assert frame.answer is not None
    if method in HANDSHAKES:
        connection.unsent.append(send)
    result = await served_later(frame.answer)
    if method in HANDSHAKES:
        connection.learn(result)
    return result


async def _executed(
    execute: Execute, connection: Connection, frame: Frame | None, method: str, told: Any
) -> Any:
    if runs_live(frame):
        with running(frame):
            await connection.catch_up()
    if frame is None:
        result = await execute(told)
        if method in HANDSHAKES:
            with suppress(Exception):  # nothing is recorded that could be given up
                connection.learn(_as_json(result))
        return result
    caller = _frame.get()
    try:
        with connection.executing(frame, method):
            result = await execute(None if told is None else _noting(told, frame, caller))
    except BaseException as error:
        frame.raised(error, "value")
        raise
    try:
        value = _as_json(result)
        if method in HANDSHAKES:
            connection.learn(value)
    except Exception as fault:
        frame.session.give_up(fault)
    else:
        frame.returned(value, "value")
    return result


def _as_json(result: Any) -> Any:
    """Return what the server sent, as its fields were named there."""
    if isinstance(result, dict):
        return result
    return result.model_dump(by_alias=True, mode="json", exclude_unset=True)


def _rebuilt(value: dict[str, Any], result_type: Any) -> Any:
    """Return the object that the SDK makes of it."""
    if hasattr(result_type, "validate_python"):
        return result_type.validate_python(value, by_name=False)
    return result_type.model_validate(value)


def _noting(told: Any, frame: Frame, caller: Frame | None) -> Any:
    """Record the progress that the server reports; what the agent does then is the caller's."""

    async def note(progress: float, total: float | None = None, message: str | None = None) -> None:
        if not frame.is_ended:
            frame.item([progress, total, message])
        with running(caller):
            await told(progress, total, message)

    return note


async def _report(told: Any, progress: Any) -> None:
    """Tell the agent of it once more; the SDK keeps to itself what goes wrong there."""
    try:
        await told(*progress)
    except Exception:
        import logging

        logging.getLogger("mcp").exception("progress callback raised")


def _send_notification(wrapped: Any, session: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    async def notify() -> None:
        connection = connection_of(session)
        if not is_replayed() or connection.is_reached:
            await wrapped(*args, **kwargs)
            return
        notification = args[0] if args else kwargs["notification"]
        if getattr(notification, "root", notification).method == "notifications/initialized":
            connection.unsent.append(lambda: wrapped(*args, **kwargs))

    return notify()


def _asked(wrapped: Any, session: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What a server asks back (for a sample, for the user) stands below the call that made it ask."""
    frame = connection_of(session).newest

    async def ask() -> Any:
        with running(frame):
            return await wrapped(*args, **kwargs)

    return wrapped(*args, **kwargs) if frame is None else ask()
