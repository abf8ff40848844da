"""Requests and responses of httpx, as values and as what the errors of SDKs carry.

Headers of a request hold credentials and none of its callers reads them again: they are left out. An error
keeps less: of a request its method and path, of a response what a client acts upon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from stepfork._codec.types import type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._codec.registry import Pair

KEPT_HEADERS: Final = frozenset(
    {
        "content-type",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-amzn-errortype",
        "x-amzn-requestid",
        "x-request-id",
        "x-should-retry",
    }
)
"""Of a response: what a client acts upon, and what tells one request from another."""

_NOT_KEPT = frozenset({"set-cookie", "content-encoding", "content-length", "transfer-encoding"})
"""Cookies are credentials; the others speak of the bytes on the wire, and what is kept is the content."""


def request_pair(cls: Any) -> Pair:
    """Return how a request is written and read."""
    return _parts_of_request, lambda parts: cls(parts["method"], parts["url"])


def response_pair(cls: Any) -> Pair:
    """Return how a response is written and read."""

    def read(parts: dict[str, Any]) -> Any:
        return cls(
            parts["status"], headers=parts["headers"], content=parts["content"], request=parts["request"]
        )

    return _parts_of_response, read


def _parts_of_request(request: Any) -> object:
    return {"method": request.method, "url": str(request.url)}


def _parts_of_response(response: Any) -> object:
    headers = [(key, value) for key, value in response.headers.multi_items() if key not in _NOT_KEPT]
    return {
        "status": response.status_code,
        "headers": headers,
        "content": _readable(response.content),  # raises where the body was not read: a placeholder then
        "request": vars(response).get("_request"),
    }


def _readable(content: bytes) -> str | bytes:
    """Return the body as text where it is that, so that a person can read and redaction see it."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def carried(value: Any) -> Any:
    """Return what an exception is recorded to carry in place of a request, a response or their headers.

    The host, the query, and the headers that name an account are not what a handler decides by.
    """
    for layer in type(value).__mro__:  # isinstance would ask the object for its __class__
        if bare := _BARE.get(type_name(layer)):
            return bare(layer, value)
    return value


def _bare_request(cls: Any, request: Any) -> Any:
    return cls(request.method, request.url.path)


def _bare_response(cls: Any, response: Any) -> Any:
    request = vars(response).get("_request")
    kept = [(name, value) for name, value in response.headers.multi_items() if name in KEPT_HEADERS]
    content = vars(response).get("_content", b"")  # of a stream that was refused nobody has read it
    return cls(response.status_code, headers=kept, content=content, request=request and carried(request))


def _bare_prepared(cls: Any, request: Any) -> Any:
    bare = cls()
    bare.method, bare.url, bare.headers = request.method, _path(request.url), type(request.headers)()
    return bare


def _bare_info(cls: Any, info: Any) -> Any:
    url = type(info.url)(info.url.path)
    return info._replace(url=url, real_url=url)


def _bare_headers(cls: Any, headers: Any) -> Any:
    bare = cls()
    for name, value in headers.items():
        if name.lower() in KEPT_HEADERS:
            bare[name] = value
    return bare


def _path(url: str) -> str:
    return urlsplit(url).path


_BARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "httpx:Request": _bare_request,
    "httpx:Response": _bare_response,
    "httpx2:Request": _bare_request,
    "httpx2:Response": _bare_response,
    "requests.models:PreparedRequest": _bare_prepared,
    "aiohttp.client_reqrep:RequestInfo": _bare_info,
    "http.client:HTTPMessage": _bare_headers,
}
