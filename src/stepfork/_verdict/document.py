"""A run as a document for reviewers: what a snapshot holds, before it becomes YAML.

Shape::

    recording: refund_denied
    test: TestShop::test_refund_denied[eu]
    state: recorded failure | accepted
    outcome: {returned: true} | {raised: KeyError, message: ..., at: ...} | {stopped: [addresses]} | ...
    rules: {lookup_order: {"$..amount": "approx(rel=0.01)"}}
    calls: [{step: handle#1, input: {...}, output: ..., calls: [{tool: lookup_order#1, input: {...}}]}]

The outcomes of tools and models stay in the recording.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stepfork._alias import Aliases, Facts
from stepfork._plain import canonical, tag
from stepfork._verdict.metadata import without_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepfork._calls import Call, Kind, Outcome, Plain, Run
    from stepfork.tolerance import Rules

Node: TypeAlias = dict[str, Any]
RuleTexts: TypeAlias = dict[str, dict[str, str]]
"""The rules that apply: by name of the call and key."""

State: TypeAlias = Literal["recorded failure", "accepted"]
STATES: tuple[State, ...] = ("recorded failure", "accepted")

KINDS: tuple[Kind, ...] = ("step", "tool", "model")
FLAGS = ("stale", "overridden", "unrecorded")
EXCEPTION = ("raised", "suspended", "message")
ENDINGS = ("output", "chunks", *EXCEPTION, "closed early", "stopped", "cut off")
"""The entries of a step's node that say how it ended."""

LARGE_BYTES = 65536
"""A value whose JSON takes more is shown by its digest; of a dict or list, what is in it."""

_ITEMS = 256
"""A longer list is no conversation, and has one digest as a whole."""

_PART_BYTES = 1024
"""What takes more in a large list is shown by a digest of its own, so that the rest of the list is seen."""


def document(
    run: Run,
    *,
    recording: str,
    state: State,
    facts: Facts,
    clock: tuple[float, float],
    rules: Mapping[str, Rules] | None = None,
) -> Node:
    """Return the document of a run.

    ``clock`` is the time in which it ran, in seconds since the epoch; ``rules`` maps the name of a
    call to the tolerance that applies to it.
    """
    aliases = Aliases(facts, clock=clock)

    def shown(plain: Plain) -> Plain:
        return _large_by_digest(in_order(without_metadata(aliases.number(plain))))

    calls = [_node(run.root, shown)]
    texts = _rule_texts(calls, rules or {})
    return {
        "recording": recording,
        "state": state,
        "outcome": _ending(run, shown),
        **({"rules": texts} if texts else {}),
        "calls": calls,
    }


def _rule_texts(calls: list[Node], rules: Mapping[str, Rules]) -> RuleTexts:
    texts: RuleTexts = {}
    for _, node in walk(calls):
        name = label_of(node).rpartition("#")[0]
        if name in rules and (found := rules[name].texts(content_of(node))):
            texts.setdefault(name, {}).update(found)
    return {name: dict(sorted(found.items())) for name, found in sorted(texts.items())}


def _ending(run: Run, shown: Callable[[Plain], Plain]) -> Node:
    stops = [call.address for call in run.walk() if call.unrecorded or call.outcome.status == "killed"]
    if not stops and run.root.outcome.status in ("stopped", "killed", "unfinished"):
        stops = [
            call.address for call in run.walk() if call.outcome.status in ("stopped", "killed", "unfinished")
        ][-1:]
    if stops:
        return {"stopped": stops}
    failure = run.failure
    if failure is not None and failure.kind == "failed":
        return {"failed": shown(failure.message), "at": failure.address}
    outcome = run.root.outcome
    if outcome.has_exception:
        return {**_exception(outcome, shown), "at": outcome.origin or run.root.address}
    return {outcome.status: True}


def _node(call: Call, shown: Callable[[Plain], Plain]) -> Node:
    # The arguments in the order of the signature; what is inside them sorted.
    node: Node = {call.kind: call.label, "input": {name: shown(value) for name, value in call.input.items()}}
    for flag in (*FLAGS, "repeats"):
        if getattr(call, flag):
            node[flag] = True
    calls = [_node(child, shown) for child in _shown_children(call)]
    if call.kind == "step":
        node.update(_step_outcome(call, shown))
        if calls:
            node["calls"] = calls
    return node


def _shown_children(call: Call) -> Iterator[Call]:
    """Leave out what a tool called inside its body, and the repetitions of a polled tool."""
    if call.kind != "step":
        return
    polled: set[bytes] = set()
    for child in call.children:
        if child.repeats:
            key = canonical([child.name, child.input])
            if key in polled:
                continue
            polled.add(key)
        yield child


def _step_outcome(call: Call, shown: Callable[[Plain], Plain]) -> Node:
    outcome = call.outcome
    if outcome.status in ("stopped", "killed", "unfinished", "cut_off") or _has_stop(call):
        return {"cut off": True} if outcome.status == "cut_off" else {"stopped": True}
    node: Node = {}
    if outcome.items is not None:
        node["chunks"] = shown(outcome.items)
    if outcome.has_exception:
        node.update(_exception(outcome, shown))
    elif outcome.status == "closed_early":
        node["closed early"] = True
    elif outcome.items is None or outcome.value is not None:
        node["output"] = shown(outcome.value)
    return node


def _has_stop(call: Call) -> bool:
    return any(below.outcome.status in ("stopped", "killed", "unfinished") for below in call.walk())


def _exception(outcome: Outcome, shown: Callable[[Plain], Plain]) -> Node:
    plain = outcome.value if isinstance(outcome.value, dict) else {}
    name = str(plain.get("$exception", "?")).removeprefix("builtins:")
    return {outcome.status: name, "message": shown(plain.get("message", ""))}


def in_order(plain: Plain) -> Plain:
    """Return a value with its keys sorted, but for those of the codec."""
    if isinstance(plain, dict):
        keys = sorted(plain) if tag(plain) is None else list(plain)
        return {key: in_order(plain[key]) for key in keys}
    if isinstance(plain, list):
        return [in_order(item) for item in plain]
    return plain


def _large_by_digest(plain: Plain) -> Plain:
    data = canonical(plain)
    if len(data) <= LARGE_BYTES:
        return plain
    if isinstance(plain, dict) and tag(plain) is None:
        return {key: _large_by_digest(value) for key, value in plain.items()}
    if isinstance(plain, list) and len(plain) <= _ITEMS:
        return [_digest(part) if len(part := canonical(item)) > _PART_BYTES else item for item in plain]
    return _digest(data)


def _digest(data: bytes) -> Node:
    return {"$large": hashlib.sha256(data).hexdigest()[:16], "bytes": len(data)}


def kind_of(node: Node) -> Kind:
    """Return what a node of a document stands for."""
    return next(kind for kind in KINDS if kind in node)


def label_of(node: Node) -> str:
    """Return a node's name and number: ``search#2``."""
    return str(node[kind_of(node)])


def content_of(node: Node) -> Node:
    """Return what is compared of a node: what went in, how it ended, and its flags."""
    return {key: node[key] for key in ("input", *ENDINGS, *FLAGS) if key in node}


def walk(nodes: list[Node], parent: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every node with its address, in order."""
    for node in nodes:
        address = f"{parent}/{label_of(node)}" if parent else label_of(node)
        yield address, node
        yield from walk(node.get("calls", []), address)
