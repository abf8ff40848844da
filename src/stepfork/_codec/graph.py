"""Values that are no tree: cycles, what is reached by many ways, and what is nested very deep.

Such a value is first written flat, every container a node of its own that names the others by
:class:`Link`. Here the nodes are folded together again as far as they form trees of bounded depth;
the rest stays in a table, ``{"$shared": [node, ...], "value": ...}``, and is named as ``{"$ref": n}``.
So no reader of a recording needs more depth than ``MAX_DEPTH``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepfork._plain import is_tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Plain

MAX_DEPTH = 64
"""How deep containers are nested before one of them moves to the table."""

_FILLED_LATER = frozenset({"$set", "$dict", "$object", "$exception"})


class Link:
    """The place of another node, in a value that is written flat."""

    __slots__ = ("node",)

    def __init__(self, node: int) -> None:
        self.node = node


def fold(nodes: list[Plain], root: Plain) -> Plain:
    """Return the value that ``root`` refers to, with its nodes in one another where they fit."""
    return _Fold(nodes, _knots(nodes, root)).run(root)


class _Fold:
    def __init__(self, nodes: list[Plain], knots: set[int]) -> None:
        self.nodes = nodes
        self.knots = knots
        self.places: dict[int, int] = {}
        """Node -> its place in the table."""
        self.met: list[int] = []
        """The nodes of the table, in the order in which they are met."""

    def run(self, root: Plain) -> Plain:
        value = self.embed(root, 0)
        table: list[Plain] = []
        for node in self.met:  # grows while the table is written
            table.append(self.embed(self.nodes[node], 0))
        return {"$shared": table, "value": value} if table else value

    def embed(self, plain: Plain, depth: int) -> Plain:
        if type(plain) is list:
            return [self.embed(part, depth) for part in plain]
        if type(plain) is dict:
            return {key: self.embed(part, depth) for key, part in plain.items()}
        if type(plain) is not Link:
            return plain
        node = plain.node
        if node in self.knots or depth >= MAX_DEPTH:
            return {"$ref": self._place(node)}
        return self.embed(self.nodes[node], depth + 1)

    def _place(self, node: int) -> int:
        if node not in self.places:
            self.places[node] = len(self.met)
            self.met.append(node)
        return self.places[node]


def _knots(nodes: list[Plain], root: Plain) -> set[int]:
    """Return the nodes that must stand in the table, whatever their depth.

    These are the ones that are reached by several ways, so every cycle holds one. What a tuple, or
    anything else that is made in one go, holds directly goes with it: on reading, those exist
    before they are filled, and a tuple is complete as soon as they exist.
    """
    below = [list(_targets(node)) for node in nodes]
    ways = Counter(target for targets in (list(_targets(root)), *below) for target in targets)
    knots = {node for node, count in ways.items() if count > 1}
    waiting = [node for node in knots if not filled_later(nodes[node])]
    while waiting:
        for target in below[waiting.pop()]:
            if target not in knots:
                knots.add(target)
                if not filled_later(nodes[target]):
                    waiting.append(target)
    return knots


def filled_later(plain: Plain) -> bool:
    """Whether the value can exist before its parts do."""
    if type(plain) is not dict:
        return type(plain) is list
    tag = next(iter(plain), "")
    if not is_tag(tag):
        return True
    return tag in _FILLED_LATER and "of" not in plain


def _targets(plain: Plain) -> Iterator[int]:
    if type(plain) is list:
        for part in plain:
            yield from _targets(part)
    elif type(plain) is dict:
        for part in plain.values():
            yield from _targets(part)
    elif type(plain) is Link:
        yield plain.node
