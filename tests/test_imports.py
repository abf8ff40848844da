from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

import stepfork
from project import Project

PACKAGE = Path(stepfork.__file__).parent
DOCUMENTS = [PACKAGE.parent.parent / "README.md", *sorted((PACKAGE.parent.parent / "docs").rglob("*.md"))]

# From the bottom up: a module imports from its own layer and from those before it in this table. What no
# row names is pure data, so a new module that works with files or with the engine has to be put here.
LAYERS: dict[str, tuple[str, ...]] = {
    "files": (
        "_archive",
        "_events",
        "_file_lock",
        "_home",
        "_index",
        "_journal",
        "_kept_runs",
        "_memory_journal",
        "_paths",
        "_recording",
        "_repeats",
        "_retention",
        "_run_files",
        "_setting*",
        "_store",
    ),
    "engine": (
        "_context",
        "_ending",
        "_invoke",
        "_open_run",
        "_processes",
        "_record",
        "_refusal",
        "_run",
        "_served",
        "_spec",
        "_stream_objects",
        "_threads",
        "_unopened_run",
        "_watch",
    ),
    "decorators": ("_decorators", "_lent_process", "_program"),
    "adapters": ("adapters*",),
    "replay": ("_replay*",),
    "verdict": ("_verdict*",),
    "making tests": ("_making*",),
    "surface": ("__init__", "_launch", "pytest_plugin", "_pytest*", "testing"),
    "command line": ("__main__", "cli*"),
}

# Third-party packages that only these modules import, at the top or inside a function.
OWNERS: dict[str, tuple[str, ...]] = {
    "deepdiff": ("_compare.compare",),
    "syrupy": ("_pytest.syrupy",),
    "pytest": ("pytest_plugin", "_pytest*"),
    "_pytest": ("pytest_plugin", "_pytest*"),
    "ahocorasick_rs": ("_redact*",),
    "yaml": ("_verdict.snapshot",),
}

# What must be absent after an import, for its cost in time or for the code it runs.
HEAVY = [
    "_pytest",
    "deepdiff",
    "jsonpath",
    "numpy",
    "openai",
    "pydantic",
    "pytest",
    "rich",
    "syrupy",
    "tomllib",
    "unittest",
    "urllib.request",
    "yaml",
]


class Import(NamedTuple):
    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module of the package by its name inside it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts), path


MODULES = dict(modules())


class _Imports(ast.NodeVisitor):
    """Collects what a module imports when it runs; type checkers' imports do not count."""

    def __init__(self, module: str, path: Path) -> None:
        self.module = module
        self.package = ["stepfork", *path.relative_to(PACKAGE).parent.parts]
        self.found: list[tuple[str, int]] = []

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found.extend((alias.name, node.lineno) for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        above = self.package[: len(self.package) - node.level + 1] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            self.found.append((whole if whole.removeprefix("stepfork.") in MODULES else base, node.lineno))


def imports() -> Iterator[Import]:
    """Yield every import that the package makes."""
    for module, path in MODULES.items():
        visitor = _Imports(module, path)
        visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
        for imported, line in visitor.found:
            yield Import(module, imported, line)


IMPORTS = list(imports())


def matches(module: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns names the module."""
    return any(fnmatchcase(module, pattern) for pattern in patterns)


def is_ours(module: str) -> bool:
    """Whether the module is of this package."""
    return module.partition(".")[0] == "stepfork"


def layer_of(module: str) -> int:
    """Return how high a module stands; 0 is pure data."""
    module = module.removeprefix("stepfork.") if module != "stepfork" else "__init__"
    return next(
        (height for height, names in enumerate(LAYERS.values(), start=1) if matches(module, names)), 0
    )


def test_no_module_imports_from_a_layer_above_its_own() -> None:
    """Pure modules know no files, files no engine, the engine no pytest and no command line."""
    upward = [
        str(each)
        for each in IMPORTS
        if is_ours(each.imported) and layer_of(each.imported) > layer_of(each.importer)
    ]
    assert upward == []


def test_a_third_party_package_is_imported_by_its_owner_alone() -> None:
    """One module knows syrupy, one deepdiff, and nothing below the plug-in knows pytest."""
    strangers = [
        str(each)
        for each in IMPORTS
        if (owners := OWNERS.get(each.imported.partition(".")[0])) and not matches(each.importer, owners)
    ]
    assert strangers == []


def test_the_walk_sees_imports_at_the_top_and_inside_functions() -> None:
    """The graph holds what the other tests judge: relative, lazy and plain imports, not type checkers'."""
    path = PACKAGE / "adapters" / "sample.py"
    visitor = _Imports("adapters.sample", path)
    visitor.visit(
        ast.parse(
            "import os.path\n"
            "from typing import TYPE_CHECKING\n"
            "from .. import errors\n"
            "from stepfork import _calls, step\n"
            "if TYPE_CHECKING:\n    import syrupy\nelse:\n    import deepdiff\n"
            "def lazy():\n    from ..errors import OptionError\n"
        )
    )
    assert [name for name, _ in visitor.found] == [
        "os.path",
        "typing",
        "stepfork.errors",
        "stepfork._calls",
        "stepfork",
        "deepdiff",
        "stepfork.errors",
    ]


def loaded_after(project: Project, code: str, names: list[str]) -> list[str]:
    """Return which of ``names`` a new process loads by running ``code``."""
    # Against what was there before: where coverage is measured, it loads its own.
    program = (
        f"import sys\nbefore = set(sys.modules)\n{code}\n"
        f"print(*sorted(set({names!r}) & (set(sys.modules) - before)))"
    )
    shown = project.run("python", "-c", program)
    assert shown.code == 0, shown
    return shown.out.split()


def test_importing_stepfork_is_light(project: Project) -> None:
    """A program that only imports stepfork loads nothing beyond the standard library's small parts."""
    assert (
        loaded_after(project, "import stepfork", [*HEAVY, "ahocorasick_rs", "asyncio", "msgspec", "wrapt"])
        == []
    )


def test_decorating_and_calling_loads_only_what_production_has(project: Project) -> None:
    """Using a decorator loads wrapt and msgspec, and nothing of the extra (B63)."""
    code = "import stepfork\n@stepfork.tool\ndef look_up(key): return key\nassert look_up(1) == 1"
    assert set(loaded_after(project, code, [*HEAVY, "msgspec", "wrapt"])) <= {"msgspec", "wrapt"}


def test_the_pytest_entry_point_is_light(project: Project) -> None:
    """In a project that does not use stepfork, the plug-in loads none of what it works with (B63)."""
    names = ["ahocorasick_rs", "deepdiff", "jsonpath", "msgspec", "rich", "wrapt"]
    assert loaded_after(project, "import stepfork.pytest_plugin", names) == []


@pytest.mark.parametrize("name", sorted(set(stepfork.__all__) - {"__version__"}))
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    """It can be reached, says what it is, and stands in the README or the docs."""
    value = getattr(stepfork, name)
    assert (value.__doc__ or "").strip()
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS if document.exists()]
    assert any(re.search(rf"\bstepfork\.{name}\b", text) for text in texts), (
        f"stepfork.{name} is in no document"
    )


def test_no_public_name_is_missing_from_dir() -> None:
    """Names that are loaded when first used are listed all the same."""
    assert set(stepfork.__all__) <= set(dir(stepfork))
    assert sorted(stepfork.__all__) == list(stepfork.__all__)
    assert not hasattr(stepfork, "no_such_name")
