"""Whether something went wrong only because the replay had stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepfork.errors import ReplayStopped

if TYPE_CHECKING:
    from collections.abc import Iterator


def comes_of_stop(error: BaseException | None) -> bool:
    """Whether a stop is this exception, what it was raised from, or what it was raised while handling."""
    return any(isinstance(link, ReplayStopped) for link in chain(error))


def is_after_stop() -> bool:
    """Whether the code that runs here is handling a stop."""
    return comes_of_stop(sys.exception())


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, all that it was raised from or while handling, and what a group holds."""
    seen: set[int] = set()
    work = [error]
    while work:
        link = work.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        work += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            work += link.exceptions
