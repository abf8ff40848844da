"""Documents as YAML files: written for a reviewer, read as data only."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from stepfork._paths import write_whole
from stepfork._verdict.document import KINDS, STATES, Node
from stepfork._verdict.repeats import expanded, shortened
from stepfork.errors import SnapshotDamaged

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "# The accepted behaviour of one agent run. After a change that you want: pytest --snapshot-update\n"
_WAYS_ON = ["restore it from version control", "or delete it and run pytest --snapshot-update"]
_OTHER_LINE_ENDS = re.compile("[\r\x85\u2028\u2029\ufeff]")
_CONFLICT = re.compile(r"^(<{7}|>{7}|\|{7}) |^={7}$")


def to_text(document: Node) -> str:
    """Return the file's text; equal documents give equal texts."""
    short = shortened(document)
    text = _dumped(short, fast=True)
    if "\\U" in text:
        # libyaml escapes what lies beyond 16 bits, and quotes the whole text that holds an emoji.
        text = _dumped(short, fast=False)
    return HEADER + text


def _dumped(document: Node, *, fast: bool) -> str:
    import yaml

    text: str = yaml.dump(
        document,
        Dumper=_dumper(fast),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=2**20,
    )
    return text


def from_text(text: str, path: Path) -> Node:
    """Return the document that the text holds.

    Raises SnapshotDamaged with file and line for conflict markers and for anything that is no
    snapshot.
    """
    import yaml

    try:
        data = yaml.load(text, Loader=_loader())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _damaged(path, text, error) from None
    if _holds_one_thing_twice(data):
        raise _no_snapshot(path, _line_of_alias(text), "it has aliases, and snapshots have none")
    try:
        _check(data)
        return expanded(data)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise _no_snapshot(path, 1, str(error) or type(error).__name__) from None


def _no_snapshot(path: Path, line: int, why: str) -> SnapshotDamaged:
    return SnapshotDamaged(
        f"not a snapshot: {path}:{line}",
        detail=[("why", why)],
        ways_on=_WAYS_ON,
        path=str(path),
        line=line,
    )


def _holds_one_thing_twice(data: Any) -> bool:
    """Whether an alias ties the document into a knot, or into something that grows with every look at it."""
    seen: set[int] = set()
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, (list, dict)):
            continue
        if value and id(value) in seen:
            return True
        seen.add(id(value))
        waiting += value.values() if isinstance(value, dict) else value
    return False


def _line_of_alias(text: str) -> int:
    import yaml

    events = yaml.parse(text, Loader=_loader())
    marks = (event.start_mark for event in events if isinstance(event, yaml.AliasEvent))
    mark = next(marks, None)
    return 1 if mark is None else mark.line + 1


def read(path: Path) -> Node:
    """Read a snapshot file; FileNotFoundError where there is none."""
    return from_text(read_text(path), path)


def read_text(path: Path) -> str:
    """Return a snapshot file's text. Raises SnapshotDamaged where it is none."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SnapshotDamaged(
            f"not a text: {path}:1",
            detail=[("why", str(error))],
            ways_on=_WAYS_ON,
            path=str(path),
            line=1,
        ) from None


def read_head(path: Path) -> dict[str, str]:
    """Return the texts that stand before the calls, without reading the rest; nothing of a damaged file."""
    import yaml

    lines: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("calls:"):
                break
            lines.append(line)
    try:
        head = yaml.load("".join(lines), Loader=_loader())
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return (
        {key: value for key, value in head.items() if isinstance(value, str)}
        if isinstance(head, dict)
        else {}
    )


def write(path: Path, text: str) -> None:
    """Write the file at once or not at all; an equal file is left alone."""
    data = text.encode("utf-8")
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def _damaged(path: Path, text: str, error: Exception) -> SnapshotDamaged:
    for number, line in enumerate(text.splitlines(), 1):
        if _CONFLICT.match(line):
            return SnapshotDamaged(
                f"conflict markers in {path}:{number}",
                detail=[("line", line)],
                ways_on=["resolve the merge, or take one side and run pytest --snapshot-update"],
                path=str(path),
                line=number,
            )
    mark = getattr(error, "problem_mark", None)
    number = mark.line + 1 if mark is not None else 1
    return SnapshotDamaged(
        f"not YAML: {path}:{number}",
        detail=[("why", str(getattr(error, "problem", None) or error))],
        ways_on=_WAYS_ON,
        path=str(path),
        line=number,
    )


def _check(data: Any) -> None:
    if not isinstance(data, dict) or not {"recording", "state", "outcome", "calls"} <= data.keys():
        raise ValueError("it lacks recording, state, outcome or calls")
    if data["state"] not in STATES:
        raise ValueError(f"its state is {data['state']!r}: neither {STATES[0]!r} nor {STATES[1]!r}")
    if not isinstance(data["calls"], list) or not isinstance(data["outcome"], dict):
        raise ValueError("its calls are no list, or its outcome no mapping")
    _check_nodes(data["calls"])


def _check_nodes(nodes: Any) -> None:
    for node in nodes:
        if not isinstance(node, dict) or sum(kind in node for kind in KINDS) != 1:
            raise ValueError("a call is neither step, tool nor model")
        if not isinstance(node.get("input"), dict):
            raise ValueError("a call has no input")
        _check_nodes(node.get("calls", ()))


@functools.cache
def _dumper(fast: bool) -> Any:
    import yaml

    base = getattr(yaml, "CSafeDumper", yaml.SafeDumper) if fast else yaml.SafeDumper

    class Dumper(base):  # type: ignore[misc, valid-type]
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    Dumper.add_representer(str, _represent_text)
    return Dumper


def _represent_text(dumper: Any, text: str) -> Any:
    # Other line ends are written as escapes; a literal block that cannot hold a text exactly is not chosen.
    style = '"' if _OTHER_LINE_ENDS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
