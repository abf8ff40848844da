"""What stepfork costs where nothing is recorded: a decorated call, a step with recording off, the import."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import wrapt

import stepfork
from benchmarks.paired import in_turns, program, table

_CALLS = 20_000


def _work(number: int) -> int:
    return number


@wrapt.decorator
def _nothing(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


_bare = _nothing(_work)
_tool = stepfork.tool(_work, name="tool")
_step = stepfork.step(_work, name="step")


def _calls(function: Callable[[int], int]) -> Callable[[], int]:
    def way() -> int:
        for number in range(_CALLS):
            function(number)
        return _CALLS

    return way


def main() -> None:
    """Print a table of ratios."""
    os.environ["STEPFORK_RECORD"] = "off"
    calls = in_turns(
        [("wrapt", _calls(_bare)), ("tool", _calls(_tool)), ("step", _calls(_step)), ("call", _calls(_work))]
    )
    imports = in_turns(
        [
            ("nothing", program("pass")),
            ("wrapt", program("import wrapt")),
            ("stepfork", program("import stepfork")),
            ("both", program("import wrapt, msgspec")),
            ("used", program("import stepfork; stepfork.tool")),
        ]
    )
    rows = [
        ["a tool without a run / a bare wrapt call", f"{calls['tool'].ratio(calls['wrapt']):.2f}"],
        ["a step with recording off / a bare wrapt call", f"{calls['step'].ratio(calls['wrapt']):.2f}"],
        ["import stepfork / import wrapt", f"{imports['stepfork'].ratio(imports['wrapt']):.2f}"],
        [
            "import and first use of stepfork / import wrapt, msgspec",
            f"{imports['used'].ratio(imports['both']):.2f}",
        ],
        ["import wrapt / python -c pass", f"{imports['wrapt'].ratio(imports['nothing']):.2f}"],
    ]
    print(table("Where nothing is recorded", ["", "ratio"], rows))


if __name__ == "__main__":
    main()
