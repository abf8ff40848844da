"""Puts wrappers around functions of a library, and takes them away again.

Several adapters may wrap the same function, and are switched off in any order: what stands in its place is
made of those that are on.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, final

import wrapt

from stepfork.adapters._boundary import wrapper_for

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

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

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Have ``wrapper(wrapped, instance, args, kwargs)`` called in the place of a function.

        ``owner`` is a class or module. Raises AttributeError where it has no such function. One that several
        adapters put there is called once.
        """
        self._around(owner, name, wrapper, lambda _: wrapper)

    def call(self, owner: Any, name: str, boundary: Boundary) -> None:
        """Make a call of what this function does: recorded, and served in a replay; errors as above."""
        self._around(owner, name, boundary, partial(wrapper_for, boundary))

    def family(self, base: type, names: Iterable[str], wrapper_of: Callable[[Any], Wrapper]) -> None:
        """Wrap methods in every class below ``base`` that defines them, those of later classes too.

        Most methods of a base class are abstract, and wrapping them there would find no call; libraries ask
        ``cls.method is Base.method`` too. ``wrapper_of`` is given the function that is to be wrapped.
        """
        self._family(base, tuple(names), wrapper_of, wrapper_of)

    def family_calls(self, base: type, names: Iterable[str], boundary: Boundary) -> None:
        """Do what :meth:`call` does, in every class below ``base``."""
        self._family(base, tuple(names), boundary, partial(wrapper_for, boundary))

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the adapter is switched off."""
        self._add(owner, name, object(), lambda _layer, _below: value)

    def when_undone(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` called when the adapter is switched off."""
        with _lock:
            self._undo.append(undo)

    def undo(self) -> None:
        """Take all of it away, the last first."""
        self.is_on = False
        with _lock:
            while self._undo:
                self._undo.pop()()

    def _around(
        self, owner: Any, name: str, key: Hashable, wrapper_of: Callable[[Any], Wrapper], raw: Any = None
    ) -> None:
        raw = _function(owner, name) if raw is None else raw
        wrapper = wrapper_of(raw)

        def over(layer: _Layer, below: Any) -> Any:
            return _Wrapped(raw if below is _MISSING else below, wrapper, lambda: layer.is_on)

        self._add(owner, name, key, over)

    def _add(self, owner: Any, name: str, key: Hashable, over: Callable[[_Layer, Any], Any]) -> None:
        with _lock:
            place = _place_at(owner, name)
            layer = place.add(key, over)
            self._undo.append(lambda: place.remove(layer))

    def _family(
        self, base: type, names: tuple[str, ...], key: Hashable, wrapper_of: Callable[[Any], Wrapper]
    ) -> None:
        def adopt(kind: type) -> None:
            for name in names:
                if name in vars(kind) and not getattr(vars(kind)[name], "__isabstractmethod__", False):
                    self._around(kind, name, key, wrapper_of)

        for kind in _below(base):
            adopt(kind)
        self._watch_for_subclasses(base, adopt)

    def _watch_for_subclasses(self, base: type, adopt: Callable[[type], None]) -> None:
        def subclassed(cls: type, /, **kwargs: Any) -> None:
            inherited: Any = super(base, cls)
            inherited.__init_subclass__(**kwargs)

        def call(wrapped: Any, cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            wrapped(*args, **kwargs)
            if self.is_on:
                adopt(cls)

        raw: Any = None if "__init_subclass__" in vars(base) else classmethod(subclassed)
        self._around(base, "__init_subclass__", call, lambda _: call, raw)


class _Wrapped(wrapt.FunctionWrapper[..., Any]):
    """A wrapper of ours, told from those of others."""


class _Layer:
    """What one or more adapters have put over what stood there."""

    def __init__(self, key: Hashable, over: Callable[[_Layer, Any], Any]) -> None:
        self.key = key
        self.over = over
        self.users = 0

    @property
    def is_on(self) -> bool:
        """Whether one of them is on: what others have wrapped in turn cannot be taken away."""
        return self.users > 0


class _Place:
    """An attribute, and the layers over what the library has there."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name
        self.original = self.now
        self._layers: list[_Layer] = []
        self._top = self.original

    @property
    def now(self) -> Any:
        """What stands there now."""
        return vars(self._owner).get(self._name, _MISSING)

    @property
    def is_ours(self) -> bool:
        """Whether nobody has put anything else there since."""
        return self.now is self._top

    def add(self, key: Hashable, over: Callable[[_Layer, Any], Any]) -> _Layer:
        """Put a layer over all that are there, unless it is one of them."""
        found = [layer for layer in self._layers if layer.key == key]
        layer = found[0] if found else _Layer(key, over)
        layer.users += 1
        if not found:
            self._layers.append(layer)
            self._make()
        return layer

    def remove(self, layer: _Layer) -> None:
        """One of its users needs it no more."""
        layer.users -= 1
        if layer.users:
            return
        self._layers.remove(layer)
        if self.is_ours:
            self._make()
        if not self._layers and _places.get((id(self._owner), self._name)) is self:
            del _places[id(self._owner), self._name]

    def _make(self) -> None:
        value = self.original
        for layer in self._layers:
            value = layer.over(layer, value)
        if value is _MISSING:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, value)
        self._top = value


_lock = threading.RLock()
_places: dict[tuple[int, str], _Place] = {}
"""Where there are layers, by the identity of the owner and the attribute's name."""


def _place_at(owner: Any, name: str) -> _Place:
    key = id(owner), name
    place = _places.get(key)
    if place is None or not place.is_ours:
        place = _places[key] = _Place(owner, name)
    return place


def _function(owner: Any, name: str) -> Any:
    """Return what the library has under the name, a classmethod or staticmethod as such."""
    place = _places.get((id(owner), name))
    if place is not None and place.is_ours and place.original is not _MISSING:
        return place.original
    for kind in getattr(owner, "__mro__", ()):
        if name in vars(kind):
            return vars(kind)[name]
    return getattr(owner, name)


def _below(base: type) -> Iterator[type]:
    seen, waiting = {base}, [base]
    while waiting:
        subclasses: list[type] = type.__subclasses__(waiting.pop())
        below = [each for each in subclasses if each not in seen]
        seen.update(below)
        waiting.extend(below)
        yield from below
