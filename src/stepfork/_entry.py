"""Finds how a test reaches the root function, in a process of its own: importing a file may do anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stepfork._calls import Entry, Run
from stepfork._context import REPLAYING
from stepfork.errors import EntryNotFound

_SECONDS = 120


@dataclass(frozen=True)
class Reach:
    """How the test's source names the root function."""

    module: str
    imported: str
    """The name that is imported from the module."""
    expression: str
    """What stands in the call: ``handle``, ``agent.handle``, ``Agent().handle``."""
    source_root: Path | None = None
    """The folder that must be on ``sys.path``, where a bare pytest does not put it there itself."""


def find_entry(run: Run, root: Path, given: str | None) -> Reach:
    """Return how a test imports the root function; raises EntryNotFound with the ``--entry`` to give."""
    if given is not None:
        module, colon, qualname = given.partition(":")
        if not (colon and module and qualname):
            raise EntryNotFound(f"--entry {given} is not of the form MODULE:CALLABLE", entry=given)
        return _probe(Entry(module, qualname), root, run)
    if run.entry is None:
        raise EntryNotFound(
            f"the run {run.id} was opened with stepfork.run({run.name!r}): a test cannot tell which function that was in",
            ways_on=["name a function that takes the recorded input: --entry MODULE:CALLABLE"],
        )
    if "<locals>" in run.entry.qualname:
        raise EntryNotFound(
            f"{run.entry.qualname} is defined inside a function, where a test cannot reach it",
            ways_on=["move it to the module's level, or name another way in: --entry MODULE:CALLABLE"],
        )
    return _probe(run.entry, root, run)


def _probe(entry: Entry, root: Path, run: Run) -> Reach:
    problem = ""
    for module, folder in _modules(entry, root):
        found = _ask(module, entry.qualname, folder)
        if "expression" in found:
            return Reach(module, found["imported"], found["expression"], folder)
        if not found.get("missing"):
            problem = found["problem"]
            break
        problem = problem or found["problem"]
    raise EntryNotFound(
        f"a test cannot reach {entry.module}:{entry.qualname}",
        detail=[("why", problem)],
        ways_on=[
            'guard what runs the agent with: if __name__ == "__main__":',
            f"or name another way in: stepfork make-test {run.id} --entry MODULE:CALLABLE",
        ],
        entry=f"{entry.module}:{entry.qualname}",
    )


def _modules(entry: Entry, root: Path) -> list[tuple[str, Path | None]]:
    """Return module names to try, each with the folder that makes it importable; None: as it is."""
    if entry.module != "__main__":
        tries: list[tuple[str, Path | None]] = [(entry.module, None), (entry.module, root), (entry.module, root / "src")]
        depth = entry.module.count(".") + 1
        source = root / entry.file
        if entry.file and len(source.parents) > depth and source.parents[depth - 1] not in (root, root / "src"):
            tries.append((entry.module, source.parents[depth - 1]))
        return tries
    path = Path(entry.file)
    parts = path.with_suffix("").parts
    names: list[tuple[str, Path | None]] = [(".".join(parts), None), (".".join(parts), root)]
    if parts[:1] == ("src",):
        names.append((".".join(parts[1:]), root / "src"))
    names.append((path.stem, (root / path).parent))
    return [(name, folder) for name, folder in names if all(part.isidentifier() for part in name.split("."))]


def _ask(module: str, qualname: str, folder: Path | None) -> dict[str, str]:
    environ = {**os.environ, REPLAYING: "1"}
    paths = [str(folder)] if folder else []
    command = [sys.executable, "-P", "-c", _PROBE, json.dumps([module, qualname, paths])]
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"importing {module} did not end within {_SECONDS} s: does it run the agent?"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("stepfork-probe:"):
            answer: dict[str, str] = json.loads(line.removeprefix("stepfork-probe:"))
            return answer
    last = (done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"])[-1]
    return {"problem": f"importing {module} ended the process: {last}: does it run the agent?"}


_PROBE = r"""
import importlib, inspect, json, sys
module_name, qualname, paths = json.loads(sys.argv[1])
sys.path[:0] = paths

def answer(**found):
    print("\nstepfork-probe:" + json.dumps(found), flush=True)
    sys.exit()

try:
    module = importlib.import_module(module_name)
except ModuleNotFoundError as error:
    missing = module_name == error.name or module_name.startswith(f"{error.name}.")
    answer(problem=str(error), missing="yes" if missing else "")
except BaseException as error:
    answer(problem=f"importing {module_name} raised {type(error).__name__}: {error}")

owner_name, _, name = qualname.rpartition(".")
try:
    owner = module
    for part in owner_name.split(".") if owner_name else ():
        owner = getattr(owner, part)
    function = getattr(owner, name)
except AttributeError as error:
    answer(problem=str(error))
if not inspect.isclass(owner):
    answer(imported=qualname.partition(".")[0], expression=qualname)
raw = inspect.getattr_static(owner, name)
kind = getattr(raw, "__wrapped__", raw)
if isinstance(kind, (staticmethod, classmethod)):
    answer(imported=qualname.partition(".")[0], expression=qualname)
for variable, value in vars(module).items():
    if type(value) is owner:
        answer(imported=variable, expression=f"{variable}.{name}")
try:
    inspect.signature(owner).bind()
except TypeError:
    answer(problem=f"{qualname} needs an instance of {owner_name}: the module has none, and its constructor takes arguments")
answer(imported=qualname.partition(".")[0], expression=f"{owner_name}().{name}")
"""
