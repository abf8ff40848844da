"""What a decorator knows of the function it decorates: its name, kind, options and how to bind a call."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from stepfork._binding import binder
from stepfork.errors import DecorationError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepfork._binding import Binder
    from stepfork._calls import Entry, Kind, Plain
    from stepfork._compare.rules import Rule

decorated_names: set[str] = set()
"""The names of all functions that were decorated in this process."""


@dataclass(frozen=True, slots=True)
class Options:
    """The keyword-only options of the decorators."""

    name: str | None = None
    ignore: tuple[str, ...] = ()
    match: tuple[str, ...] | None = None
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    mutates: tuple[str, ...] | None = None
    repeats: bool = False
    expected: tuple[type[BaseException], ...] = ()


@dataclass(frozen=True)
class Spec:
    """One decorated function."""

    kind: Kind
    function: Callable[..., Any]
    options: Options
    name: str
    is_bound: bool = False
    """Called as a method: the arguments come without ``self`` or ``cls``."""
    is_hooked: ClassVar[bool] = False
    """Found by an adapter, not marked by its author."""
    is_plain: ClassVar[bool] = False
    """A function of the author's that an adapter found by the name of a tool."""

    def __post_init__(self) -> None:
        decorated_names.add(self.name)

    @functools.cached_property
    def as_method(self) -> Spec:
        """The same for calls through an instance or a class."""
        return dataclasses.replace(self, is_bound=True)

    @functools.cached_property
    def file(self) -> str | None:
        """The file that the function was written in."""
        from stepfork._home import file_of

        return file_of(self.function)

    @functools.cached_property
    def entry(self) -> Entry | None:
        """Where a test finds the function again."""
        from stepfork._home import entry_of

        return entry_of(self.function)

    @functools.cached_property
    def signature(self) -> inspect.Signature | None:
        """Of the undecorated function; None where it has none to show, as some built-ins."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return None
        parameters = list(signature.parameters.values())
        if self.is_bound and parameters and getattr(self.function, "__self__", None) is None:
            return signature.replace(parameters=parameters[1:])
        return signature

    @functools.cached_property
    def _unrecorded(self) -> tuple[str, ...]:
        """The parameters that are left out: those of ``ignore``, and ``self`` where a property passes it."""
        if self.signature is None or self.is_bound:
            return self.options.ignore
        owner = getattr(self.function, "__qualname__", "").rpartition(".")[0]
        first = next(iter(self.signature.parameters), None)
        if owner and not owner.endswith("<locals>") and first in ("self", "cls"):
            return (*self.options.ignore, first)
        return self.options.ignore

    @functools.cached_property
    def defaults(self) -> dict[str, Plain]:
        """The encoded defaults of the parameters that are recorded."""
        from stepfork._codec import encode

        found: dict[str, Plain] = {}
        for name, parameter in self.signature.parameters.items() if self.signature else ():
            if name in self.options.ignore:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                found[name] = encode(()).plain
            elif parameter.kind is parameter.VAR_KEYWORD:
                found[name] = {}
            elif parameter.default is not parameter.empty:
                found[name] = encode(parameter.default).plain
        return found

    @functools.cached_property
    def hints(self) -> list[type]:
        """The classes that the function's annotations name."""
        from stepfork._codec import collect_hint_classes

        return collect_hint_classes(self.function)

    @functools.cached_property
    def _binder(self) -> Binder | None:
        return None if self.signature is None else binder(self.signature, self._unrecorded)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter name, defaults included, ``ignore`` left out.

        A call that does not fit the signature is kept as it was spelled: the function itself will
        raise its own TypeError.
        """
        if self._binder is None:
            return self._spelled(args, kwargs)
        try:
            return self._binder(args, kwargs)
        except TypeError:
            return self._spelled(args, kwargs)

    def _spelled(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = tuple(self.signature.parameters) if self.signature else ()
        named = itertools.zip_longest(names[: len(args)], args)
        return {
            "args": [value for name, value in named if name not in self._unrecorded],
            "kwargs": {name: value for name, value in kwargs.items() if name not in self._unrecorded},
        }


class GivenSpec(Spec):
    """Of a call without a signature: its arguments are what it is given by name."""

    signature = None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return them as they are."""
        return dict(kwargs)


@dataclass(frozen=True)
class HookedSpec(GivenSpec):
    """Of a call that an adapter found in code that nobody marked."""

    is_hooked = True
    file: str | None = None
    entry: Entry | None = None


def _hooked() -> None:
    """Stands in a Spec for code that is a library's."""


@functools.lru_cache(maxsize=10_000)
def hooked(
    kind: Kind,
    name: str,
    *,
    file: str | None = None,
    entry: Entry | None = None,
    tolerance: tuple[tuple[str, Any], ...] = (),
) -> HookedSpec:
    """Return the spec of a call that an adapter found; the same for all calls of one name.

    ``file`` and ``entry``: of a step that may open a run, where its code stands and a test finds it.
    ``tolerance``: paths with their rules.
    """
    options = Options(name=name, mutates=(), tolerance=dict(tolerance))
    return HookedSpec(kind, _hooked, options, address_part(name), file=file, entry=entry)


def undecorated(
    kind: Kind, name: str, function: Callable[..., Any], *, mutates: tuple[str, ...] | None = None
) -> Spec:
    """Return the spec of what no decorator made a call of: a block, a job, a part of a stream."""
    return Spec(kind, function, Options(name=name, mutates=mutates), address_part(name))


def make_spec(kind: Kind, function: Any, options: Options) -> Spec:
    """Check what was decorated against the options and name it.

    Raises DecorationError for a class or something not callable, OptionError for an option that
    names a parameter the function does not have.
    """
    if inspect.isclass(function):
        raise DecorationError(
            f"@stepfork.{kind} decorates functions, and {function.__qualname__} is a class",
            ways_on=[f"decorate its methods, or a function that makes a {function.__name__}"],
        )
    if not callable(function) and not isinstance(function, (classmethod, staticmethod)):
        raise DecorationError(
            f"@stepfork.{kind} decorates functions, and this is a {type(function).__name__}"
        )
    plain = function.__func__ if isinstance(function, (classmethod, staticmethod)) else function
    spec = Spec(kind, plain, options, address_part(options.name or name_of(plain)))
    _check_parameters(spec)
    return spec


def name_of(function: Any) -> str:
    """Return the name under which the calls of a function are recorded where no other is given."""
    while isinstance(function, functools.partial):
        function = function.func
    qualname = getattr(function, "__qualname__", None) or type(function).__name__
    return str(qualname).rpartition("<locals>.")[2]


def address_part(name: str) -> str:
    """Return the name with the characters that an address is made of written as in a URL."""
    return name.replace("%", "%25").replace("/", "%2F").replace("#", "%23").replace("\n", "%0A") or "unnamed"


def _check_parameters(spec: Spec) -> None:
    if spec.signature is None:
        return
    parameters = spec.signature.parameters
    for option, names in (
        ("ignore", spec.options.ignore),
        ("match", spec.options.match),
        ("mutates", spec.options.mutates),
    ):
        for name in names or ():
            if name not in parameters:
                raise OptionError(
                    f"{option}={name!r} names no parameter of {spec.name}",
                    detail=[("it has", ", ".join(parameters) or "none")],
                )


def as_names(option: str, value: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Return an option that takes parameter names as a tuple; a bare string is a frequent slip."""
    if value is None:
        return None
    if isinstance(value, str):
        raise OptionError(
            f"{option}= takes a tuple of parameter names", ways_on=[f"write {option}=({value!r},)"]
        )
    return tuple(value)


def as_tolerance(value: Mapping[str, Rule] | None) -> dict[str, Rule]:
    """Return the option as a dict; paths are read later, in replays. Raises OptionError for no rule."""
    if not value:
        return {}
    from stepfork._compare.rules import check_rule

    if not isinstance(value, Mapping):
        raise OptionError(f"tolerance= maps paths to rules, and this is a {type(value).__name__}")
    for pattern, rule in value.items():
        check_rule(pattern, rule)
    return dict(value)


def spec_of(function: Any) -> Spec | None:
    """Return what stepfork knows of a decorated function; None for any other."""
    parent = getattr(function, "_self_parent", None)
    return getattr(function, "_self_spec", None) or getattr(parent, "_self_spec", None)
