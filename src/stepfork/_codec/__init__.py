"""The value codec: what an agent passes around, as JSON that brings it back as it was.

``encode`` turns any object into a :data:`~stepfork._calls.Plain`, ``decode`` turns that back. What
JSON has no type for is tagged: a dict whose first key begins with ``$``, such as
``{"$tuple": [1, 2]}``; a dict of the user's with a key that begins so gets that ``$`` doubled.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepfork._codec import registry as _codec_registry
from stepfork._codec.exceptions import bare_exception
from stepfork._codec.fast import is_plain
from stepfork._codec.reading import read
from stepfork._codec.standard import register_all
from stepfork._codec.standin import Opaque, opaque
from stepfork._codec.types import Classes, collect_hint_classes, type_name
from stepfork._codec.writing import write
from stepfork._plain import canonical
from stepfork.errors import RecordingDamaged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepfork._calls import Plain

__all__ = [
    "Encoded",
    "Opaque",
    "canonical",
    "collect_hint_classes",
    "decode",
    "decode_exception",
    "encode",
    "encode_exception",
    "register_type",
    "type_name",
]

T = TypeVar("T")

register_all()

_NO_ALIASES: Mapping[str, str] = MappingProxyType({})


class Encoded(NamedTuple):
    """A value as it is recorded."""

    plain: Plain
    lossy: bool
    """Whether some part could not be written and stands as a placeholder."""


_LAST_RESORT = Encoded({"$opaque": "?", "repr": "<unknown>"}, lossy=True)
_LAST_RESORT_EXCEPTION = Encoded(
    {"$exception": "builtins:BaseException", "args": [], "attrs": {}, "message": ""}, lossy=True
)
"""Made beforehand: near the recursion limit not even a function can be called."""


def encode(value: object) -> Encoded:
    """Return the recorded form of a value; never raises, whatever the value does.

    Where nothing in it needs a tag that is the value itself, so it is to be serialised before
    anybody can change it. Depth, size and time are bounded; what goes beyond is a placeholder.
    Ctrl-C alone passes through.
    """
    try:
        if is_plain(value):
            return Encoded(value, lossy=False)
        return _write(value, outcome=False)
    except Exception:
        try:
            return Encoded(opaque(value), lossy=True)
        except Exception:
            return _LAST_RESORT


def encode_exception(exc: BaseException) -> Encoded:
    """Return the recorded form of what a call raised, with its context and ``"at": "file.py:line"``.

    Never raises; in the worst case only the type is kept.
    """
    try:
        encoded = _write(exc, outcome=True)
        if _is_exception(encoded.plain):
            return encoded
    except Exception:
        pass
    try:
        return Encoded(bare_exception(exc), lossy=True)
    except Exception:
        return _LAST_RESORT_EXCEPTION


def _write(value: object, *, outcome: bool) -> Encoded:
    encoded = Encoded(*write(value, outcome=outcome))
    if type(encoded.plain) is dict and "$shared" in encoded.plain:
        decode(encoded.plain)  # a knot that cannot be tied again is not worth recording: encode says so
    return encoded


def _is_exception(plain: Plain) -> bool:
    return type(plain) is dict and ("$exception" in plain or "$shared" in plain)


def decode(plain: Plain, *, hints: Sequence[object] = (), aliases: Mapping[str, str] = _NO_ALIASES) -> Any:
    """Return a new value of the recorded type, equal to the one that was recorded.

    A class is found if its module is loaded, or if ``hints`` (classes and annotations) lead to it;
    else a stand-in takes its place. ``aliases`` maps ``module:QualName`` as recorded to the one now.
    Nothing is imported, and no code of the class runs.

    Raises ClassChanged where a class cannot hold what was recorded, and RecordingDamaged for a
    ``plain`` that no codec wrote.
    """
    return read(plain, Classes(hints, aliases))


def decode_exception(
    plain: Plain, *, hints: Sequence[object] = (), aliases: Mapping[str, str] = _NO_ALIASES
) -> BaseException:
    """Return a recorded exception, ready to be raised; raises what :func:`decode` raises.

    One whose class is not loaded is of a class of the same name, derived from the nearest of its
    bases that is loaded.
    """
    exc = decode(plain, hints=hints, aliases=aliases)
    if not isinstance(exc, BaseException):
        raise RecordingDamaged("a recorded exception is none", type=type_name(type(exc)))
    return exc


def register_type(cls: type[T], encode: Callable[[T], object], decode: Callable[[Any], T]) -> None:
    """Have instances of exactly this class recorded as ``encode(value)`` and read by ``decode``.

    ``encode`` returns anything that can itself be recorded; ``decode`` is given that back, equal and
    of the same types. Where ``encode`` raises, a placeholder is recorded. A derived class is registered
    by a call of its own, else it is recorded by its attributes. The last registration counts.
    """
    _codec_registry.register(cls, encode, decode)
