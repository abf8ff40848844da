"""A program as a function: what the test of a run of ``stepfork run -- python my_agent.py`` calls."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

from stepfork._as_main import MAIN, Source
from stepfork._home import entry_of_program
from stepfork._invoke import for_functions
from stepfork._lent_process import ended_as_a_process, put_back_after
from stepfork._paths import project_root
from stepfork._spec import GivenSpec, Options, address_part
from stepfork.errors import EntryNotFound, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from stepfork._calls import Entry


def program(script: str | os.PathLike[str] = "", *, module: str = "") -> Program:
    """Return a program as a function of its arguments, as in ``stepfork.program("my_agent.py")(["A-17"])``.

    ``script`` is a path, relative to the project of the file that calls this; ``module`` is what
    ``python -m`` is told. It runs in this process as ``__main__``, with its own ``sys.argv`` and the folder
    of the script on ``sys.path``; both are put back after it. What it raises comes out, but ``sys.exit()``
    without a failure returns None. A call is a step, as ``stepfork run`` has it at the root of a run.

    Raises EntryNotFound where there is no such file or module.
    """
    if bool(os.fspath(script)) == bool(module):
        raise OptionError(
            "a program is a script or a module",
            ways_on=['stepfork.program("my_agent.py")', 'stepfork.program(module="shop.cli")'],
        )
    root = project_root(Path(sys._getframe(1).f_code.co_filename).parent)
    if module:
        _check_module(module, root)
        return Program(Source(module=module), root)
    path = root / script
    if not path.exists():
        raise EntryNotFound(
            f"there is no program {Path(script).as_posix()} in {root}",
            ways_on=["name it as it lies in the project: stepfork.program('scripts/my_agent.py')"],
            path=str(path),
        )
    return Program(Source(script=str(path)), root)


def _check_module(module: str, root: Path) -> None:
    """Raise EntryNotFound where nothing can be found under the name, without importing anything."""
    package = module.partition(".")[0]
    before = sys.path[:]
    sys.path.insert(0, str(root))
    try:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}")
    except (ImportError, ValueError) as error:
        raise EntryNotFound(
            f"there is no module {module} to run",
            detail=[("why", f"{type(error).__name__}: {error}"), ("looked in", str(root))],
            ways_on=["install the project that it belongs to: pip install -e ."],
            module=module,
        ) from error
    finally:
        sys.path[:] = before


@final
@dataclass(frozen=True, eq=False)
class ProgramSpec(GivenSpec):
    """What stands for a program where a function has what its decorator knows."""

    source: Source = field(default_factory=Source)
    mains: list[ModuleType] = field(default_factory=list)
    """Its ``__main__``, once it has begun."""

    @classmethod
    def of(cls, source: Source) -> ProgramSpec:
        name = address_part(source.name)
        return cls("step", program, Options(name=source.name, mutates=()), name, source=source)

    @property
    def file(self) -> str | None:
        """Its own file; that of a module is known once it runs."""
        found = (getattr(main, "__file__", None) for main in self.mains)
        return next(filter(None, found), self.source.script or None)

    @property
    def entry(self) -> Entry:
        """Where a test finds it again."""
        return entry_of_program(self.source.module or MAIN, self.file)

    @property
    def hints(self) -> list[type]:
        """The classes that it defined when it last ran: no module holds them any more."""
        found = [value for main in self.mains for value in vars(main).values()]
        return [value for value in found if isinstance(value, type) and value.__module__ == MAIN]


@final
class Program:
    """A program as a function of its arguments; made by :func:`program`."""

    def __init__(self, source: Source, root: Path) -> None:
        self._source = source
        self._root = root
        self._self_spec = ProgramSpec.of(source)
        self._invoke = for_functions(self._self_spec)
        told = repr(Path(source.script).name) if source.script else f"module={source.module!r}"
        self.__qualname__ = f"stepfork.program({told})"

    def __call__(self, argv: Sequence[str] = ()) -> None:
        """Run the program with these arguments after its name."""
        self._invoke(self._run, None, (), {"argv": list(argv)})

    def __repr__(self) -> str:
        return self.__qualname__

    def _run(self, argv: list[str]) -> None:
        with put_back_after(self._source.module):
            main = self._source.enter(argv, str(self._root))
            self._self_spec.mains[:] = [main]
            with ended_as_a_process():
                try:
                    self._source.execute(main)
                except SystemExit as error:
                    if error.code not in (None, 0):
                        raise
