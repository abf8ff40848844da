"""Two documents side by side: which call stands for which, and what differs."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork._codec import canonical
from stepfork._verdict.document import ENDINGS, EXCEPTION, Node, content_of, kind_of, label_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepfork._compare.compare import Difference
    from stepfork._verdict.document import RuleTexts
    from stepfork.tolerance import Rules


class Pair(NamedTuple):
    """The same call in both documents."""

    old_address: str
    new_address: str
    old: Node
    new: Node


class Changed(NamedTuple):
    """One call that differs, and where."""

    pair: Pair
    differences: list[Difference]
    truncated: bool = False
    """Not compared in full: there may be more."""

    @property
    def ended_otherwise(self) -> bool:
        """Whether it ended in another way: stopped, raised where it had returned, or raised another error."""
        old, new = ({key for key in ENDINGS if key in node} for node in (self.pair.old, self.pair.new))
        return old != new or any(path[0] in EXCEPTION for path, *_ in self.differences)

    @property
    def values(self) -> int:
        """How many values differ; another ending is one, and a mark like ``stale`` is none."""
        firsts = [path[0] for path, *_ in self.differences]
        endings = 1 if self.ended_otherwise else sum(first in ENDINGS for first in firsts)
        return max(firsts.count("input") + endings, 1)


@dataclass
class Alignment:
    """What separates two documents."""

    changed: list[Changed] = field(default_factory=list)
    drifted: list[tuple[Pair, list[Difference]]] = field(default_factory=list)
    added: list[tuple[str, Node]] = field(default_factory=list)
    removed: list[tuple[str, Node]] = field(default_factory=list)
    moved: list[Pair] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    """Addresses of calls that stand in another order than accepted."""
    outcome: tuple[Any, Any] | None = None
    rules: tuple[RuleTexts, RuleTexts] | None = None
    """The tolerance rules that apply, where they are others than accepted."""
    started: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    """By address in the new document: positions in the order of events."""
    missed: dict[str, float] = field(default_factory=dict)
    """By address in the old document: when a call that was not made would have started."""

    @property
    def within(self) -> bool:
        """Whether nothing differs but drift and places."""
        return not (
            self.changed or self.added or self.removed or self.reordered or self.outcome or self.rules
        )

    @property
    def drift(self) -> int:
        """How many values drifted within their tolerance."""
        return sum(len(differences) for _, differences in self.drifted)

    def summary(self) -> str:
        """Return what an update accepts: ``2 values, 1 call added``."""
        values = sum(changed.values for changed in self.changed)
        parts = [
            _counted(values, "value"),
            _counted(len(self.added), "call", "added"),
            _counted(len(self.removed), "call", "removed"),
            _counted(len(self.moved), "call", "moved"),
            _counted(len(self.reordered), "call", "in another order"),
            "another outcome" if self.outcome else "",
            "other tolerance" if self.rules else "",
        ]
        return ", ".join(part for part in parts if part)


def _counted(number: int, noun: str, what: str = "") -> str:
    if not number:
        return ""
    return f"{number} {noun}{'' if number == 1 else 's'} {what}".strip()


def align(old: Node, new: Node, rules: Mapping[str, Rules] | None = None) -> Alignment:
    """Pair the calls of two documents by place, name and content, and compare what is paired.

    ``rules`` maps the name of a call to its tolerance.
    """
    alignment = Alignment()
    pairs = list(_paired(old["calls"], new["calls"], alignment))
    for pair in pairs:
        _compare(pair, (rules or {}).get(label_of(pair.new).rpartition("#")[0]), alignment)
    places = {pair.old_address: pair.new_address for pair in pairs}
    _compare_order(pairs, old["calls"], new["calls"], alignment)
    _note_times(old["calls"], new["calls"], places, alignment)
    if not _same_outcome(old["outcome"], new["outcome"], places):
        alignment.outcome = old["outcome"], new["outcome"]
    if old.get("rules", {}) != new.get("rules", {}):
        alignment.rules = old.get("rules", {}), new.get("rules", {})
    return alignment


def keep_drifted(new: Node, alignment: Alignment) -> Node:
    """Return ``new`` with the old reference of every value that only drifted: tolerance never ratchets."""
    if not alignment.drifted:
        return new
    kept = copy.deepcopy(new)
    nodes = dict(walk(kept["calls"]))
    for pair, differences in alignment.drifted:
        for difference in differences:
            _put_back(pair.old, nodes[pair.new_address], difference.path)
    return kept


def _put_back(old: Any, new: Any, path: tuple[str | int, ...]) -> None:
    first, *rest = path
    # A path may lead on into JSON that is held in a text: then the whole text keeps its reference.
    if rest and isinstance(new[first], (dict, list)) and isinstance(old[first], (dict, list)):
        _put_back(old[first], new[first], tuple(rest))
    else:
        new[first] = copy.deepcopy(old[first])


def _paired(old: list[Node], new: list[Node], alignment: Alignment) -> Iterator[Pair]:
    left, right = dict(walk(old)), dict(walk(new))
    yield from _same_places(old, new, "", "", left, right)
    yield from _elsewhere(left, right, alignment)
    alignment.removed += left.items()
    alignment.added += right.items()


def _same_places(
    old: list[Node],
    new: list[Node],
    old_parent: str,
    new_parent: str,
    left: dict[str, Node],
    right: dict[str, Node],
) -> Iterator[Pair]:
    olds = {label_of(node): node for node in old}
    for node in new:
        other = olds.get(label_of(node))
        if other is None or kind_of(other) != kind_of(node):
            continue
        pair = Pair(_join(old_parent, label_of(node)), _join(new_parent, label_of(node)), other, node)
        if pair.old_address not in left or pair.new_address not in right:
            continue
        del left[pair.old_address], right[pair.new_address]
        yield pair
        yield from _same_places(
            other.get("calls", []), node.get("calls", []), pair.old_address, pair.new_address, left, right
        )


def _elsewhere(left: dict[str, Node], right: dict[str, Node], alignment: Alignment) -> Iterator[Pair]:
    """Pair what is left by content: steps by what went in and came out, tools by name and arguments."""
    by_content: dict[bytes, list[str]] = {}
    for address, node in left.items():
        by_content.setdefault(_content(node), []).append(address)
    for address, node in list(right.items()):
        origin = next((each for each in by_content.get(_content(node), ()) if each in left), None)
        if origin is None or address not in right:
            continue
        pair = Pair(origin, address, left.pop(origin), right.pop(address))
        alignment.moved.append(pair)
        yield pair
        yield from _same_places(
            pair.old.get("calls", []), pair.new.get("calls", []), origin, address, left, right
        )


def _content(node: Node) -> bytes:
    kind = kind_of(node)
    name = "" if kind == "step" else label_of(node).rpartition("#")[0]
    return canonical([kind, name, content_of(node)])


def _join(parent: str, label: str) -> str:
    return f"{parent}/{label}" if parent else label


def _compare(pair: Pair, rules: Rules | None, alignment: Alignment) -> None:
    old, new = content_of(pair.old), content_of(pair.new)
    if canonical(old) == canonical(new):
        return
    from stepfork._compare.compare import compare

    comparison = compare(old, new, rules)
    if not comparison.same:
        alignment.changed.append(Changed(pair, comparison.differences, comparison.truncated))
    if comparison.drift:
        alignment.drifted.append((pair, comparison.drift))


def _compare_order(pairs: list[Pair], old: list[Node], new: list[Node], alignment: Alignment) -> None:
    """Find calls that one parent made in another order; under another parent there is none to keep."""
    places = {pair.old_address: pair.new_address for pair in pairs}
    position = {address: number for number, (address, _) in enumerate(walk(old))}
    made = {address: number for number, (address, _) in enumerate(walk(new))}
    highest: dict[str, int] = {}
    for pair in sorted(pairs, key=lambda pair: made[pair.new_address]):
        parent, new_parent = (address.rpartition("/")[0] for address in (pair.old_address, pair.new_address))
        if places.get(parent, parent) != new_parent:
            continue
        here = position[pair.old_address]
        if here < highest.get(new_parent, -1):
            alignment.reordered.append(pair.new_address)
        highest[new_parent] = max(here, highest.get(new_parent, -1))


def _note_times(old: list[Node], new: list[Node], places: Mapping[str, str], alignment: Alignment) -> None:
    ticks = count(1)

    def made(nodes: list[Node], parent: str) -> None:
        for node in nodes:
            address = _join(parent, label_of(node))
            alignment.started[address] = next(ticks)
            made(node.get("calls", []), address)
            alignment.ended[address] = next(ticks)

    def missed(nodes: list[Node], parent: str, since: float) -> None:
        for node in nodes:
            address = _join(parent, label_of(node))
            place = places.get(address)
            if place is None:
                alignment.missed[address] = since
            missed(node.get("calls", []), address, since if place is None else alignment.started[place] + 0.5)
            since = since if place is None else alignment.ended[place] + 0.5

    made(new, "")
    missed(old, "", 0.5)


def _same_outcome(old: Node, new: Node, places: Mapping[str, str]) -> bool:
    return canonical(_replaced(old, places)) == canonical(new)


def _replaced(outcome: Node, places: Mapping[str, str]) -> Node:
    replaced = dict(outcome)
    if "at" in replaced:
        replaced["at"] = places.get(replaced["at"], replaced["at"])
    if "stopped" in replaced:
        replaced["stopped"] = [places.get(address, address) for address in replaced["stopped"]]
    return replaced
