"""Imports an agent's module and says how a test reaches a function of it; runs in a process of its own.

``python -P -m stepfork._making.entry_probe '<JSON of Question>'`` prints one line of JSON. The module is
imported under a session that refuses every call, so that a file which runs its agent when it is
imported is found out before the agent does anything.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork import _context
from stepfork._frames import PACKAGE
from stepfork._spec import spec_of
from stepfork._verdict.lacking import lacking_variable
from stepfork.adapters._keys import stand_ins
from stepfork.adapters._switch import switched_on
from stepfork.errors import StepforkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._context import Frame, Session
    from stepfork._spec import Spec

MARK = "stepfork-probe:"


class ImportRunsAgent(BaseException):
    """Ends an import that goes on to run the agent; not for catching."""


class _Refusal(_context.NoCall):
    """A session in which no call may begin, and the frame of the import that goes on in it."""

    is_replay = True
    is_open = True

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.session: Session = self
        self.base: Frame = self

    def enter(
        self, spec: Spec, parent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Frame | None:
        """Note the call and end the import."""
        self.refused.append(f"{spec.name} at {_line_of_caller()}")
        raise ImportRunsAgent(spec.name)

    def fail(self, reason: str, frame: Any) -> None:
        """Nothing runs here that could fail."""

    def give_up(self, fault: Exception) -> None:
        """A fault of ours ends the import too."""
        raise fault

    def forget(self) -> None:
        """A child that is forked here may call as little as this process."""


def _line_of_caller() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"


def answer(
    tries: list[tuple[str, str | None]], file: str, qualname: str, main_file: str, candidates: list[str]
) -> dict[str, Any]:
    """Return how the function is reached, or a ``problem``.

    ``tries`` are names of modules, each with the folder that makes it importable; the first that is
    ``file`` counts. ``candidates`` are names under which ``main_file``, the script, might be imported.
    """
    refusal = _Refusal()
    with _context.opened(refusal), _context.running(refusal):
        chosen = _chosen(tries, file)
        if isinstance(chosen, str):
            return {"problem": chosen, "missing": True}
        loaded = _import(chosen[0], refusal)
    if isinstance(loaded, dict):
        return loaded
    found = _find(loaded, qualname)
    if "problem" in found:
        return found
    return found | {
        "module": chosen[0],
        "folder": chosen[1],
        "main_module": _module_of(main_file, [chosen[0], *candidates]) if candidates else None,
    }


def _chosen(tries: list[tuple[str, str | None]], file: str) -> tuple[str, str | None] | str:
    """Return the first module that is the file, its folder on the path; else why there is none."""
    problems = []
    for module, folder in tries:
        before = set(sys.modules)
        sys.path[:0] = [folder] if folder else []
        why = _why_not(module, file)
        if not why:
            return module, folder
        problems.append(why)
        if folder:
            sys.path.remove(folder)
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == module.partition(".")[0]:
                del sys.modules[name]
    return problems[0] if problems else f"a file of the name {file} cannot be imported"


def _why_not(module: str, file: str) -> str:
    """Return why the module is not meant; empty where it is, or where only its import can tell."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        return str(error)
    except BaseException:
        return ""
    if spec is None:
        return f"No module named {module!r}"
    if spec.origin and Path(file).is_file() and not _is_same(spec.origin, file):
        return f"{module} is another file: {spec.origin}"
    return ""


def _is_same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _import(module: str, refusal: _Refusal) -> Any:
    problem: dict[str, Any] = {}
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        problem = {"problem": str(error), "missing": True, "lacks": error.name}
    except BaseException as error:
        problem = {
            "problem": f"importing {module} raised {type(error).__name__}: {error}",
            "lacks_variable": lacking_variable(error),
        }
    if refusal.refused:
        return {
            "problem": f"importing {module} runs the agent: it calls {refusal.refused[0]}",
            "runs_agent": True,
        }
    return problem or loaded


def _find(module: Any, qualname: str) -> dict[str, Any]:
    owner_name, _, name = qualname.rpartition(".")
    try:
        owner = module
        for part in owner_name.split(".") if owner_name else ():
            owner = getattr(owner, part)
        function = getattr(owner, name)
    except AttributeError as error:
        return {"problem": str(error)}
    if not callable(function):
        return {"problem": f"{qualname} of {module.__name__} cannot be called: {type(function).__name__}"}
    if owner is module and spec_of(function) is None:
        qualname, function = _decorated_elsewhere(module, function) or (qualname, function)
    if not inspect.isclass(owner) or _needs_no_instance(owner, name):
        return _reached(qualname.partition(".")[0], qualname, function)
    return _method(module, owner, owner_name, name, function)


def _decorated_elsewhere(module: Any, function: Any) -> tuple[str, Any] | None:
    """Find ``handle = stepfork.step(_handle)`` where only ``_handle`` is known."""
    for variable, value in vars(module).items():
        if spec_of(value) is not None and inspect.unwrap(value) is function:
            return variable, value
    return None


def _needs_no_instance(owner: Any, name: str) -> bool:
    raw = inspect.getattr_static(owner, name)
    return isinstance(raw, (staticmethod, classmethod)) or isinstance(
        getattr(raw, "__wrapped__", None), (staticmethod, classmethod)
    )


def _method(module: Any, owner: Any, owner_name: str, name: str, function: Any) -> dict[str, Any]:
    instances = [(variable, value) for variable, value in vars(module).items() if isinstance(value, owner)]
    for variable, value in sorted(instances, key=lambda pair: type(pair[1]) is not owner):
        return _reached(variable, f"{variable}.{name}", getattr(value, name))
    try:
        inspect.signature(owner).bind()
    except (TypeError, ValueError):
        why = f"{module.__name__} holds none, and making one takes arguments"
        return {
            "problem": f"{owner_name}.{name} needs an instance of {owner_name}: {why}",
            "needs_instance": True,
        }
    return _reached(owner_name.partition(".")[0], f"{owner_name}().{name}", function, bound=False)


def _reached(imported: str, expression: str, function: Any, *, bound: bool = True) -> dict[str, Any]:
    return {"imported": imported, "expression": expression, "required": _required(function, bound)}


def _required(function: Any, bound: bool) -> list[str]:
    """Return the parameters without a default, ``self`` left out."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [
        parameter.name
        for parameter in parameters[0 if bound else 1 :]
        if parameter.default is parameter.empty and parameter.kind not in variadic
    ]


def _module_of(main_file: str, candidates: list[str]) -> str | None:
    """Return the name under which a test would import the file that was run as a script."""
    for name in candidates:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, AttributeError, ValueError):
            continue
        if spec is not None and spec.origin and _is_same(spec.origin, main_file):
            return name
    return None


def main() -> None:
    """Answer the question that was given as an argument."""
    question = json.loads(sys.argv[1])
    adapters, variables = question.pop("adapters"), question.pop("variables")
    os.environ[_context.REPLAYING] = "1"
    try:
        # As in the replay, where clients are built without a key.
        with stand_ins(variables, adapters), switched_on(adapters):
            found = answer(**question)
    except StepforkError as error:
        found = {"problem": str(error)}
    print(f"\n{MARK}{json.dumps(found)}", flush=True)
    # Threads that the module started must not keep this process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
