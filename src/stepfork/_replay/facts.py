"""Which id-like texts of a run are facts, and which its code made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepfork._alias import Facts, tokens
from stepfork._answers import answer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Call, Plain, Run


def facts_of(run: Run) -> tuple[Facts, set[str]]:
    """Return the id-like texts that are facts of this run, and those that its code made.

    Facts stand in the root input, or in an outcome before any call had them as its argument.
    """
    facts, made = Facts(), set[str]()
    facts.add(run.root.input)
    facts.add(run.facts)
    known: set[str] = set()
    """Texts that were looked through: a conversation repeats all that was said before."""
    events: list[tuple[int, bool, Call]] = []
    for call in run.walk():
        if call.kind != "step":
            events += [(call.span[0], True, call), (call.span[1], False, call)]
    for _, is_start, call in sorted(events, key=lambda event: event[0]):
        if is_start:
            for text in _texts(call.input):
                if text not in known:
                    known.add(text)
                    made.update(token.text for token in tokens(text) if token.text not in facts)
        else:
            for part in (call.outcome.value, call.outcome.items, call.outcome.changes):
                facts.add(part, unless=made)
            facts.add(_put_together(call.outcome.items or []), unless=made)
    return facts, made


def _put_together(chunks: list[Plain]) -> list[Plain]:
    """Return what the chunks of a stream say together: an id, or a date, may be cut in two by them."""
    answer = answer_of(chunks)
    if answer is not None:
        return [answer.text, *(arguments for _, arguments in answer.asked)]
    places: dict[tuple[str | int, ...], list[str]] = {}
    work: list[tuple[tuple[str | int, ...], Plain]] = [((), chunk) for chunk in reversed(chunks)]
    while work:
        place, value = work.pop()
        if isinstance(value, str):
            places.setdefault(place, []).append(value)
        elif isinstance(value, dict):
            work.extend(((*place, key), part) for key, part in value.items())
        elif isinstance(value, list):
            work.extend(((*place, number), part) for number, part in enumerate(value))
    return ["".join(texts) for texts in places.values()]


def _texts(plain: Plain) -> Iterator[str]:
    work = [plain]
    while work:
        value = work.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            work.extend(value)
            work.extend(value.values())
        elif isinstance(value, list):
            work.extend(value)
