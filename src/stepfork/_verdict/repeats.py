"""What a snapshot does not repeat: arguments that a call of before had, or that differ a little from one.

Two forms stand in the place of an argument, both with the address of an earlier call::

    $begins as: ask#1          the list of the call before of this name, and more
    items: 2
    then: [...]

    $as in: handle#1/book#1    the argument of this name there, whatever the call; with what changed in it
    changes:
      set: {/orders/A-17/status: cancelled}
      gone: [/orders/A-18]
      list: {/log: {at: 3, out: 0, in: [...]}}

The form of ``changes`` is told in ``_patch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from stepfork._codec import canonical
from stepfork._patch import differences, patched
from stepfork._verdict.document import Node, in_order, label_of

if TYPE_CHECKING:
    from stepfork._calls import Plain

_SHORT_BYTES = 160
"""What takes less is shown again: a reader is sooner done with it than with a reference."""

_MUCH_SHORTER = 3
"""How many times shorter than the value its changes have to be."""


def shortened(document: Node) -> Node:
    """Return the document with what arguments repeat of earlier calls left out."""
    return _with_inputs(document, _Shortener())


def expanded(document: Node) -> Node:
    """Undo :func:`shortened`. Raises ValueError where the document refers to what is not in it."""
    return _with_inputs(document, _Expander())


class _Rewriter(Protocol):
    def rewrite(self, address: str, key: str, value: Plain) -> Plain: ...


def _with_inputs(document: Node, rewriter: _Rewriter) -> Node:
    def rebuilt(node: Node, parent: str) -> Node:
        address = f"{parent}/{label_of(node)}" if parent else label_of(node)
        rebuilt_node = dict(node)
        rebuilt_node["input"] = {
            key: rewriter.rewrite(address, key, value) for key, value in node["input"].items()
        }
        if "calls" in node:
            rebuilt_node["calls"] = [rebuilt(child, address) for child in node["calls"]]
        return rebuilt_node

    return {**document, "calls": [rebuilt(node, "") for node in document["calls"]]}


def _name_of(address: str) -> str:
    return address.rpartition("/")[2].rpartition("#")[0]


class _Shortener:
    def __init__(self) -> None:
        self._lists: dict[tuple[str, str], tuple[str, list[Plain]]] = {}
        self._first: dict[tuple[str, bytes], str] = {}
        self._latest: dict[str, tuple[str, dict[str, Plain]]] = {}

    def rewrite(self, address: str, key: str, value: Plain) -> Plain:
        if isinstance(value, list):
            return self._list(address, key, value)
        return self._dict(address, key, value) if isinstance(value, dict) else value

    def _list(self, address: str, key: str, value: list[Plain]) -> Plain:
        name = _name_of(address)
        there, items = self._lists.get((name, key), ("", []))
        self._lists[name, key] = address, value
        beginning = value[: len(items)]
        if len(items) < 2 or beginning != items or canonical(beginning) != canonical(items):
            return value
        return {"$begins as": there, "items": len(items), "then": value[len(items) :]}

    def _dict(self, address: str, key: str, value: dict[str, Plain]) -> Plain:
        data = canonical(value)
        if len(data) < _SHORT_BYTES:
            return value
        first = self._first.setdefault((key, data), address)
        there, before = self._latest.get(key, ("", {}))
        self._latest[key] = first, value
        if first != address:
            return {"$as in": first}
        changes = differences(before, value)
        if not there or len(canonical(changes)) * _MUCH_SHORTER > len(data):
            return value
        if canonical(patched(before, changes)) != data:
            return value
        return {"$as in": there, "changes": changes}


class _Expander:
    def __init__(self) -> None:
        self._lists: dict[tuple[str, str], tuple[str, list[Plain]]] = {}
        self._dicts: dict[tuple[str, str], dict[str, Plain]] = {}

    def rewrite(self, address: str, key: str, value: Plain) -> Plain:
        if isinstance(value, dict) and "$begins as" in value:
            value = self._list(address, key, value)
        if isinstance(value, dict) and "$as in" in value:
            value = self._dict(address, key, value)
        if isinstance(value, list):
            self._lists[_name_of(address), key] = address, value
        elif isinstance(value, dict):
            self._dicts[address, key] = value
        return value

    def _list(self, address: str, key: str, value: dict[str, Any]) -> Plain:
        there, items = self._lists.get((_name_of(address), key), ("", []))
        if there != value["$begins as"] or len(items) != value.get("items"):
            raise ValueError(
                f"{address}: {key} begins as {value['$begins as']}, and that is not the call before"
            )
        return [*items, *value.get("then", [])]

    def _dict(self, address: str, key: str, value: dict[str, Any]) -> Plain:
        there = value["$as in"]
        before = self._dicts.get((there, key))
        if before is None:
            raise ValueError(f"{address}: {key} is as in {there}, and no such call has it before")
        if "changes" not in value:
            return before
        try:
            return in_order(patched(before, value["changes"]))
        except ValueError:
            raise ValueError(f"{address}: the changes of {key} do not fit what {there} has") from None
