"""Leaves out of a snapshot what objects carry beside what they say.

A message of a framework has a dozen fields. How many tokens it took and which server wrote it is no
behaviour of the agent, and the next version of the library has other such fields: a snapshot that held
them would be long, and red after every upgrade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._calls import Plain

_METADATA: Mapping[str, tuple[str, ...]] = {
    "langchain_core.messages.": ("response_metadata", "usage_metadata"),
    "openai.types.": ("usage", "system_fingerprint", "service_tier", "created", "created_at", "completed_at"),
    "anthropic.types.": ("usage",),
}
"""By where its class stands, the fields of a library's object that tell how it came about."""

_FIELDS_SET = "__pydantic_fields_set__"
_NOTHING: tuple[Plain, ...] = (None, [], {})


def without_metadata(plain: Plain) -> Plain:
    """Return a value without such fields, and without empty ones that nobody gave a pydantic object.

    Of a library's object, fields that hold nothing are left out too: whether an empty list was passed or is
    the default, and which fields there are, is a matter of its version.
    """
    if isinstance(plain, list):
        return [without_metadata(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if "$object" in plain and isinstance(plain.get("state"), dict):
        plain = _told(plain)
    return {key: without_metadata(part) for key, part in plain.items()}


def _told(plain: dict[str, Any]) -> dict[str, Any]:
    state = plain["state"]
    extra = plain.get("extra")
    metadata = next((names for where, names in _METADATA.items() if plain["$object"].startswith(where)), None)
    if metadata is not None:
        state = {name: part for name, part in state.items() if name not in metadata and not _is_empty(part)}
    elif isinstance(extra, dict) and isinstance(extra.get(_FIELDS_SET), dict):
        given = extra[_FIELDS_SET].get("$set", ())
        state = {name: part for name, part in state.items() if name in given or part not in _NOTHING}
    told = {**plain, "state": state}
    if isinstance(extra, dict):
        del told["extra"]
        extra = {name: part for name, part in extra.items() if name != _FIELDS_SET}
        told |= {"extra": extra} if extra else {}
    return told


def _is_empty(part: Plain) -> bool:
    """Whether a field holds nothing, or names of which each holds nothing."""
    return part in _NOTHING or (isinstance(part, dict) and all(each is None for each in part.values()))
