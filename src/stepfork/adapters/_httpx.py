"""Hooks httpx and httpx2: a request to a model's provider is a call, and what it is answered by its outcome.

Inside a call of the OpenAI or Anthropic SDK, ``send`` only carries the bytes of that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepfork._context import _frame, busy
from stepfork.adapters._boundary import give_up
from stepfork.adapters._credentials import hide_those_of
from stepfork.adapters._wire import Exchange, guarded, is_inside, under_way, watch_stream
from stepfork.adapters._wire_body import ahead_of
from stepfork.adapters._wire_call import begun
from stepfork.adapters._wire_names import asked_of_http, may_ask
from stepfork.adapters._wire_serve import Replies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import ModuleType

    from stepfork._calls import Shape
    from stepfork._context import Frame
    from stepfork.adapters._patches import Patches

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
    ahead = _ahead(args, kwargs, is_async=False)
    if ahead is not None:
        ahead.read()
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
    ahead = _ahead(args, kwargs, is_async=True)
    if ahead is not None:
        await ahead.read()
    exchange = _begun(instance, args, kwargs, made_in, "astream")
    if exchange is None:
        return await wrapped(*args, **kwargs)
    with exchange:
        return await _asent(exchange, wrapped, args, kwargs)


def _ahead(args: tuple[Any, ...], kwargs: Mapping[str, Any], *, is_async: bool) -> Any:
    """Return what is to be read before it is known what a request asks for; None: nothing."""
    try:
        request = _request(args, kwargs)
        return ahead_of(request, is_async=is_async) if request is not None and may_ask(request) else None
    except Exception as fault:
        give_up(fault)
        return None


def _begun(
    client: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], made_in: Frame | None, shape: Shape
) -> Exchange | Replies | None:
    """Begin the call that a request is; None where it asks no model."""
    try:
        request = _request(args, kwargs)
        asked = None if request is None else asked_of_http(request)
        if asked is not None:
            hide_those_of(request)  # before it is written what is asked
    except Exception as fault:
        give_up(fault)
        return None
    return None if asked is None else begun(asked, client, made_in, shape)


def _request(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return what is to be sent; where there is nothing, it is for the client to say so."""
    return args[0] if args else kwargs.get("request")


def _sent(
    exchange: Exchange | Replies, wrapped: Send, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    if isinstance(exchange, Replies):
        return exchange.send(_request(args, kwargs), stream=bool(kwargs.get("stream")))
    with _OnItsWay(exchange, args, kwargs) as way:
        return way.came(wrapped(*args, **kwargs), is_async=False)


async def _asent(
    exchange: Exchange | Replies, wrapped: Send, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    if isinstance(exchange, Replies):
        return await exchange.asend(_request(args, kwargs), stream=bool(kwargs.get("stream")))
    with _OnItsWay(exchange, args, kwargs) as way:
        return way.came(await wrapped(*args, **kwargs), is_async=True)


class _OnItsWay:
    """An attempt while its request is sent: what sends it further in leaves it alone."""

    def __init__(self, exchange: Exchange, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._exchange = exchange
        self._request = _request(args, kwargs)
        self._is_stream = bool(kwargs.get("stream"))

    def __enter__(self) -> _OnItsWay:
        guarded(self._exchange.frame, _ask_for_text, self._request)
        guarded(self._exchange.frame, hide_those_of, self._request)
        self._attempt = self._exchange.begin_attempt()
        self._exchange.is_carried = True
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        self._exchange.is_carried = False
        if isinstance(error, Exception):
            guarded(self._exchange.frame, self._attempt.broke, error)

    def came(self, response: Any, *, is_async: bool) -> Any:
        """Note the answer, and return it."""
        guarded(self._exchange.frame, self._note, response, is_async=is_async)
        return response

    def _note(self, response: Any, *, is_async: bool) -> None:
        self._attempt.came(response, is_stream=self._is_stream)
        if self._is_stream and not response.is_closed:
            watch_stream(response, self._attempt, self._exchange.sdk, is_async=is_async)


def _ask_for_text(request: Any) -> None:
    """Ask for an answer that can be read, unless the request is signed as it is."""
    signed = request.headers.get("authorization", "").lower()
    if "accept-encoding" not in signed:
        request.headers["accept-encoding"] = "identity"
