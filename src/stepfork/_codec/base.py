"""What the parts of the codec ask of each other while a value is written or read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from stepfork.errors import ClassChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepfork._calls import Plain
    from stepfork._codec.types import Classes

    Writer: TypeAlias = Callable[[Any, "Walk"], Plain]
    """Writes the values of one class."""


class Beyond(Exception):
    """The value is too deep or too large, or holds itself: it cannot be written in this way."""


class Walk(Protocol):
    """The writing of one value; a writer hands the parts of its value back to it."""

    outcome: bool
    """Whether this is what a call raised: then where and while handling what it was raised counts too."""

    chain: list[BaseException]
    """The exceptions that are being written, each the cause or the context of the one before."""
    lossy: bool
    """Whether a placeholder stands anywhere in it."""

    def child(self, value: object) -> Plain:
        """Return the recorded form of a part."""

    def element(self, value: object) -> Plain:
        """Return the recorded form of a part that has no place of its own: of a set, or a key."""

    def opaque(self, value: object, note: str = "") -> Plain:
        """Return a placeholder and mark the whole as lossy."""

    def spend(self, size: int) -> None:
        """Count bytes against the limit of one value."""


class Reader(Protocol):
    """The reading of one value."""

    classes: Classes

    def child(self, plain: Plain) -> Any:
        """Return the value of a part; of one that is read later, the object that it will be."""

    def stand_in(self, plain: dict[str, Plain], why: str) -> Any:
        """Return what stands for a value that cannot be rebuilt; it can be written again as it was."""

    def whole(self, plain: Plain) -> Any:
        """Return the value of a part, complete: it is about to be hashed."""


def changed(name: str, field: str, now: str) -> ClassChanged:
    """Return the error for a recorded value that its class can no longer hold."""
    return ClassChanged(
        f"{name} has changed since it was recorded: its field {field!r} {now}",
        ways_on=(
            "give a new field a default",
            'map a class that was renamed: [tool.stepfork.moved] "old.module:Name" = "new.module:Name"',
            "record the run again",
        ),
        type=name,
        field=field,
    )


def escape_key(key: object) -> str:
    """Return a key as it stands in a recording, where ``$`` marks a tag.

    Raises ValueError for what cannot be a key there.
    """
    if type(key) is not str:
        raise ValueError(f"a key of type {type(key).__name__}")
    if not key.isascii():
        key.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
    return "$" + key if key.startswith("$") else key


def unescape_key(key: str) -> str:
    """Undo :func:`escape_key`."""
    return key[1:] if key.startswith("$") else key
