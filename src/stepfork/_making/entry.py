"""Finds how a test reaches the root function, by asking a process of its own: an import may do anything."""

from __future__ import annotations

import json
import keyword
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork._calls import Entry, Run
from stepfork._making.entry_probe import MARK
from stepfork._verdict.lacking import way_to_set
from stepfork.errors import EntryNotFound

if TYPE_CHECKING:
    from collections.abc import Collection

_SECONDS = 120
_MAIN = "__main__"


@dataclass(frozen=True)
class Reach:
    """How the test's source names the root function."""

    module: str
    imported: str
    """The name that is imported from the module; empty where that is imported itself."""
    expression: str
    """What stands in the call: ``handle``, ``agent.handle``, ``stepfork.program("my_agent.py")``."""
    source_root: Path | None = None
    """The folder that must be on ``sys.path``, where nothing but this search puts it there."""
    missing: tuple[str, ...] = ()
    """Parameters without a default that the recording has no argument for."""
    needs_path: bool = False
    """Only PYTHONPATH, as it is set here, makes the module importable."""
    main_module: str | None = None
    """The importable name of what was ``__main__`` when the run was recorded."""


def find_entry(run: Run, root: Path, given: str | None) -> Reach:
    """Return how a test imports the root; raises EntryNotFound with the ``--entry`` to give."""
    if given is not None:
        module, colon, qualname = given.partition(":")
        if not (colon and _is_dotted(module) and _is_dotted(qualname)):
            raise EntryNotFound(
                f"--entry {given} is not of the form MODULE:CALLABLE",
                ways_on=["for example: --entry shop.agent:handle"],
                entry=given,
            )
        return _probe(Entry(module, qualname), root, run)
    if run.entry is None:
        raise EntryNotFound(
            f"the run {run.id} was opened with stepfork.run({run.name!r}), where a test cannot find it",
            ways_on=[f"name the function that opens it: stepfork make-test {run.id} --entry MODULE:CALLABLE"],
            run=run.id,
        )
    if not run.entry.qualname:
        return _program(run.entry, root, run)
    if "<" in run.entry.qualname:
        raise EntryNotFound(
            f"{run.entry.qualname} is defined inside a function, where a test cannot reach it",
            ways_on=[
                "move it to the module's level",
                f"or name another way in: stepfork make-test {run.id} --entry MODULE:CALLABLE",
            ],
            entry=f"{run.entry.module}:{run.entry.qualname}",
        )
    return _probe(run.entry, root, run)


def _program(entry: Entry, root: Path, run: Run) -> Reach:
    """Return how a test runs a whole program; what is not imported is not tried before the proof."""
    if entry.module == _MAIN and not (entry.file and (root / entry.file).exists()):
        there = f"there is no {entry.file} in {root}" if entry.file else "it is an installed command"
        raise EntryNotFound(
            f"a test cannot run the program {run.name}",
            detail=[("why", there)],
            ways_on=[
                "of a server or a worker, record what it does: stepfork run --per-step -- COMMAND",
                "or run it as a module: stepfork run -- python -m MODULE",
            ],
            entry=entry.file,
        )
    if entry.module == _MAIN:
        return Reach("stepfork", "", f"stepfork.program({_quoted(entry.file)})")
    folder = _folder_of(entry, root)
    return Reach("stepfork", "", f"stepfork.program(module={_quoted(entry.module)})", source_root=folder)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _folder_of(entry: Entry, root: Path) -> Path | None:
    """Return the folder that must be on ``sys.path`` for a module, where its file says so."""
    parts = Path(entry.file).with_suffix("").parts
    parts = parts[:-1] if parts[-1:] == (_MAIN,) else parts
    names = tuple(entry.module.split("."))
    if not parts or parts[-len(names) :] != names:
        return None
    return root.joinpath(*parts[: -len(names)])


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def _probe(entry: Entry, root: Path, run: Run) -> Reach:
    found = _ask(entry, root, run, path=False)
    needs_path = "problem" in found and bool(os.environ.get("PYTHONPATH"))
    if needs_path:
        found = _ask(entry, root, run, path=True)
    if "problem" in found:
        raise _not_found(entry, run, found, root)
    folder = found["folder"]
    return Reach(
        found["module"],
        found["imported"],
        found["expression"],
        source_root=Path(folder) if folder else None,
        missing=tuple(name for name in found["required"] if name not in run.root.input),
        needs_path=needs_path,
        main_module=found["main_module"],
    )


def _not_found(entry: Entry, run: Run, problem: dict[str, Any], root: Path) -> EntryNotFound:
    command = f"stepfork make-test {run.id} --entry MODULE:CALLABLE"
    if problem.get("runs_agent"):
        ways = [
            'put what runs the agent under: if __name__ == "__main__":',
            f"or move {entry.qualname} into a module that only defines it, and name it there: {command}",
        ]
    elif problem.get("needs_instance"):
        ways = [
            f"make one at the level of the module, as in: agent = {entry.qualname.rpartition('.')[0]}(...)",
            f"or write a function that makes one and calls it, and name that: {command}",
        ]
    elif problem.get("missing"):
        ways = [
            "run make-test in the project of the agent, with what it imports installed"
            + (": pip install -e ." if (root / "pyproject.toml").exists() else ""),
            f"or name it: {command}",
        ]
    elif problem.get("lacks_variable"):
        ways = [way_to_set(problem["lacks_variable"]), f"or name another way in: {command}"]
    else:
        ways = [f"name another way in: {command}"]
    looked_in = ", ".join(dict.fromkeys(str(folder) for _, folder in _modules(entry, root) if folder))
    lacks = str(problem.get("lacks") or "").partition(".")[0]
    if lacks and any((root / "src" / name).exists() for name in (lacks, f"{lacks}.py")):
        looked_in = f"{root}, where {entry.module} stands; {lacks} stands in {root / 'src'}"
    return EntryNotFound(
        f"a test cannot reach {entry.module}:{entry.qualname}",
        detail=[("why", problem["problem"]), *([("looked in", looked_in)] if problem.get("missing") else [])],
        ways_on=ways,
        entry=f"{entry.module}:{entry.qualname}",
    )


def _modules(entry: Entry, root: Path) -> list[tuple[str, Path | None]]:
    """Return module names to try, each with the folder that makes it importable; None: as it is."""
    if entry.module == _MAIN:
        return _modules_of_file(entry.file, root)
    tries: list[tuple[str, Path | None]] = [
        (entry.module, None),
        (entry.module, root),
        (entry.module, root / "src"),
    ]
    depth = entry.module.count(".") + 1
    source = root / entry.file
    if entry.file and len(source.parents) > depth and source.parents[depth - 1] not in (root, root / "src"):
        tries.append((entry.module, source.parents[depth - 1]))
    return tries


def _modules_of_file(file: str, root: Path) -> list[tuple[str, Path | None]]:
    path = Path(file)
    parts = path.with_suffix("").parts
    names: list[tuple[str, Path | None]] = [(".".join(parts), None), (".".join(parts), root)]
    if parts[:1] == ("src",):
        names = [(".".join(parts[1:]), None), (".".join(parts[1:]), root / "src"), *names]
    names.append((path.stem, (root / path).parent))
    return [(name, folder) for name, folder in names if _is_dotted(name) and name != _MAIN]


def _ask(entry: Entry, root: Path, run: Run, *, path: bool) -> dict[str, Any]:
    script = run.entry.file if run.entry is not None and run.entry.module == _MAIN else ""
    question = {
        "tries": [(module, str(folder) if folder else None) for module, folder in _modules(entry, root)],
        "file": str(root / entry.file) if entry.file else "",
        "qualname": entry.qualname,
        "main_file": str(root / script),
        "candidates": [name for name, _ in _modules_of_file(script, root)] if script else [],
        "adapters": run.adapters,
        "variables": run.variables + run.variables_set,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "stepfork._making.entry_probe", json.dumps(question)],
            env=quiet_environment(path=path),
            cwd=root,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"the import did not end within {_SECONDS} s: does the module wait for something?"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    last = (done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"])[-1]
    return {"problem": f"importing {entry.module} ended the process: {last}"}


def quiet_environment(*, path: bool, without: Collection[str] = ()) -> dict[str, str]:
    """Return the environment of a process that only looks at an agent: it records nothing.

    No bytecode is written beside the files of somebody else's project. Without ``path`` it lacks this
    process's PYTHONPATH, as whoever runs the test elsewhere will; and the variables ``without``.
    """
    left_out = set(without) if path else {*without, "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "STEPFORK_RECORD": "off", "PYTHONDONTWRITEBYTECODE": "1"}
