"""The lines of a journal, recording and extension: format 1, described in ``docs/format.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import structs

from stepfork._calls import Criterion, Entry, Failure, Kind, Plain, Shape, Status, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT_VERSION = 1

AnyAddress = TypeVar("AnyAddress", str, str | None)
AnyEvent = TypeVar("AnyEvent", bound="Event")


class RunStarted(msgspec.Struct, tag_field="event", tag="run", omit_defaults=True):
    """The first line of a journal and of the recording made from it."""

    v: int
    id: str
    name: str
    made_by: str
    at: float
    """Seconds since the epoch; every other ``at`` counts from here."""
    pid: int = 0
    entry: Entry | None = None
    parent: str | None = None
    """The id of the run, in another process, that this one belongs to."""
    adapters: tuple[str, ...] = ()
    """The adapters that were switched on when it began."""
    tools: tuple[str, ...] = ()
    """``module:function=tool`` of the functions without a decorator that were tools when it began."""
    variables: tuple[str, ...] = ()
    """The names of the variables that held a secret, or where a model is asked, when it began; never what
    they held. In the recording of a test, those that a replay is to find set."""


class ExtensionStarted(msgspec.Struct, tag_field="event", tag="extension", omit_defaults=True):
    """The first line of an extension: the calls below were run live after the recording was made."""

    v: int
    run: str
    """The id of the run that is extended."""
    made_by: str
    at: float


class CallStarted(msgspec.Struct, tag_field="event", tag="start", omit_defaults=True):
    """A call is about to execute."""

    call: str
    """Its address."""
    kind: Kind
    input: dict[str, Plain]
    at: float = 0.0
    lossy: bool = False
    repeats: bool = False
    plain: bool = False


class ItemYielded(msgspec.Struct, tag_field="event", tag="item", omit_defaults=True):
    """One chunk of a stream reached the caller."""

    call: str
    value: Plain
    lossy: bool = False


class CallEnded(msgspec.Struct, tag_field="event", tag="end", omit_defaults=True):
    """A call has ended."""

    call: str
    status: Status
    value: Plain = None
    shape: Shape = "value"
    origin: str | None = None
    changes: dict[str, Any] | None = None  # a list for each parameter, or what refers to all of them
    at: float = 0.0
    lossy: bool = False
    usage: Usage | None = None


class RunMarked(msgspec.Struct, tag_field="event", tag="fail", omit_defaults=True):
    """The run was marked as failed: by its own code, or by somebody afterwards."""

    reason: str
    call: str | None = None
    """The address where the code said so; None when it was said from outside."""
    criterion: Criterion | None = None


class ToolUnseen(msgspec.Struct, tag_field="event", tag="unseen"):
    """A model was given the result of a tool that was not seen at work."""

    tool: str


class ToolFound(msgspec.Struct, tag_field="event", tag="found"):
    """A function without a decorator became a tool while the run went on; its calls before are not there."""

    tool: str
    """``module:function=tool``."""


class RunEnded(msgspec.Struct, tag_field="event", tag="close", omit_defaults=True):
    """The last line that the recording process writes."""

    at: float
    failure: Failure | None = None
    incomplete: bool = False
    variables: tuple[str, ...] = ()
    """The names of such variables that it has set itself."""


class FactsFound(msgspec.Struct, tag_field="event", tag="facts"):
    """Id-like texts that came back identical when the test was proved: constants of the code."""

    texts: list[str]


Event: TypeAlias = (
    RunStarted
    | ExtensionStarted
    | CallStarted
    | ItemYielded
    | CallEnded
    | RunMarked
    | ToolUnseen
    | ToolFound
    | RunEnded
    | FactsFound
)


def with_values(event: AnyEvent, change: Callable[[Plain], Plain]) -> AnyEvent:
    """Return the event with each recorded value replaced by what ``change`` makes of it."""
    match event:
        case CallStarted():
            return structs.replace(event, input={name: change(value) for name, value in event.input.items()})
        case ItemYielded():
            return structs.replace(event, value=change(event.value))
        case CallEnded():
            return structs.replace(event, value=change(event.value), changes=change(event.changes))
        case _:
            return event


def redacted(event: AnyEvent, redact: Callable[[Plain], Plain]) -> AnyEvent:
    """Return the event with all that came from the agent replaced by what ``redact`` makes of it.

    Arguments are handed to it together: the name of a parameter may say that its value is a secret. The
    name of a run may come from the agent too, and stands in every address.
    """
    match event:
        case RunStarted():
            return structs.replace(event, name=redact(event.name))
        case CallStarted():
            return structs.replace(event, call=_address(event.call, redact), input=redact(event.input))
        case CallEnded():
            event = structs.replace(
                event, call=_address(event.call, redact), origin=_address(event.origin, redact)
            )
            return with_values(event, redact)
        case ItemYielded():
            return structs.replace(event, call=_address(event.call, redact), value=redact(event.value))
        case RunMarked():
            return structs.replace(event, call=_address(event.call, redact), reason=redact(event.reason))
        case ToolUnseen():
            return structs.replace(event, tool=redact(event.tool))
        case RunEnded(failure=Failure() as failure):
            failure = structs.replace(
                failure, address=_address(failure.address, redact), message=redact(failure.message)
            )
            return structs.replace(event, failure=failure)
        case _:
            return event


def _address(address: AnyAddress, redact: Callable[[Plain], Plain]) -> AnyAddress:
    if not address:
        return address
    parts = (part.rpartition("#") for part in address.split("/"))
    return "/".join(f"{redact(name)}#{number}" for name, _, number in parts)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


def encode_line(event: Event) -> bytes:
    """Return the event as one line, the line end included."""
    return _encoder.encode(event) + b"\n"


def decode_line(line: bytes) -> Event:
    """Return the event that the line holds; raises ``msgspec.DecodeError`` where it holds none."""
    return _decoder.decode(line)
