"""Whether a replay shows the recorded failure again, and whether it meets its criterion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepfork._alias import Aliases, Facts
from stepfork._codec import canonical, encode
from stepfork._plain import readable
from stepfork._verdict.criterion import call_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepfork._calls import Call, Criterion, Failure, Plain, Run

Finding = Literal["shown", "gone", "unknown", "none"]


class Judgement(NamedTuple):
    """What became of the recorded failure.

    ``shown``: it is there again, or the criterion is missed; ``gone``; ``unknown``: the replay
    stopped before it could be judged; ``none``: the recorded run had no failure.
    """

    finding: Finding
    reason: str = ""


def judge(recorded: Run, now: Run, *, stopped: bool, facts: Facts) -> Judgement:
    """Compare the failure of the recorded run with what the replay shows."""
    if recorded.failure is None:
        return Judgement("none")
    if recorded.criterion:
        return judge_criterion(recorded.criterion, now, stopped=stopped)
    if recorded.failure.kind == "raised":
        return _judge_exception(recorded, now)
    if recorded.failure.kind == "failed":
        again = now.failure is not None and now.failure.kind == "failed"
        return (
            Judgement("shown", f"failed: {now.failure.message}")
            if again and now.failure
            else Judgement("gone")
        )
    if stopped:
        return Judgement("gone")
    same = _same_result_and_calls(recorded, now, facts)
    return Judgement("shown", "the same result and the same tool calls") if same else Judgement("gone")


def judge_criterion(criterion: Criterion, now: Run, *, stopped: bool = False) -> Judgement:
    """Judge a run by a criterion alone; what only the end can show is unknown where it stopped."""
    misses = list(_misses(criterion, now, stopped))
    if misses:
        return Judgement("shown", "; ".join(misses))
    if stopped and (criterion.expect or any(_times(now, name) < n for name, n in criterion.times.items())):
        return Judgement("unknown")
    return Judgement("gone")


def _misses(criterion: Criterion, now: Run, stopped: bool) -> Iterable[str]:
    for pattern in criterion.never:
        if _times(now, pattern):
            yield f"{pattern} was called"
    for pattern, times in criterion.times.items():
        made = _times(now, pattern)
        if made > times or (made < times and not stopped):
            yield f"{pattern} was called {made} time{'' if made == 1 else 's'}, expected {times}"
    if stopped:
        return
    for path, expected in criterion.expect.items():
        if now.root.outcome.has_exception:
            yield f"{path} is not there: {_raised(now.root.outcome.value)}"
            continue
        found = find_values(path, now)
        if not found or any(canonical(value) != canonical(expected) for value in found):
            yield f"{path} is {_shown(found)}, expected {_shown([expected])}"


def _raised(exception: Plain) -> str:
    plain = exception if isinstance(exception, dict) else {}
    return f"the agent raised {short_type(plain.get('$exception'))}: {plain.get('message', '')}".rstrip(": ")


def find_values(path: str, run: Run) -> list[Plain]:
    """Return the values at a JSONPath over ``{"input": ..., "output": ...}`` of the root.

    ``result`` is another name of the output; a path that begins with none of them starts there.
    """
    from jsonpath import findall

    outcome = run.root.outcome
    if outcome.has_exception:
        return []
    output = outcome.items if outcome.items is not None else outcome.value
    document = {"input": readable(run.root.input), "output": readable(output), "result": readable(output)}
    if path in document:
        return [document[path]]
    if path.startswith("$"):
        return findall(path, document)
    if path.partition(".")[0].partition("[")[0] in document:
        return findall(f"$.{path}", document)
    return findall(f"$.output.{path}", document)


def _times(run: Run, text: str) -> int:
    pattern = call_pattern(text)
    return sum(call.name == pattern.name and _has_arguments(call, pattern.arguments) for call in run.walk())


def _has_arguments(call: Call, wanted: Mapping[str, Any]) -> bool:
    return all(
        name in call.input
        and canonical(readable(call.input[name])) == canonical(readable(encode(value).plain))
        for name, value in wanted.items()
    )


def _shown(values: list[Any]) -> str:
    import msgspec

    return ", ".join(msgspec.json.encode(value).decode() for value in values) or "not there"


def _judge_exception(recorded: Run, now: Run) -> Judgement:
    failure = recorded.failure
    if (
        failure is None
        or now.failure is None
        or now.failure.kind != "raised"
        or now.failure.type != failure.type
    ):
        return Judgement("gone")
    if _same_origin(failure, now.failure, recorded, now):
        return Judgement("shown", f"{short_type(failure.type)}: {now.failure.message}")
    return Judgement("gone")


def _same_origin(recorded: Failure, again: Failure, then: Run, now: Run) -> bool:
    """A step that was renamed is not another place; one that the recording has, is."""
    places = {call.address: call.moved_from or call.address for call in now.walk()}
    if recorded.address == places.get(again.address or "", again.address):
        return True
    known = {call.address for call in then.walk()}
    still_there = any(call.address == recorded.address for call in now.walk())
    return again.address not in known and not still_there


def short_type(name: str | None) -> str:
    """Return a type's name without the module of the built-in ones."""
    return (name or "?").removeprefix("builtins:").rpartition(":")[2]


def _same_result_and_calls(recorded: Run, now: Run, facts: Facts) -> bool:
    clock_then = (recorded.started, recorded.started + max(recorded.seconds, 1.0))
    return _essence(recorded, Aliases(facts, clock=clock_then)) == _essence(
        now, Aliases(facts, clock=_ANY_TIME)
    )


_ANY_TIME = (0.0, float("inf"))


def _essence(run: Run, aliases: Aliases) -> bytes:
    outcome = run.root.outcome
    # Not the models: a prompt in other words is no fix as long as the agent does the same.
    tools = (call for call in boundary_calls(run.root) if call.kind == "tool")
    calls = [[call.name, aliases.number(call.input)] for call in tools]
    return canonical([outcome.status, aliases.number(outcome.value), aliases.number(outcome.items), calls])


def boundary_calls(call: Call) -> Iterable[Call]:
    """Yield the outermost tool and model calls, in order."""
    if call.kind != "step":
        yield call
        return
    for child in call.children:
        yield from boundary_calls(child)
