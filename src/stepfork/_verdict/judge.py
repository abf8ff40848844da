"""Whether a replay shows the recorded failure again, and whether it meets its criterion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepfork._alias import Aliases, Facts
from stepfork._codec import canonical, encode
from stepfork._plain import readable
from stepfork._redact.match import matches
from stepfork._verdict.criterion import call_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepfork._calls import Call, Criterion, Failure, Plain, Run
    from stepfork.tolerance import Rules

Finding = Literal["shown", "gone", "unknown", "none"]


class Judgement(NamedTuple):
    """What became of the recorded failure.

    ``shown``: it is there again, or the criterion is missed; ``gone``; ``unknown``: the replay
    stopped before it could be judged; ``none``: the recorded run had no failure.
    """

    finding: Finding
    reason: str = ""


def judge(
    recorded: Run,
    now: Run,
    *,
    stopped: bool,
    facts: Facts,
    rules: Mapping[str, Rules] | None = None,
    under_way: Iterable[Failure] = (),
    unmade: Iterable[Call] = (),
) -> Judgement:
    """Compare the failure of the recorded run with what the replay shows.

    ``rules`` maps the name of a call to its tolerance; ``under_way`` is what the agent was failing with
    where it stopped; ``unmade`` are the recorded calls that it did not make.
    """
    if recorded.failure is None:
        return Judgement("none")
    if recorded.criterion:
        return judge_criterion(recorded.criterion, now, stopped=stopped)
    if recorded.failure.kind == "raised":
        judgement = _judge_exception(recorded, now, stopped=stopped, unmade=unmade)
        return judgement if judgement.finding != "gone" else _judge_stop(recorded, now, under_way)
    if recorded.failure.kind == "failed":
        if now.failure is not None and now.failure.kind == "failed":
            return Judgement("shown", f"failed: {now.failure.message}")
        return Judgement("unknown" if any(each.kind == "failed" for each in under_way) else "gone")
    return _judge_mark(recorded, now, stopped, _Likeness(facts, rules or {}))


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


def _judge_exception(recorded: Run, now: Run, *, stopped: bool, unmade: Iterable[Call]) -> Judgement:
    failure = recorded.failure
    if (
        failure is None
        or now.failure is None
        or now.failure.kind != "raised"
        or now.failure.type != failure.type
    ):
        return Judgement("gone")
    if not _same_origin(failure, now.failure, recorded, now):
        return Judgement("gone")
    if _is_another(failure, now.failure, now, unmade):
        return Judgement("unknown" if stopped else "gone")
    return Judgement("shown", f"{short_type(failure.type)}: {now.failure.message}")


def _is_another(recorded: Failure, again: Failure, now: Run, unmade: Iterable[Call]) -> bool:
    """Whether it says something else, and came before the agent had done what it did in the run.

    What a test put there itself is taken for what it was put there for.
    """
    is_early = any(not call.repeats for call in unmade)
    if not is_early or matches(recorded.message, again.message):
        return False
    return not any(call.overridden and call.address == again.address for call in now.walk())


def _judge_stop(recorded: Run, now: Run, under_way: Iterable[Failure]) -> Judgement:
    """Judge a replay that stopped while the agent handled the recorded failure.

    Where a tool had raised it, handling it is what a fix does: a retry, another tool. What the agent's
    own code raises is what has to be mended there.
    """
    failure = recorded.failure
    if failure is None or any(
        call.address == failure.address and call.kind != "step" for call in recorded.walk()
    ):
        return Judgement("gone")
    for again in under_way:
        if again.type == failure.type and _same_origin(failure, again, recorded, now):
            return Judgement("unknown", f"{short_type(failure.type)}: {again.message} was under way")
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


_CUT_OFF = ("killed", "unfinished")


def _judge_mark(recorded: Run, now: Run, stopped: bool, likeness: _Likeness) -> Judgement:
    """Judge a run that was only marked: it fails again if it gives the same result by the same tool calls.

    One that was cut off has no result; it fails again if it stops at the call that was under way then.
    """
    place = ""
    if stopped:
        cut_off = [call.name for call in boundary_calls(recorded.root) if call.outcome.status in _CUT_OFF]
        stops = [call for call in now.walk() if call.unrecorded]
        if not stops or any(call.name not in cut_off for call in stops):
            return Judgement("gone")
        place = stops[0].address
    if not likeness.of(recorded, now):
        return Judgement("gone")
    again = f"it stops again at {place}, where the run was cut off"
    return Judgement("shown", again if place else "the same result and the same tool calls")


_ANY_TIME = (0.0, float("inf"))


class _Likeness(NamedTuple):
    """Whether two runs give the same result by the same tool calls, within the tolerance."""

    facts: Facts
    rules: Mapping[str, Rules]

    def of(self, recorded: Run, now: Run) -> bool:
        clock_then = (recorded.started, recorded.started + max(recorded.seconds, 1.0))
        old = list(_essence(recorded, Aliases(self.facts, clock=clock_then)))
        new = list(_essence(now, Aliases(self.facts, clock=_ANY_TIME)))
        names, others = [name for name, _ in old], [name for name, _ in new]
        return names == others and all(
            self._same(name, left, right) for (name, left), (_, right) in zip(old, new, strict=True)
        )

    def _same(self, name: str, old: Plain, new: Plain) -> bool:
        if canonical(old) == canonical(new):
            return True
        from stepfork._compare.compare import compare

        return compare(old, new, self.rules.get(name)).same


def _essence(run: Run, aliases: Aliases) -> Iterator[tuple[str, Plain]]:
    """Yield what counts of a run: its tool calls by name and arguments, then its end.

    Not the models: a prompt in other words is no fix as long as the agent does the same.
    """
    for call in boundary_calls(run.root):
        if call.kind == "tool":
            yield call.name, {"input": aliases.number(call.input)}
    outcome = run.root.outcome
    value = outcome.value
    if isinstance(value, dict) and outcome.has_exception:
        # Not the place: what was interrupted while a tool ran is raised elsewhere in a replay.
        value = {key: value.get(key) for key in ("$exception", "args", "message")}
    status = "stopped" if outcome.status in _CUT_OFF else outcome.status
    end = {"status": status, "output": aliases.number(value), "chunks": aliases.number(outcome.items)}
    yield run.root.name, end


def boundary_calls(call: Call) -> Iterable[Call]:
    """Yield the outermost tool and model calls, in order."""
    if call.kind != "step":
        yield call
        return
    for child in call.children:
        yield from boundary_calls(child)
