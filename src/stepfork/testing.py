"""Checks that an adapter keeps what adapters promise, for the tests of its author.

Each check is a function without arguments that raises AssertionError; whatever runs tests can run it::

    from stepfork.testing import Sample, adapter_checks

    SAMPLES = {"found": Sample(lambda: client.lookup("A-17")), "missing": Sample(lambda: client.lookup("?"))}


    @pytest.mark.parametrize("check", adapter_checks(adapter, SAMPLES, unplugged=no_server), ids=str)
    def test_the_adapter(check):
        check()
"""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from stepfork._made_calls import Outcome, in_tasks, in_threads, outcome_of
from stepfork._plain import canonical
from stepfork._record import Recorder
from stepfork._recording import read_run
from stepfork._replay.conduct import replay
from stepfork._run import run
from stepfork.adapters._switch import tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import ModuleType

    from stepfork._calls import Call
    from stepfork.adapters import Adapter

__all__ = ["Check", "Sample", "adapter_checks"]


@final
@dataclass(frozen=True)
class Sample:
    """A call of the library, as an agent makes it."""

    make: Callable[[], Any]
    """Makes the call; what it returns is awaited, or read to its end, if it is of that kind."""
    records: tuple[str, ...] | None = None
    """The names of the calls that it is to be recorded as, in order; by default one, of any name."""


@final
@dataclass(frozen=True)
class Check:
    """One promise; its text is the promise."""

    promise: str
    _check: Callable[[], None]

    def __call__(self) -> None:
        """Raise AssertionError where it is not kept."""
        self._check()

    def __str__(self) -> str:
        return self.promise


def adapter_checks(
    adapter: Adapter, samples: Mapping[str, Sample], *, unplugged: Callable[[], AbstractContextManager[Any]]
) -> list[Check]:
    """Return the checks of an adapter, by samples of the calls that it finds.

    There should be one of each kind: a call that returns, one that raises, coroutines, streams. They differ
    in their arguments, and give the same each time. In the block of ``unplugged()`` the library can do none
    of its work: whatever reaches outside raises.
    """
    trial = _Trial(adapter, samples, unplugged)
    promises: list[tuple[str, Callable[[], None]]] = [
        ("it can be found by its name", trial.is_found),
        ("nothing is imported for it", trial.imports_nothing),
        ("it works whichever comes first, the library or the adapter", trial.is_late_or_early),
        ("it takes away what it has put", trial.is_undone),
    ]
    for name in samples:
        promises += [
            (f"{name}: without a run nothing changes", partial(trial.is_plain, name)),
            (f"{name}: one call is one record", partial(trial.is_recorded_once, name)),
            (f"{name}: a replay gives the same and reaches nothing", partial(trial.is_replayed, name)),
            (f"{name}: two runs record the same", partial(trial.is_stable, name)),
            (f"{name}: a fault in recording is not the agent's", partial(trial.is_harmless, name)),
        ]
    promises += [
        ("calls in threads keep their own outcomes", partial(trial.is_apart, in_threads)),
        ("calls in tasks keep their own outcomes", partial(trial.is_apart, in_tasks)),
    ]
    return [Check(promise, check) for promise, check in promises]


class _Trial:
    """One adapter and its samples."""

    def __init__(self, adapter: Adapter, samples: Mapping[str, Sample], unplugged: Callable[[], Any]) -> None:
        self._adapter = adapter
        self._samples = samples
        self._unplugged = unplugged

    # -- the adapter in a process of its own

    def is_found(self) -> None:
        seen = self._in_new_process("found = True")
        assert seen["found"]

    def imports_nothing(self) -> None:
        seen = self._in_new_process("loaded = [name for name in MODULES if name in sys.modules]")
        assert not seen["loaded"], f"switching {self._adapter.name} on imported {', '.join(seen['loaded'])}"

    def is_late_or_early(self) -> None:
        hooked = "hooked = sorted(_switch._patches[NAME])"
        early = self._in_new_process(f"load()\n{hooked}")["hooked"]
        late = self._in_new_process(hooked, before="load()")["hooked"]
        assert early == late, f"hooked before the library's import: {early}; after it: {late}"
        assert early, f"none of the modules of {self._adapter.name} is installed here, or can be hooked"

    def _in_new_process(self, after: str, *, before: str = "") -> dict[str, Any]:
        script = _SCRIPT.format(
            name=self._adapter.name, modules=list(self._adapter.hooks), before=before, after=after
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (
            f"stepfork.instrument({self._adapter.name!r}) in a new process:\n{done.stderr}"
        )
        told: dict[str, Any] = json.loads(done.stdout.rpartition("\n")[2] or done.stdout)
        return told

    # -- the adapter in this process

    def is_undone(self) -> None:
        modules = _loaded(self._adapter)
        before = [_attributes(module) for module in modules]
        with tried(self._adapter):
            during = [_attributes(module) for module in modules]
        after = [_attributes(module) for module in modules]
        left, put = _differing(before, after), _differing(before, during)
        assert not left, f"left behind after it was switched off: {', '.join(left)}"
        assert put, f"switched on, {self._adapter.name} changes nothing in {modules}"

    def is_plain(self, name: str) -> None:
        make = self._samples[name].make
        without = outcome_of(make)
        with tried(self._adapter):
            _same(name, without, outcome_of(make))

    def is_recorded_once(self, name: str) -> None:
        with self._recorded(name) as (path, _):
            names = tuple(call.name for call in _calls(path))
        expected = self._samples[name].records
        if expected is None:
            assert len(names) == 1, f"{name} was recorded as {len(names)} calls: {', '.join(names) or 'none'}"
        else:
            assert names == expected, f"{name} was recorded as {names}, not as {expected}"

    def is_replayed(self, name: str) -> None:
        with self._recorded(name) as (path, outcome):
            self._replay(name, path, outcome, partial(outcome_of, self._samples[name].make))

    def is_stable(self, name: str) -> None:
        runs = []
        for _ in range(2):
            with self._recorded(name) as (path, _):
                runs.append([(call.name, call.kind, call.input) for call in _calls(path)])
        assert canonical(runs[0]) == canonical(runs[1]), (
            f"{name} was recorded as {runs[0]}, then as {runs[1]}"
        )

    def is_harmless(self, name: str) -> None:
        make = self._samples[name].make
        without = outcome_of(make)
        for events in range(4):
            with tried(self._adapter), _writing_fails_after(events), _scratch() as path:
                with warnings.catch_warnings(record=True) as told, run("check", path=path):
                    warnings.simplefilter("always")
                    _same(name, without, outcome_of(make))
                ours = [str(each.message) for each in told if str(each.message).startswith("stepfork")]
                assert len(ours) <= 1, ours

    def is_apart(self, together: Callable[[list[Callable[[], Any]]], list[Outcome]]) -> None:
        makes = [sample.make for sample in self._samples.values()] * 2
        names = list(self._samples) * 2
        without = [outcome_of(make) for make in makes]
        with tried(self._adapter), _scratch() as path:
            with run("check", path=path):
                outcomes = together(makes)
            with self._unplugged():
                replayed = replay(path, lambda: together(makes))
        assert not replayed.frontiers, _told(replayed)
        for name, plain, one, other in zip(names, without, outcomes, replayed.value, strict=True):
            _same(name, plain, one)
            _same(name, one, other)

    @contextmanager
    def _recorded(self, name: str) -> Iterator[tuple[Path, Outcome]]:
        with tried(self._adapter), _scratch() as path:
            with run("check", path=path):
                outcome = outcome_of(self._samples[name].make)
            assert read_run(path).ended, f"{name} could not be recorded to its end"
            yield path, outcome

    def _replay(self, name: str, path: Path, outcome: Outcome, agent: Callable[[], Outcome]) -> None:
        with self._unplugged():
            replayed = replay(path, agent)
        assert not replayed.frontiers, _told(replayed)
        assert not replayed.unused_calls, (
            f"never asked for: {[call.address for call in replayed.unused_calls]}"
        )
        assert replayed.error is None, f"the replay of {name} ended with {replayed.error!r}"
        _same(name, outcome, replayed.value)


def _same(name: str, one: Outcome, other: Outcome) -> None:
    assert not one.is_lossy, f"what {name} gives cannot be recorded as it is: {one}"
    assert one.key == other.key, f"{name} gave {one}, and then {other}"


def _calls(path: Path) -> list[Call]:
    return read_run(path).root.children


def _told(replayed: Any) -> str:
    return f"the replay cannot answer {[frontier.call.address for frontier in replayed.frontiers]}"


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stepfork-check-") as folder:
        yield Path(folder) / "run.jsonl"


@contextmanager
def _writing_fails_after(events: int) -> Iterator[None]:
    """Have the recorder run into a fault of its own at its next event but so many."""
    left = [events]
    write = Recorder._write

    def fail(self: Recorder, event: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("no space left, said by a check of an adapter")
        write(self, event)

    Recorder._write = fail  # type: ignore[method-assign]
    try:
        yield
    finally:
        Recorder._write = write  # type: ignore[method-assign]


def _loaded(adapter: Adapter) -> list[ModuleType]:
    modules = []
    for name in adapter.hooks:
        try:
            modules.append(importlib.import_module(name))
        except ImportError:  # of another version of the library
            continue
    assert modules, f"none of {', '.join(adapter.hooks)} can be imported here"
    return modules


def _attributes(module: ModuleType) -> dict[str, Any]:
    """Return what stands under each name of the module and of its classes."""
    found = {f"{module.__name__}.{name}": value for name, value in vars(module).items()}
    for kind in [value for value in found.values() if inspect.isclass(value)]:
        found |= {f"{kind.__module__}.{kind.__qualname__}.{name}": each for name, each in vars(kind).items()}
    return found


def _differing(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    pairs = zip(before, after, strict=True)
    return sorted(
        {name for old, new in pairs for name in {**old, **new} if old.get(name) is not new.get(name)}
    )


_SCRIPT: Final = """
import importlib, json, sys
import stepfork
from stepfork.adapters import _switch

NAME, MODULES = {name!r}, {modules!r}

def load():
    for module in MODULES:
        try:
            importlib.import_module(module)
        except ImportError:
            pass

{before}
stepfork.instrument(NAME)
{after}
told = {{key: value for key, value in vars().items() if key in ("found", "loaded", "hooked")}}
print("\\n" + json.dumps(told), end="")
"""
