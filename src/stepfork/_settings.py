"""Settings: one table that ``[tool.stepfork]``, the environment and :func:`configure` all follow.

Each field of :class:`Settings` names its kind, default and meaning once; the three forms, the error
messages and the table in ``docs/settings.md`` are drawn from there. What ``configure`` was told beats
the environment, which beats pyproject.toml, which beats the default; a value replaces, it never adds.
"""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from stepfork import _setting_kinds as kinds
from stepfork._near import did_you_mean, near_names
from stepfork._paths import project_root
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import NoReturn, Unpack

    from stepfork._setting_kinds import Kind

__all__ = ["SETTINGS", "Options", "Setting", "Settings", "configure", "settings"]

_PREFIX = "STEPFORK_"
_ALIKE = 0.75


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    """The key in pyproject.toml and the keyword of ``configure``."""
    kind: Kind
    default: Any
    env: str | None
    """The environment variable; None where no text can stand for the value."""
    in_pyproject: bool
    example: Any
    doc: str


def _setting(
    kind: Kind,
    default: Any,
    doc: str,
    *,
    example: Any,
    in_env: bool = True,
    in_pyproject: bool = True,
) -> Any:
    facts = {"kind": kind, "doc": doc, "example": example, "in_env": in_env, "in_pyproject": in_pyproject}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=facts)
    return dataclasses.field(default=default, metadata=facts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for one project root."""

    record: bool = _setting(kinds.FLAG, True, "Whether runs are recorded.", example=False)
    record_under_pytest: bool = _setting(
        kinds.FLAG, False, "Whether they are also recorded in a pytest process.", example=True
    )
    dir: Path = _setting(
        kinds.PATH,
        Path(".stepfork"),
        "The folder that runs are kept in, from the project's root.",
        example=Path("var/stepfork"),
    )
    redact_keys: tuple[str, ...] = _setting(
        kinds.NAMES,
        (),
        "Keys whose values are secrets, besides the built-in ones. In the environment separated by commas.",
        example=("ssn", "iban"),
    )
    redact_patterns: tuple[str, ...] = _setting(
        kinds.PATTERNS,
        (),
        "Regular expressions of secrets, besides the built-in ones. In the environment one a line.",
        example=("ACME-[0-9]{12}",),
    )
    redactor: Callable[[str], str] | None = _setting(
        kinds.FUNCTION,
        None,
        "A function from text to text that has the last word on every string; `module:function`, or itself.",
        example="shop.privacy:scrub",
        in_env=False,
    )
    tools: tuple[str | Callable[..., Any], ...] = _setting(
        kinds.TOOLS,
        (),
        "Functions that do the work of tools and have other names, a dispatcher for example; for "
        "`stepfork.instrument()` and `stepfork run`. In the environment separated by commas.",
        example=("shop.agent:execute", "shop.tools:*"),
    )
    tolerance: dict[str, Any] = _setting(
        kinds.TABLE,
        {},
        "Rules of comparison by path. In the environment a JSON object.",
        example={"score": "approx(rel=0.01)"},
    )
    override: dict[str, Any] = _setting(
        kinds.TABLE,
        {},
        "What calls return in every replay, by address or name. In the environment a JSON object.",
        example={"today": "2026-11-30"},
    )
    timeout: float = _setting(kinds.SECONDS, 60.0, "Seconds that one replay may take.", example=120.0)
    blob_bytes: int = _setting(
        kinds.BYTES, 65536, "Payloads of more bytes than this go to a file of their own.", example=16384
    )
    on_failed: Callable[..., object] | None = _setting(
        kinds.CALLABLE,
        None,
        "Called with the path of each failed run, when it has ended; with its bytes where it could not be "
        "written.",
        example=print,
        in_env=False,
        in_pyproject=False,
    )
    sample: float = _setting(
        kinds.SHARE, 1.0, "The share of the runs that passed which is kept.", example=0.1
    )
    max_age: float = _setting(kinds.DAYS, 14.0, "Days after which a run is removed.", example=30.0)
    max_bytes: int = _setting(
        kinds.BYTES, 2**30, "What all kept runs together may weigh.", example=50_000_000
    )
    moved: dict[str, str] = _setting(
        kinds.NAME_TABLE,
        {},
        "Where classes of recorded values live now, old name to new. In the environment a JSON object.",
        example={"shop.models:Order": "shop.orders:Order"},
    )


class Options(TypedDict, total=False):
    """The keywords of :func:`configure`; None takes a setting back."""

    record: bool | None
    record_under_pytest: bool | None
    dir: str | os.PathLike[str] | None
    redact_keys: Iterable[str] | None
    redact_patterns: Iterable[str] | None
    redactor: str | Callable[[str], str] | None
    tools: Iterable[str | Callable[..., Any]] | None
    tolerance: Mapping[str, Any] | None
    override: Mapping[str, Any] | None
    timeout: float | None
    blob_bytes: int | None
    on_failed: Callable[..., object] | None
    sample: float | None
    max_age: float | None
    max_bytes: int | None
    moved: Mapping[str, str] | None


def _row(field: dataclasses.Field[Any]) -> Setting:
    facts = field.metadata
    default = field.default if field.default is not dataclasses.MISSING else {}
    env = _PREFIX + field.name.upper() if facts["in_env"] else None
    return Setting(
        field.name, facts["kind"], default, env, facts["in_pyproject"], facts["example"], facts["doc"]
    )


SETTINGS: tuple[Setting, ...] = tuple(map(_row, dataclasses.fields(Settings)))

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_ENV = {setting.env: setting for setting in SETTINGS if setting.env}

_configured: dict[str, Any] = {}
_RAW_NAMES = tuple(map(os.environ.encodekey, _BY_ENV))

_LOOK_AGAIN = 1.0


class _Cached(NamedTuple):
    """Settings, and what they were read from."""

    stamp: tuple[int, int] | None
    around: tuple[object, ...]
    until: float
    settings: Settings


_cache: dict[Path, _Cached] = {}


def configure(**options: Unpack[Options]) -> None:
    """Set settings for this process; they beat the environment and pyproject.toml.

    None takes a setting back. Either all of ``options`` are taken or none.

    Raises:
        OptionError: there is no such setting, or the value does not fit it.
    """
    global _configured
    merged = dict(_configured)
    for name, value in options.items():
        setting = _BY_NAME.get(name) or _refuse_name(name, "stepfork.configure", _BY_NAME)
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _fit(setting.kind.check, value, f"stepfork.configure({name}=...)", setting)
    _configured = merged


def settings(root: Path | None = None, *, is_fresh: bool = True) -> Settings:
    """Return what holds for the project at ``root``, by default the one around the working directory.

    Reads pyproject.toml again only when it has changed; whether it has is looked at each time, or,
    where what was true a moment ago will do, once a second.

    Raises:
        OptionError: a setting in pyproject.toml or in the environment does not exist or does not fit.
    """
    root = project_root(Path.cwd()) if root is None else root
    now = time.monotonic()
    around = (_variables(), _configured)
    cached = _cache.get(root)
    if cached is not None and cached.around == around:
        if not is_fresh and now < cached.until:
            return cached.settings
        if cached.stamp == _stamp(root):
            _cache[root] = cached._replace(until=now + _LOOK_AGAIN)
            return cached.settings
    stamp = _stamp(root)
    found = Settings(**(_from_pyproject(root / "pyproject.toml") | _from_environ(os.environ) | _configured))
    _cache[root] = _Cached(stamp, around, now + _LOOK_AGAIN, found)
    return found


def _variables() -> tuple[object, ...]:
    """Return what the environment says, as it stands there."""
    # os.environ decodes with each question: for 15 variables that is more than all else here.
    raw: Mapping[Any, Any] | None = getattr(os.environ, "_data", None)
    return tuple(map(raw.get, _RAW_NAMES)) if raw is not None else tuple(map(os.environ.get, _BY_ENV))


def _stamp(root: Path) -> tuple[int, int] | None:
    try:
        status = (root / "pyproject.toml").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _from_pyproject(file: Path) -> dict[str, Any]:
    found = {}
    for name, value in _table(file).items():
        setting = _BY_NAME.get(name)
        if setting is None or not setting.in_pyproject:
            _refuse_name(
                name, f"[tool.stepfork] in {file}", [row.name for row in SETTINGS if row.in_pyproject]
            )
        found[name] = _fit(setting.kind.check, value, f"[tool.stepfork] {name} in {file}", setting)
    return found


def _table(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    import tomllib

    try:
        table: object = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{file} cannot be read: {error}", source=str(file)) from error
    for part in ("tool", "stepfork"):
        table = table.get(part, {}) if isinstance(table, dict) else table
    if not isinstance(table, dict):
        raise OptionError(f"[tool.stepfork] in {file} is no table", source=str(file))
    return table


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    _look_for_typing_errors(environ)
    return {
        setting.name: _fit(setting.kind.parse, text, variable, setting)
        for variable, setting in _BY_ENV.items()
        if (text := environ.get(variable, "").strip())
    }


def _look_for_typing_errors(environ: Mapping[str, str]) -> None:
    # Not every foreign STEPFORK_ name is an error: another version or tool may own it.
    for variable in environ:
        if variable.startswith(_PREFIX) and variable not in _BY_ENV and _near(variable, _BY_ENV):
            _refuse_name(variable, "the environment", _BY_ENV)


def _fit(convert: Callable[[Any], Any], value: object, source: str, setting: Setting) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        shown = repr(value) if len(repr(value)) < 100 else f"{value!r:.100}..."
        raise OptionError(
            f"{source} does not fit: {shown}",
            detail=[("expected", setting.kind.label), ("because", str(error))],
            setting=setting.name,
            source=source,
            value=value,
        ) from error


def _refuse_name(name: str, source: str, known: Iterable[str]) -> NoReturn:
    near = tuple(_near(name, known))
    raise OptionError(
        f"there is no setting {name!r} ({source})",
        ways_on=did_you_mean(near) or [f"there are {', '.join(known)}"],
        setting=name,
        source=source,
        near=near,
    )


def _near(name: str, known: Iterable[str]) -> list[str]:
    # Every name begins like this: it would make all of them alike.
    short = {each.removeprefix(_PREFIX): each for each in known}
    return [short[near] for near in near_names(name.removeprefix(_PREFIX), short, alike=_ALIKE)]
