"""What a call changes in place in its arguments: looked at before it runs, and compared after."""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any

import msgspec

from stepfork._codec import encode
from stepfork._mutation import diff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Plain
    from stepfork._mutation import Change
    from stepfork._spec import Spec

_IMMUTABLE = frozenset({str, int, float, bool, bytes, type(None), complex})

_MARSHAL_FORMAT = 2
"""The last one in which equal values have equal bytes: later ones tell apart what is shared."""


class Watch:
    """One argument, and how it looked when the call began."""

    __slots__ = ("_before", "_exact", "_value")

    def __init__(self, value: Any, plain: Plain) -> None:
        self._value = value
        self._exact = _exact(value) if plain is value else None
        self._before = msgspec.json.encode(plain) if self._exact is None else b""

    def changes(self) -> list[Change] | None:
        """Return what is different now; None if nothing is."""
        if self._exact is None:
            before = msgspec.json.decode(self._before)
        elif _exact(self._value) == self._exact:
            return None
        else:
            before = marshal.loads(self._exact)
        return diff(before, encode(self._value).plain)


def _exact(value: Any) -> bytes | None:
    """Return bytes that differ wherever a type or a value does; None where there are none.

    JSON would not do: a text that became the datetime it spells looks the same there. And it takes
    a third of the time.
    """
    try:
        return marshal.dumps(value, _MARSHAL_FORMAT)
    except ValueError:  # nested too deep
        return None


def watch(spec: Spec, arguments: Mapping[str, Any], plain: dict[str, Plain]) -> dict[str, Watch]:
    """Return the arguments that a tool may change in place, by parameter name."""
    if spec.kind == "step":
        return {}
    names = arguments if spec.options.mutates is None else spec.options.mutates
    return {
        name: Watch(arguments[name], plain[name])
        for name in names
        if name in arguments and type(arguments[name]) not in _IMMUTABLE
    }


def changes_of(watches: Mapping[str, Watch]) -> dict[str, list[Change]] | None:
    """Return what a call changed, by parameter name; the form of a change is told in ``_mutation``."""
    if not watches:
        return None
    found = {name: changes for name, watch in watches.items() if (changes := watch.changes())}
    return found or None
