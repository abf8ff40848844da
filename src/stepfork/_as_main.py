"""Runs a script or a module as the interpreter itself does: as ``__main__``, with its own ``sys.argv``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAIN = "__main__"
_CANNOT_START = 2
"""The exit code of an interpreter that cannot open its script."""

when_defined: list[Callable[[dict[str, Any], str], None]] = []
"""Called with the names of a program and the one that a line of it has just given a value; mostly empty."""


@final
@dataclass(frozen=True)
class Source:
    """What a command line names after the interpreter: the path of a script, or a module after ``-m``."""

    script: str = ""
    module: str = ""

    @property
    def name(self) -> str:
        """How the program is called where it is spoken of."""
        return self.module or Path(self.script).stem or "program"

    def enter(self, argv: Sequence[str], folder: str | None = None) -> ModuleType:
        """Set ``sys.argv``, ``sys.path`` and a new ``__main__`` for the program; return that module.

        ``folder`` is what ``-m`` puts on the path; None: the working directory, and nothing at all where the
        interpreter was told so (``-P``).
        """
        sys.argv = [self.script or "-m", *argv]
        if self._is_package:
            sys.path.insert(0, self._path)
        elif folder is not None or not sys.flags.safe_path:
            # The texts that Python puts there.
            script = os.path.realpath(self.script)
            sys.path.insert(0, os.path.dirname(script) if self.script else folder or os.getcwd())  # noqa: PTH109, PTH120
        main = sys.modules[MAIN] = ModuleType(MAIN)
        main.__dict__.update(__annotations__={}, __builtins__=sys.modules["builtins"])
        return main

    def execute(self, main: ModuleType) -> None:
        """Run the program in the module that :meth:`enter` gave; whatever it raises comes out."""
        if self.module or self._is_package:
            import runpy

            # What the interpreter itself calls, so that tracebacks show the same frames.
            run_as_main: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
            if when_defined:
                vars(runpy)["exec"] = _execute_first  # which its own code finds before the built-in one
            try:
                run_as_main(self.module or MAIN, alter_argv=bool(self.module))
            finally:
                vars(runpy).pop("exec", None)
        else:
            _execute_file(self._path, main)

    @property
    def _path(self) -> str:
        """The script's path as Python makes it absolute: what leads up and down stays in it."""
        return os.path.join(os.getcwd(), self.script)  # noqa: PTH109, PTH118

    @property
    def _is_package(self) -> bool:
        """Whether it is a folder or an archive with a ``__main__.py``."""
        from pkgutil import get_importer

        return bool(self.script) and get_importer(self.script) is not None


def _execute_file(path: str, main: ModuleType) -> None:
    compiled = SourcelessFileLoader(MAIN, path) if path.endswith(".pyc") else None
    loader = compiled or SourceFileLoader(MAIN, path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        why = f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        print(f"{sys.orig_argv[0]}: {why}", file=sys.stderr)
        raise SystemExit(_CANNOT_START) from None
    code = compiled and compiled.get_code(MAIN)
    _execute(code or compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _execute_first(code: CodeType, names: dict[str, Any]) -> None:
    """Execute the program itself in the place of ``exec``, and not what the program executes so."""
    import runpy

    vars(runpy).pop("exec", None)
    _execute(code, names)


def _execute(code: CodeType, names: dict[str, Any]) -> None:
    exec(code, names, _Watched(names) if when_defined else None)


class _Watched(MutableMapping[str, Any]):
    """The names of a program for its own lines; what they define is told at once, before they call it."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._names[name] = value
        for tell in when_defined:
            tell(self._names, name)

    def __delitem__(self, name: str) -> None:
        del self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
