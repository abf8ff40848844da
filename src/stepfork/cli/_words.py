"""How runs and calls are spoken of: their outcomes, where it went wrong, times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepfork._answers import answer_of
from stepfork.cli._terminal import Span
from stepfork.cli._values import exception_text, short, short_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Call, Run, Usage

_LONGEST_TEXT = 200


def is_going_on(run: Run) -> bool:
    """Whether a live process still writes this run."""
    return not run.ended and run.root.outcome.status == "unfinished"


def was_killed(run: Run) -> bool:
    """Whether the process ended before the run did."""
    return run.root.outcome.status == "killed"


def outcome(run: Run) -> Span:
    """Return how the run ended, in a few words."""
    words = [*_ends(run)] or [Span(run.root.outcome.status, "warning")]
    style = next((each.style for each in words if each.style == "failed"), words[0].style)
    return Span(", ".join(each.text for each in words), style)


def _ends(run: Run) -> Iterator[Span]:
    if run.failure is not None and run.failure.kind != "raised":
        yield Span(f"failed: {first_line(run.failure.message)}", "failed")
    if was_killed(run):
        yield Span("killed", "warning")
    elif is_going_on(run):
        yield Span("still going", "warning")
    elif run.incomplete:
        yield Span("recording broke off", "warning")
    if run.failure is not None:
        if run.failure.kind == "raised":
            yield Span(f"raised {short_type(run.failure.type or 'an exception')}", "failed")
    elif not (was_killed(run) or is_going_on(run)):
        yield from _status(run.root)


def _status(call: Call) -> Iterator[Span]:
    status = call.outcome.status
    if status == "returned":
        yield Span("returned", "passed")
    elif status == "raised":
        yield Span(f"raised {_raised_type(call)} as expected", "passed")
    elif status != "unfinished":
        yield Span(status.replace("_", " "), "warning")


def _raised_type(call: Call) -> str:
    value = call.outcome.value
    return short_type(str(value.get("$exception", "?"))) if isinstance(value, dict) else "?"


def first_line(text: str) -> str:
    """Return the first line of a text that somebody wrote, not too much of it."""
    return next(iter(text.strip().splitlines()), "")[:_LONGEST_TEXT]


def place(run: Run) -> str:
    """Return the address where the run went wrong or was killed; empty where it did not."""
    if run.failure is not None and run.failure.address is not None:
        return run.failure.address
    if was_killed(run):
        return [call.address for call in run.walk() if is_last_killed(call)][-1]
    return ""


def is_last_killed(call: Call) -> bool:
    """Whether the process ended in this very call, and not in one below it."""
    return call.outcome.status == "killed" and all(
        child.outcome.status != "killed" for child in call.children
    )


def call_outcome(call: Call, limit: int, *, told_below: bool = False) -> str:
    """Return what a call did, in one line; of an exception that is told elsewhere only the type."""
    result = call.outcome
    if result.status == "returned":
        answer = answer_of(result.items)
        if answer is not None:
            return " ".join(" ".join(answer.lines).split())
        chunks = f"{len(result.items)} chunks " if result.items is not None else ""
        return chunks.rstrip() if chunks and result.value is None else chunks + short(result.value, limit)
    if not result.has_exception:
        return result.status.replace("_", " ")
    passed_on = result.origin not in (None, call.address)
    text = _raised_type(call) if passed_on or told_below else first_line(exception_text(result.value))
    return f"{result.status} {text}"


def duration(seconds: float) -> str:
    """Return a length of time with two digits that matter: ``41 ms``, ``1.2 s``, ``3 min 20 s``."""
    if seconds < 0.001:
        return f"{max(seconds, 0.0) * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.{1 if seconds < 0.01 else 0}f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def tokens(usage: Usage | None) -> str:
    """Return what was used in short, ``1.2k in, 300 out``; nothing where it was not told."""
    return "" if usage is None else f"{_rounded(usage.input)} in, {_rounded(usage.output)} out"


def total_of_tokens(usage: Usage) -> str:
    """Return what a run used in all: ``1.2k tokens in (800 cached), 300 out``."""
    cached = f" ({_rounded(usage.cached)} cached)" if usage.cached else ""
    return f"{_rounded(usage.input)} tokens in{cached}, {_rounded(usage.output)} out"


def exact_tokens(usage: Usage) -> str:
    """Return the figures in full."""
    cached = f" ({usage.cached:,} of them from a cache)" if usage.cached else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out"


def _rounded(number: int) -> str:
    if number < 1000:
        return str(number)
    size, unit = next(((size, unit) for size, unit in _SIZES if number < 999.5 * size), _SIZES[-1])
    share = number / size
    return f"{share:.{1 if share < 9.95 else 0}f}{unit}"


_SIZES = ((10**3, "k"), (10**6, "M"), (10**9, "B"))


def count_of(number: int, noun: str) -> str:
    """Return ``1 call`` or ``12 calls``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
