"""Opens a run: whether one is recorded at all, where, and what a test needs to find its root again."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepfork import _context
from stepfork._calls import Entry
from stepfork._journal import Journal
from stepfork._record import Recorder
from stepfork._redact import Redactor
from stepfork._warn import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._record import RecordedFrame
    from stepfork._settings import Settings
    from stepfork._spec import Spec


def recording_is_on(settings: Settings) -> bool:
    """Off by setting; under pytest off unless the plug-in switched it on."""
    if "PYTEST_VERSION" in os.environ and not settings.record_under_pytest:
        return False
    return settings.record


def open_root(spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedFrame | None:
    """Open the run of an outermost step; None where recording is off or cannot be set up."""
    return open_run(spec, lambda: spec.bind(args, kwargs), entry=lambda: _entry_of(spec))


def open_run(
    spec: Spec,
    arguments: Callable[[], Mapping[str, Any]],
    *,
    source: Callable[[], Path | None] | None = None,
    entry: Callable[[], Entry | None] = lambda: None,
    path: Path | None = None,
) -> RecordedFrame | None:
    """Return the frame of a new run's root; None where recording is off or cannot be set up."""
    if _context.child_of_replay:  # what it calls is refused: there is nothing to record
        return None
    recorder = None
    try:
        code = source() if source else _source_of(spec.function)
        recorder = _open_recorder(spec.name, code, entry, path)
        if recorder is None:
            return None
        recorder.start()
        root = recorder.begin(spec, recorder.base, arguments())
        recorder.join_calls_without_context(root)
    except Exception as fault:
        if recorder is not None:
            recorder.abandon(fault)
        else:
            warn_once(f"stepfork cannot record here: {type(fault).__name__}: {fault}")
        return None
    return root


def _open_recorder(
    name: str, source: Path | None, entry: Callable[[], Entry | None], path: Path | None
) -> Recorder | None:
    from stepfork._paths import ensure_private_dir, project_root, runs_dir
    from stepfork._settings import settings as settings_of

    root = project_root(source.parent if source else Path.cwd())
    settings = settings_of(root)
    if path is None and not recording_is_on(settings):
        return None
    run_id = secrets.token_hex(5)
    if path is None:
        folder = runs_dir(root, settings)
        ensure_private_dir(folder)
        path = folder / f"{run_id}.jsonl"
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    return Recorder(
        run_id,
        name,
        journal=Journal(path, settings.blob_bytes),
        redactor=make_redactor(settings),
        entry=entry(),
        on_failed=settings.on_failed,
    )


def make_redactor(settings: Settings) -> Redactor:
    """Return a redactor with the rules of these settings."""
    return Redactor(
        environ=os.environ,
        keys=settings.redact_keys,
        patterns=settings.redact_patterns,
        custom=settings.redactor,
    )


_INSIDE = ("__wrapped__", "func", "__func__")
"""Where decorators, partials and bound methods keep what they stand for."""

_LAYERS = 50
"""How deep that may go; an object that answers to every name goes on for ever."""


def _source_of(function: Any) -> Path | None:
    code = getattr(_innermost(function), "__code__", None)
    if code is None:
        return None
    path = Path(code.co_filename)
    return path if path.exists() else None


def _innermost(function: Any) -> Any:
    for _ in range(_LAYERS):
        inner = next((getattr(function, name, None) for name in _INSIDE if hasattr(function, name)), None)
        if inner is None:
            break
        function = inner
    return function


def _entry_of(spec: Spec) -> Entry | None:
    function = _innermost(spec.function)
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not qualname:
        return None
    source = _source_of(function)
    return Entry(module, qualname, _relative_to_root(source) if source else "")


def _relative_to_root(source: Path) -> str:
    from stepfork._paths import project_root

    resolved = source.resolve()
    with contextlib.suppress(ValueError):
        return resolved.relative_to(project_root(resolved.parent)).as_posix()
    return resolved.name
