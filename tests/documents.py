"""Runs and documents for tests, written down briefly."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stepfork._alias import Facts
from stepfork._calls import Call, Kind, Outcome, Run
from stepfork._verdict.document import Node, document

NO_TIME = (0.0, 0.0)


def returned(value: Any = None) -> Outcome:
    """Return the outcome of a call that returned."""
    return Outcome("returned", value)


def raised(kind: str, message: str) -> Outcome:
    """Return the outcome of a call that raised."""
    return Outcome("raised", {"$exception": f"builtins:{kind}", "message": message})


def step(label: str, *children: Call, outcome: Outcome | None = None, **input: Any) -> Call:
    """Return a step; its children get their addresses from it."""
    return _call("step", label, children, outcome or returned(), input)


def tool(label: str, outcome: Outcome | None = None, **input: Any) -> Call:
    """Return a tool call."""
    return _call("tool", label, (), outcome or returned(), input)


def model(label: str, outcome: Outcome | None = None, **input: Any) -> Call:
    """Return a model call."""
    return _call("model", label, (), outcome or returned(), input)


def _call(
    kind: Kind, label: str, children: tuple[Call, ...], outcome: Outcome, input: dict[str, Any]
) -> Call:
    call = Call(kind, label.partition("#")[0], label, input, outcome, children=list(children))
    for child in children:
        _put_under(child, label)
    return call


def _put_under(call: Call, parent: str) -> None:
    call.address = f"{parent}/{call.address}"
    for child in call.children:
        _put_under(child, parent)


def document_of(root: Call, **options: Any) -> Node:
    """Return the document of a run with this root."""
    run = Run("r1", root.name, root)
    return document(
        run, **{"recording": "r", "state": "accepted", "facts": Facts(), "clock": NO_TIME, **options}
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAINS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            TEXTS.map(lambda key: f"$${key[1:]}" if key.startswith("$") else key), inner, max_size=4
        )
    ),
    max_leaves=10,
)
NAMES = st.sampled_from(["search", "refund", "ask"])


@st.composite
def roots(draw: st.DrawFn) -> Call:
    """Make the root of a run: a step with calls and steps in it."""

    def children(depth: int) -> list[Call]:
        made: list[Call] = []
        counts: dict[str, int] = {}
        for _ in range(draw(st.integers(0, 3))):
            kind = draw(st.sampled_from(["step", "tool", "model"] if depth < 2 else ["tool"]))
            name = f"{kind}_{draw(NAMES)}"
            counts[name] = counts.get(name, 0) + 1
            label = f"{name}#{counts[name]}"
            input = draw(st.dictionaries(st.sampled_from(["a", "b", "messages"]), PLAINS, max_size=2))
            if kind == "step":
                made.append(step(label, *children(depth + 1), outcome=returned(draw(PLAINS)), **input))
            else:
                made.append(_call(kind, label, (), returned(), input))  # type: ignore[arg-type]
        return made

    return step("root#1", *children(0), outcome=returned(draw(PLAINS)))
