"""Damages files as disks, merges, editors and attackers do: seeded, so that each case can be had again."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

_MARKER = b"opened-by-a-recording"


def _bomb() -> dict[str, Any]:
    table = [[{"$ref": number + 1}] * 10 for number in range(30)]
    return {"$shared": [*table, "ha"], "value": {"$ref": 0}}


def _deep(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


FORGED: list[Any] = [
    {"$object": "os:system", "state": {"command": "touch " + _MARKER.decode()}},
    {"$object": "os:system", "of": "value", "value": "touch " + _MARKER.decode()},
    {"$object": "subprocess:Popen", "state": {"args": ["touch", _MARKER.decode()]}},
    {"$object": "builtins:type", "of": "value", "value": ["x", [], {}]},
    {"$object": "builtins:object", "state": {"__class__": {"$global": "os:system"}}},
    {"$object": "pathlib:Path", "state": {"a": 1}},
    {"$object": "numpy:ndarray", "of": "array", "dtype": "O", "shape": [10**9], "data": "AAAA"},
    {"$object": "collections:namedtuple", "of": "namedtuple", "state": {"a": 1}},
    {"$object": "../../etc:passwd", "state": {}},
    {"$object": "antigravity:x", "state": {}},
    {"$object": "this:x", "state": 3},
    {"$global": "os:system"},
    {"$global": "builtins:eval"},
    {"$global": "antigravity:fly"},
    {"$global": 3},
    {"$enum": "os:system", "name": "x"},
    {"$enum": "signal:Signals", "name": [1]},
    {"$enum": "signal:Signals", "name": "SIGKILL", "value": {"$set": [[1]]}},
    {"$exception": "builtins:SystemExit", "args": [3], "attrs": {}, "message": ""},
    {"$exception": "builtins:KeyError", "args": {"a": 1}, "attrs": [], "message": 3},
    {"$exception": "os:system", "args": ["touch " + _MARKER.decode()], "attrs": {"x": 1}, "message": "m"},
    {"$exception": "builtins:ExceptionGroup", "args": ["g", []], "attrs": {}, "message": "m"},
    {
        "$exception": "builtins:OSError",
        "args": [],
        "attrs": {"__class__": 1},
        "message": "m",
        "cause": {"$ref": 0},
    },
    {"$blob": "../../../../../../etc/passwd", "bytes": 9},
    {"$blob": "0" * 64, "bytes": 9},
    {"$blob": ["a"], "bytes": "x"},
    {"$blob": "/etc/passwd"},
    {"$ref": 0},
    {"$ref": "x"},
    {"$shared": [{"$ref": 0}], "value": {"$ref": 0}},
    {"$shared": [{"$set": [{"$ref": 0}]}], "value": {"$ref": 0}},
    {"$shared": [{"$tuple": [{"$ref": 1}]}, {"$tuple": [{"$ref": 0}]}], "value": [{"$ref": -1}]},
    {"$shared": [[{"$ref": 0}]], "value": {"$ref": 7}},
    {"$shared": 3, "value": 4},
    {"$shared": []},
    {"$as in": "handle#1", "part": "input/ticket"},
    {"$as in": "handle#1", "part": "value", "changes": {"list": {"": {"at": -1, "out": 9, "in": [1]}}}},
    {"$as in": "handle#1", "part": 3, "changes": 4},
    {"$as in": "nobody#1", "part": "value", "changes": {"dict": {"a/b": 1}, "text": {"": {"at": 1}}}},
    {"$as in": 3},
    {"$begins as": "handle#1", "items": 10**9, "then": [1]},
    {"$begins as": [], "then": 4},
    {"$int": "0x" + "f" * 5000},
    {"$int": "12 apples"},
    {"$decimal": "1e999999999"},
    {"$decimal": "sNaN"},
    {"$float": "1e400"},
    {"$float": "what"},
    {"$complex": [1]},
    {"$timedelta": [10**18, 0, 0]},
    {"$timedelta": [1.5, "x"]},
    {"$datetime": "2026-13-45T99:00", "fold": 9},
    {
        "$datetime": "2026-01-01T00:00:00",
        "tz": {"$object": "zoneinfo:ZoneInfo", "of": "value", "value": "../x"},
    },
    {"$date": "0000-00-00"},
    {"$time": "25:00"},
    {"$uuid": "x"},
    {"$path": "\0", "of": "PureWindowsPath"},
    {"$path": "../../x", "of": [1]},
    {"$bytes": "%%%"},
    {"$bytes": "AA\u00e9"},
    {"$bytearray": 3},
    {"$str": "\\ud800\\u"},
    {"$str": None},
    {"$dict": [[[], 1]]},
    {"$dict": [[{"$object": "builtins:dict", "state": {}}, 1], [1]]},
    {"$set": [[1], {"a": 1}]},
    {"$frozenset": [{"$dict": []}]},
    {"$tuple": "abc"},
    {"$opaque": "os:system", "repr": ["x"]},
    {"$opaque": None},
    {"$nobody": 1},
    {"$": 1},
    {"": {"$$$ref": 1}},
    {"$$ref": 1, "$ref": 2},
    _bomb(),
    _deep(90),
    _deep(600),
    10**400,
    -(2**63) - 1,
    1e308,
    -0.0,
    "\ud800",
    "\0\x1b[2J\r\n\u2028\x85",
    "x" * 100_000,
    "=======",
    True,
    None,
    [],
    {},
    "",
    "../../x#1",
    "handle#1/../../etc#1",
    "handle#0",
    "handle#1/handle#1/",
    "#",
    "a#1\n",
]


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        found.append((value, key))
        _places(part, found)
    return found


def _in_json(change: Callable[[Random, Any, Any], None]) -> Callable[[Random, bytes], bytes]:
    """Return a mutation of one line that changes one place in its JSON."""

    def mutate(random: Random, data: bytes) -> bytes:
        lines = data.split(b"\n")
        number = random.randrange(max(1, len(lines) - 1))
        event = json.loads(lines[number])
        parent, key = random.choice(_places(event, []))
        change(random, parent, key)
        lines[number] = json.dumps(event).encode()
        return b"\n".join(lines)

    return mutate


def _forge(random: Random, parent: Any, key: Any) -> None:
    parent[key] = random.choice(FORGED)


def _retype(random: Random, parent: Any, key: Any) -> None:
    value = parent[key]
    parent[key] = random.choice([[value], {"a": value}, str(value), 7, -1, 1.5, None, {"$tuple": value}])


def _drop(random: Random, parent: Any, key: Any) -> None:
    del parent[key]


def _rename(random: Random, parent: Any, key: Any) -> None:
    if isinstance(parent, dict):
        parent[random.choice(["$ref", "$object", "of", "state", "\0", "event", "v", f"${key}"])] = parent.pop(
            key
        )


def _flip(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 20))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))]


def _insert(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data))
    junk = random.choice(
        (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"[" * 50_000, b"{" * 5_000, b"\xef\xbb\xbf")
    )
    return data[:place] + junk + data[place:]


def _lines(change: Callable[[Random, list[bytes]], None]) -> Callable[[Random, bytes], bytes]:
    def mutate(random: Random, data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        change(random, lines)
        return b"".join(lines)

    return mutate


def _delete(random: Random, lines: list[bytes]) -> None:
    del lines[random.randrange(len(lines))]


def _double(random: Random, lines: list[bytes]) -> None:
    lines.insert(random.randrange(len(lines)), random.choice(lines))


def _swap(random: Random, lines: list[bytes]) -> None:
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _conflict(random: Random, lines: list[bytes]) -> None:
    place = random.randrange(len(lines))
    lines[place : place + 1] = [
        b"<<<<<<< HEAD\n",
        lines[place],
        b"=======\n",
        lines[place],
        b">>>>>>> theirs\n",
    ]


_BYTES = (_flip, _cut, _insert, _lines(_delete), _lines(_double), _lines(_swap), _lines(_conflict))
_JSON = (*[_in_json(_forge)] * 6, _in_json(_retype), _in_json(_retype), _in_json(_drop), _in_json(_rename))

YAML = [
    "!!python/object/apply:os.system ['touch opened']",
    "!!python/name:os.system",
    "&a [*a]",
    "&a {x: *a}",
    "*nobody",
    "{<<: [1]}",
    "!!binary '%%'",
    "!!timestamp 2026-99-99",
    "2026-99-99",
    "!!set {a, b}",
    "!!int 'x'",
    "!!float 'x'",
    "!!null 'x'",
    "0o9",
    "1_000_000_000:59:59",
    "[" * 3000,
    "{a: " * 500,
    "{$as in: x, changes: [1]}",
    "{$begins as: x, items: a}",
    "{$begins as: handle#1, items: 1, then: 7}",
    "{[a]: 1}",
    "? [a]\n: b",
    "\t",
    "\0",
    "%YAML 9.9",
    "---",
    "...",
    ".inf",
    "'unclosed",
    "a: b: c",
]


def _yaml_value(random: Random, lines: list[bytes]) -> None:
    place = random.randrange(len(lines))
    key, colon, _ = lines[place].rstrip(b"\n").partition(b":")
    lines[place] = key + colon + b" " + random.choice(YAML).encode() + b"\n"


def _yaml_bomb(random: Random, lines: list[bytes]) -> None:
    bomb = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    place = random.randrange(len(lines))
    lines[place:place] = [line.encode() + b"\n" for line in bomb]
    lines.append(b"tail: *a29\n")


def _yaml_shared(random: Random, lines: list[bytes]) -> None:
    """A bomb where a call's input stands."""
    places = [number for number, line in enumerate(lines) if line.strip() == b"input:"]
    if places:
        place = random.choice(places)
        indent = lines[place][: -len(lines[place].lstrip())]
        nested = "&b0 [x]"
        for number in range(1, 25):
            nested = f"&b{number} [{nested}, {', '.join([f'*b{number - 1}'] * 9)}]"
        lines[place] = indent + b"input: {k: " + nested.encode() + b"}\n"


def _unindent(random: Random, lines: list[bytes]) -> None:
    place = random.randrange(len(lines))
    lines[place] = b" " * random.randrange(6) + lines[place].lstrip()


_OF_YAML = (*[_lines(_yaml_value)] * 6, _lines(_yaml_bomb), _lines(_yaml_shared), _lines(_unindent))


def damaged_recording(data: bytes, seed: int) -> bytes:
    """Return a journal with one to three things wrong in it."""
    random = Random(seed)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        mutate = random.choice(_JSON if random.random() < 0.65 else _BYTES)
        try:
            data = mutate(random, data)
        except (ValueError, IndexError):  # what was damaged before is no JSON any more
            data = _flip(random, data) if data else b"\0"
    return data


def damaged_snapshot(data: bytes, seed: int) -> bytes:
    """Return a snapshot with one to three things wrong in it."""
    random = Random(seed)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        mutate = random.choice(_OF_YAML if random.random() < 0.6 else _BYTES)
        data = mutate(random, data) if data.strip() else b"\0"
    return data
