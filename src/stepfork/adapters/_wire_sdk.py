"""Hooks the clients that the OpenAI and the Anthropic SDK have in common: one ``request`` is one call.

In a replay the recorded bytes go through the SDK again, so that what its callers get is made by the SDK
itself; what it would do for the request alone (signing it, asking for a token) it does not do.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from stepfork._context import _frame, busy
from stepfork.adapters import _keys
from stepfork.adapters._boundary import give_up
from stepfork.adapters._credentials import hide_those_in
from stepfork.adapters._wire import is_inside, under_way
from stepfork.adapters._wire_call import begun
from stepfork.adapters._wire_names import asked_of_sdk
from stepfork.adapters._wire_serve import Replies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType

    from stepfork._calls import Shape
    from stepfork._context import Frame
    from stepfork.adapters._patches import Patches, Wrapper
    from stepfork.adapters._wire import Exchange

_FOR_THE_REQUEST = (
    "_prepare_options",
    "_prepare_request",
    "_validate_headers",
    "_custom_auth",
    "platform_headers",
)


def hook_client(module: ModuleType, patches: Patches, sdk: str) -> None:
    """Hook the base of an SDK's clients."""
    patches.wrap(module.SyncAPIClient, "request", _sync_request(sdk))
    patches.wrap(module.AsyncAPIClient, "request", _async_request(sdk))
    base = module.BaseClient
    for name in _FOR_THE_REQUEST:
        if name in vars(base):
            patches.wrap(base, name, _left_out_in_a_replay(vars(base)[name]))
    patches.family(base, _FOR_THE_REQUEST, _left_out_in_a_replay)


@cache
def _sync_request(sdk: str) -> Wrapper:
    def request(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        exchange = _begun(sdk, instance, args, kwargs, None, "stream") if busy else None
        if exchange is None:
            return wrapped(*args, **kwargs)
        if isinstance(exchange, Replies):
            args, kwargs = _tried_once(args, kwargs)
        with exchange:
            return wrapped(*args, **kwargs)

    return request


@cache
def _async_request(sdk: str) -> Wrapper:
    async def request_in(
        made_in: Frame | None, wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        exchange = _begun(sdk, instance, args, kwargs, made_in, "astream") if busy else None
        if exchange is None:
            return await wrapped(*args, **kwargs)
        if not isinstance(exchange, Replies):
            with exchange:
                return await wrapped(*args, **kwargs)
        args, kwargs = _tried_once(args, kwargs)
        platform = instance._platform
        instance._platform = platform or "Unknown"  # else a thread is started to find it out
        try:
            with exchange:
                return await wrapped(*args, **kwargs)
        finally:
            instance._platform = platform

    def request(
        wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Awaitable[Any]:
        return request_in(_frame.get(), wrapped, instance, args, kwargs)

    return request


def _begun(
    sdk: str,
    client: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    made_in: Frame | None,
    shape: Shape,
) -> Exchange | Replies | None:
    try:
        options = args[1] if len(args) > 1 else kwargs["options"]
        asked = asked_of_sdk(sdk, options)
        sender = client._client
        if is_inside(sender):
            return None  # hooked twice: for the SDK itself, and for what is built on it
        _hide_those_of(client, options)
    except Exception as fault:
        give_up(fault)
        return None
    return begun(asked, sender, made_in, shape, sdk)


def _hide_those_of(client: Any, options: Any) -> None:
    """Hide what the agent has given, before it is written what it asks; a fetched token comes later."""
    keys = {
        "authorization": getattr(client, "api_key", None),
        "x-api-key": getattr(client, "auth_token", None),
    }
    for headers in (keys, getattr(client, "_custom_headers", None), options.headers):
        if isinstance(headers, Mapping):
            hide_those_in({name: value for name, value in headers.items() if isinstance(value, str)})


def _tried_once(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments of a request that is not tried again: what is recorded is the last attempt."""
    options = copy.copy(args[1] if len(args) > 1 else kwargs["options"])
    options.max_retries = 0
    if len(args) > 1:
        return (args[0], options, *args[2:]), kwargs
    return args, {**kwargs, "options": options}


def _left_out_in_a_replay(raw: Any) -> Wrapper:
    """Return what leaves out the work that is done for the request alone, of which nothing is sent."""
    return _left_out(raw.__name__, is_async=inspect.iscoroutinefunction(raw))


@cache
def _left_out(name: str, *, is_async: bool) -> Wrapper:
    async def later(value: Any) -> Any:
        return value

    def call(wrapped: Any, _instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not isinstance(under_way.get(), Replies):
            return wrapped(*args, **kwargs)
        value: Any = None
        if name == "_prepare_options":
            value = args[0] if args else kwargs["options"]
        elif name == "platform_headers":
            value = {}
        return later(value) if is_async else value

    return call


def without_key(error_of: Callable[[], type[Exception]], placeholders: Mapping[str, Any]) -> Wrapper:
    """Return what lets a client be built without credentials where nothing will be asked of it.

    ``placeholders`` are tried one more at a time: some exclude what was given.
    """

    def init(wrapped: Any, _instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not _keys.may_be_missing():
            return wrapped(*args, **kwargs)
        given = {name: value for name, value in kwargs.items() if value is not None}
        for count in range(len(placeholders)):
            instead = dict(list(placeholders.items())[:count])
            try:
                return wrapped(*args, **{**instead, **given})
            except (error_of(), ValueError):
                continue
        return wrapped(*args, **{**placeholders, **given})

    return init
