"""Hooks httpx and httpx2: a request to a model's provider is a call, and what it is answered by its outcome.

Inside a call of the OpenAI or Anthropic SDK, ``send`` only carries the bytes of that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepfork._context import _frame, busy
from stepfork.adapters._boundary import give_up
from stepfork.adapters._wire import Exchange, guarded, is_inside, under_way, watch_stream
from stepfork.adapters._wire_call import begun
from stepfork.adapters._wire_names import asked_of_http
from stepfork.adapters._wire_serve import Replies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import ModuleType

    from stepfork._calls import Shape
    from stepfork._context import Frame
    from stepfork.adapters._patches import Patches
    from stepfork.adapters._wire import Attempt

    Send = Callable[..., Any]


def hook(module: ModuleType, patches: Patches) -> None:
    """Hook what sends requests, those of no SDK too."""
    patches.wrap(module.Client, "send", _send)
    patches.wrap(module.AsyncClient, "send", _asend)


def hook_carrier(module: ModuleType, patches: Patches) -> None:
    """Hook what sends the requests of an SDK."""
    patches.wrap(module.Client, "send", _carry)
    patches.wrap(module.AsyncClient, "send", _acarry)


def _carry(wrapped: Send, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    exchange = _carried(instance) if busy else None
    if exchange is None:
        return wrapped(*args, **kwargs)
    return _sent(exchange, wrapped, args, kwargs)


async def _acarry(wrapped: Send, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    exchange = _carried(instance) if busy else None
    if exchange is None:
        return await wrapped(*args, **kwargs)
    return await _asent(exchange, wrapped, args, kwargs)


def _carried(client: Any) -> Exchange | Replies | None:
    """Return the exchange of an SDK that a request of this client is part of."""
    exchange = under_way.get()
    return (
        exchange if exchange is not None and exchange.client is client and not exchange.is_carried else None
    )


def _send(wrapped: Send, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if not busy or is_inside(instance):
        return _carry(wrapped, instance, args, kwargs)
    exchange = _begun(instance, args, kwargs, None, "stream")
    if exchange is None:
        return wrapped(*args, **kwargs)
    with exchange:
        return _sent(exchange, wrapped, args, kwargs)


def _asend(wrapped: Send, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Awaitable[Any]:
    return _asend_in(_frame.get(), wrapped, instance, args, kwargs)


async def _asend_in(
    made_in: Frame | None, wrapped: Send, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    if not busy or is_inside(instance):
        return await _acarry(wrapped, instance, args, kwargs)
    exchange = _begun(instance, args, kwargs, made_in, "astream")
    if exchange is None:
        return await wrapped(*args, **kwargs)
    with exchange:
        return await _asent(exchange, wrapped, args, kwargs)


def _begun(
    client: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], made_in: Frame | None, shape: Shape
) -> Exchange | Replies | None:
    """Begin the call that a request is; None where it asks no model."""
    if not args and "request" not in kwargs:
        return None  # it is for the client to say so
    try:
        asked = asked_of_http(_request(args, kwargs))
    except Exception as fault:
        give_up(fault)
        return None
    return None if asked is None else begun(asked, client, made_in, shape)


def _request(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return args[0] if args else kwargs["request"]


def _sent(
    exchange: Exchange | Replies, wrapped: Send, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    request, is_stream = _request(args, kwargs), bool(kwargs.get("stream"))
    if isinstance(exchange, Replies):
        return exchange.send(request, stream=is_stream)
    attempt = _attempt(exchange, request)
    exchange.is_carried = True
    try:
        response = wrapped(*args, **kwargs)
    except Exception as error:
        guarded(exchange.frame, attempt.broke, error)
        raise
    finally:
        exchange.is_carried = False
    guarded(exchange.frame, _note, exchange, attempt, response, is_stream=is_stream, is_async=False)
    return response


async def _asent(
    exchange: Exchange | Replies, wrapped: Send, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    request, is_stream = _request(args, kwargs), bool(kwargs.get("stream"))
    if isinstance(exchange, Replies):
        return await exchange.asend(request, stream=is_stream)
    attempt = _attempt(exchange, request)
    exchange.is_carried = True
    try:
        response = await wrapped(*args, **kwargs)
    except Exception as error:
        guarded(exchange.frame, attempt.broke, error)
        raise
    finally:
        exchange.is_carried = False
    guarded(exchange.frame, _note, exchange, attempt, response, is_stream=is_stream, is_async=True)
    return response


def _attempt(exchange: Exchange, request: Any) -> Attempt:
    """Begin an attempt, and ask for an answer that can be read, unless the request is signed as it is."""
    guarded(exchange.frame, _ask_for_text, request)
    return exchange.begin_attempt()


def _ask_for_text(request: Any) -> None:
    signed = request.headers.get("authorization", "").lower()
    if "accept-encoding" not in signed:
        request.headers["accept-encoding"] = "identity"


def _note(exchange: Exchange, attempt: Attempt, response: Any, *, is_stream: bool, is_async: bool) -> None:
    attempt.came(response, is_stream=is_stream)
    if is_stream and not response.is_closed:
        watch_stream(response, attempt, exchange.sdk, is_async=is_async)
