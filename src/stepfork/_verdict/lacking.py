"""Which variable of the environment an error tells of that is not set."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from stepfork._environment import may_be_noted

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_READS = type(os.environ).__getitem__.__code__


def lacking_variable(error: BaseException | None) -> str:
    """Return the name of a variable whose absence the error comes of; empty where it tells of none.

    It was read with ``os.environ[...]``, or the error names it, and by its name it holds a secret.
    """
    for each in _chain(error):
        if isinstance(each, KeyError) and _comes_of_environ(each):
            return str(each.args[0])
    named = (name for each in _chain(error) for name in _NAME.findall(str(each)) if not os.environ.get(name))
    return next((name for name in named if may_be_noted(name)), "")


def way_to_set(name: str) -> str:
    """Return what to do where a replay lacks a variable."""
    if may_be_noted(name):
        return f"set {name}, which is not set here, to any text, or to the real one where calls run live"
    return f"set {name}, which is not set here, to what it was when the run was recorded"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _comes_of_environ(error: KeyError) -> bool:
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return entry is not None and entry.tb_frame.f_code is _READS
