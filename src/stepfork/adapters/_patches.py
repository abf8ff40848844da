"""Puts wrappers around functions of a library, and takes them away again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, final

import wrapt

from stepfork.adapters._boundary import wrapper_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from stepfork.adapters._boundary import Boundary

    Wrapper = Callable[[Any, Any, tuple[Any, ...], Mapping[str, Any]], Any]

_MISSING: Any = object()


@final
class Patches:
    """What one adapter has wrapped, until it is switched off."""

    def __init__(self) -> None:
        self.is_on = True
        """Whether the wrappers do anything: one that others have wrapped in turn stays where it is."""
        self._undo: list[Callable[[], None]] = []
        self._lock = threading.RLock()

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Have ``wrapper(wrapped, instance, args, kwargs)`` called in the place of a function.

        ``owner`` is a class or module. Raises AttributeError where it has no such function.
        """
        self.put(owner, name, self._around(_raw(owner, name), wrapper))

    def call(self, owner: Any, name: str, boundary: Boundary) -> None:
        """Make a call of what this function does: recorded, and served in a replay; errors as above."""
        raw = _raw(owner, name)
        self.put(owner, name, self._around(raw, wrapper_for(boundary, raw)))

    def family(self, base: type, names: Iterable[str], wrapper_of: Callable[[Any], Wrapper]) -> None:
        """Wrap methods in every class below ``base`` that defines them, those of later classes too.

        Most methods of a base class are abstract, and wrapping them there would find no call; libraries ask
        ``cls.method is Base.method`` too. ``wrapper_of`` is given the function that is to be wrapped.
        """
        wanted = tuple(names)

        def adopt(kind: type) -> None:
            for name in wanted:
                raw = vars(kind).get(name)
                if raw is None or getattr(raw, "__isabstractmethod__", False) or isinstance(raw, _Wrapped):
                    continue
                self.put(kind, name, self._around(raw, wrapper_of(raw)))

        for kind in _below(base):
            adopt(kind)
        self._watch_for_subclasses(base, adopt)

    def family_calls(self, base: type, names: Iterable[str], boundary: Boundary) -> None:
        """Do what :meth:`call` does, in every class below ``base``."""
        self.family(base, names, lambda raw: wrapper_for(boundary, raw))

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the adapter is switched off."""
        with self._lock:
            before = vars(owner).get(name, _MISSING)
            setattr(owner, name, value)
            self._undo.append(lambda: _restore(owner, name, value, before))

    def when_undone(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` called when the adapter is switched off."""
        with self._lock:
            self._undo.append(undo)

    def undo(self) -> None:
        """Take all of it away, the last first."""
        self.is_on = False
        with self._lock:
            while self._undo:
                self._undo.pop()()

    def _around(self, raw: Any, wrapper: Wrapper) -> _Wrapped:
        return _Wrapped(raw, wrapper, enabled=lambda: self.is_on)

    def _watch_for_subclasses(self, base: type, adopt: Callable[[type], None]) -> None:
        own = vars(base).get("__init_subclass__")

        def subclassed(cls: type, /, **kwargs: Any) -> None:
            inherited: Any = super(base, cls)
            init = inherited.__init_subclass__ if own is None else own.__get__(None, cls)
            init(**kwargs)
            if self.is_on:
                adopt(cls)

        self.put(base, "__init_subclass__", classmethod(subclassed))


class _Wrapped(wrapt.FunctionWrapper[..., Any]):
    """A wrapper of ours, told from those of others."""


def _raw(owner: Any, name: str) -> Any:
    """Return what stands under the name, a classmethod or staticmethod as such."""
    for kind in getattr(owner, "__mro__", ()):
        if name in vars(kind):
            return vars(kind)[name]
    return getattr(owner, name)


def _restore(owner: Any, name: str, ours: Any, before: Any) -> None:
    if vars(owner).get(name, _MISSING) is not ours:
        return  # somebody has wrapped it since
    if before is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def _below(base: type) -> Iterator[type]:
    seen, waiting = {base}, [base]
    while waiting:
        subclasses: list[type] = type.__subclasses__(waiting.pop())
        below = [each for each in subclasses if each not in seen]
        seen.update(below)
        waiting.extend(below)
        yield from below
