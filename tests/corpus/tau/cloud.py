"""Exceptions built like those of a cloud SDK: from keyword arguments, with the exception at hand on them."""

from __future__ import annotations

import sys
from types import TracebackType


class ProtocolError(Exception):
    """The connection broke."""


class CloudError(Exception):
    """The base: its constructor does not take what ``args`` holds."""

    def __init__(self, message: object, *args: object, **kwargs: object) -> None:
        self.inner_exception = kwargs.get("error")
        kind, value, traceback = sys.exc_info()
        self.exc_traceback: TracebackType | None = traceback
        self.exc_type = kind or type(self.inner_exception)
        self.exc_value = value
        self.exc_msg = f"{message}, {self.exc_type.__name__}: {self.exc_value}"
        self.message = str(message)
        super().__init__(self.message, *args)


class ServiceResponseError(CloudError):
    """The request was sent, and no answer could be understood."""


class HttpResponseError(CloudError):
    """The answer was an error."""

    def __init__(self, message: object, *, status_code: int) -> None:
        self.status_code = status_code
        self.reason = None
        super().__init__(message)
