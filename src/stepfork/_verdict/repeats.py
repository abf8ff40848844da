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

The keys of ``changes`` are places in the value as JSON Pointers.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

from stepfork._codec import canonical
from stepfork._plain import tag
from stepfork._verdict.document import Node, in_order, label_of

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        if len(items) < 2 or len(value) < len(items) or not _same(value[: len(items)], items):
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
        changes = _changes(before, value)
        if not there or len(canonical(changes)) * _MUCH_SHORTER > len(data):
            return value
        if canonical(_changed(before, changes)) != data:
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
            return _changed(before, value["changes"])
        except (LookupError, TypeError, AttributeError):
            raise ValueError(f"{address}: the changes of {key} do not fit what {there} has") from None


def _same(before: Plain, after: Plain) -> bool:
    # 1 == True == 1.0: only the bytes tell these apart.
    return before is after or (before == after and canonical(before) == canonical(after))


def _changes(before: Plain, after: Plain) -> dict[str, Any]:
    """Return what turns ``before`` into ``after``, in the form that stands in the snapshot."""
    found: dict[str, Any] = {"set": {}, "gone": [], "list": {}}
    for verb, pointer, value in _differences(before, after, ""):
        if verb == "gone":
            found["gone"].append(pointer)
        else:
            found[verb][pointer] = value
    return {verb: part for verb, part in found.items() if part}


def _differences(before: Plain, after: Plain, pointer: str) -> Iterator[tuple[str, str, Any]]:
    if _same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict) and tag(before) == tag(after):
        yield from (("gone", _below(pointer, key), None) for key in before if key not in after)
        for key, value in after.items():
            if key in before:
                yield from _differences(before[key], value, _below(pointer, key))
            else:
                yield "set", _below(pointer, key), value
    elif isinstance(before, list) and isinstance(after, list):
        yield from _in_lists(before, after, pointer)
    else:
        yield "set", pointer, after


def _in_lists(before: list[Plain], after: list[Plain], pointer: str) -> Iterator[tuple[str, str, Any]]:
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if not _same(before[at], after[at])), shorter)
    rest = shorter - start
    behind = next((at for at in range(rest) if not _same(before[-1 - at], after[-1 - at])), rest)
    out, into = before[start : len(before) - behind], after[start : len(after) - behind]
    if len(out) != len(into):
        yield "list", pointer, {"at": start, "out": len(out), "in": into}
        return
    for at, (old, new) in enumerate(zip(out, into, strict=True), start):
        yield from _differences(old, new, _below(pointer, str(at)))


def _below(pointer: str, key: str) -> str:
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def _changed(before: Plain, changes: dict[str, Any]) -> Plain:
    """Apply the changes to a copy, and sort it as a document is sorted."""
    whole: list[Any] = [copy.deepcopy(before)]
    for pointer in changes.get("gone", ()):
        holder, key = _reach(whole, pointer)
        del holder[key]
    for pointer, value in changes.get("set", {}).items():
        holder, key = _reach(whole, pointer)
        holder[key] = value
    for pointer, cut in changes.get("list", {}).items():
        holder, key = _reach(whole, pointer)
        holder[key][cut["at"] : cut["at"] + cut["out"]] = cut["in"]
    return in_order(whole[0])


def _reach(whole: list[Any], pointer: str) -> tuple[Any, Any]:
    """Return what holds the place, and the key of the place in it."""
    holder: Any = whole
    key: Any = 0
    for part in pointer.split("/")[1:]:
        holder = holder[key]
        name = part.replace("~1", "/").replace("~0", "~")
        key = int(name) if isinstance(holder, list) else name
    return holder, key
