"""What a call changes in place in its arguments: looked at before it runs, and compared after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stepfork._codec import encode
from stepfork._mutation import diff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Plain
    from stepfork._spec import Spec

_IMMUTABLE = (str, int, float, bool, bytes, type(None), complex)


class Watched(Protocol):
    """A call under way."""

    @property
    def live(self) -> dict[str, Any]:
        """The arguments that it may change, by parameter name."""

    @property
    def before(self) -> dict[str, bytes]:
        """The same as they were on entry, encoded."""


def may_change(
    spec: Spec, arguments: Mapping[str, Any], plain: dict[str, Plain]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the live arguments that a tool may change in place, and how they look before."""
    if spec.kind == "step":
        return {}, {}
    names = arguments if spec.options.mutates is None else spec.options.mutates
    live = {
        name: arguments[name]
        for name in names
        if name in arguments and type(arguments[name]) not in _IMMUTABLE
    }
    return live, {name: msgspec.json.encode(plain[name]) for name in live}


def changes_of(frame: Watched) -> dict[str, list[Any]] | None:
    """Return what a call changed, by parameter name; the form of a change is told in ``_mutation``."""
    changes = {}
    for name, value in frame.live.items():
        after = encode(value).plain
        if msgspec.json.encode(after) != frame.before[name]:
            change = diff(msgspec.json.decode(frame.before[name]), after)
            if change:
                changes[name] = change
    return changes or None
