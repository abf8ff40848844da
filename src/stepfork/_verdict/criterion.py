"""The criterion of a run that did not raise: read from options, and told in words."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stepfork._calls import Criterion
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepfork._calls import Plain

_JSON_WORDS = {"true": True, "false": False, "null": None}


class CallPattern(NamedTuple):
    """Which calls ``--never`` and ``--times`` mean: a name, and the arguments that were given with it."""

    name: str
    arguments: dict[str, Plain]


def read_criterion(expect: Iterable[str], never: Iterable[str], times: Iterable[str]) -> Criterion:
    """Return the criterion that the options state; raises OptionError naming the one that does not fit."""
    expected = dict(_expectation(text) for text in expect)
    counts = dict(_count(text) for text in times)
    names = tuple(never)
    for text in (*names, *counts):
        call_pattern(text)
    return Criterion(expected, names, counts)


def _expectation(text: str) -> tuple[str, Plain]:
    for position, char in enumerate(text):
        if char == "=":
            try:
                value = msgspec.json.decode(text[position + 1 :].encode("utf-8", "surrogateescape"))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            path = text[:position].strip()
            _check_path(path, text)
            return path, value
    path, _, value = text.partition("=")
    hint = (
        f"--expect '{path}={msgspec.json.encode(value).decode()}'" if "=" in text and "'" not in text else ""
    )
    raise OptionError(
        f"--expect {text} is not of the form PATH=JSON",
        ways_on=["a text stands in double quotes: " + (hint or 'status="refunded"')],
    )


def _check_path(path: str, text: str) -> None:
    from jsonpath import JSONPathError, compile

    try:
        compile(path if path.startswith("$") else f"$.{path}")
    except JSONPathError as error:
        reason = str(error).partition("\n")[0]
        raise OptionError(
            f"--expect {text}: {path!r} is no JSONPath: {reason}",
            ways_on=["paths start at the root's output: --expect 'items[0].total=120'"],
        ) from None


def _count(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.strip().isdecimal():
        raise OptionError(
            f"--times {text} is not of the form TOOL=N", ways_on=["for example: --times refund=1"]
        )
    return name.strip(), int(number)


def call_pattern(text: str) -> CallPattern:
    """Read ``refund`` or ``refund(order_id="A-17")``; raises OptionError."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return CallPattern(text.strip(), {})
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("arguments are given by name")
        arguments = {str(keyword.arg): _literal(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise OptionError(
            f"{text} does not name a call: {getattr(error, 'msg', error)}",
            ways_on=["""a tool's name, or with arguments: 'refund(order_id="A-17")'"""],
        ) from None
    return CallPattern(name.strip(), arguments)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _JSON_WORDS:
        return _JSON_WORDS[node.id]
    return ast.literal_eval(node)


def told(criterion: Criterion) -> Iterator[str]:
    """Yield in words what a good run shows."""
    for path, value in criterion.expect.items():
        yield f"{path} is {msgspec.json.encode(value).decode()}"
    for text in criterion.never:
        yield f"{text} is not called"
    for text, number in criterion.times.items():
        yield f"{text} is called {'once' if number == 1 else f'{number} times'}"
