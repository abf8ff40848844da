"""Requests and responses of httpx, which the errors of SDKs carry.

Headers of a request hold credentials and none of its callers reads them again: they are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepfork._codec.registry import Pair

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
