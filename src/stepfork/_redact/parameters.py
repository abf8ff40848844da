"""Credentials in the query of a URL: ``?api_key=...``, ``&key=...``, ``?code=...``, also where it is quoted.

A name that says it is a secret's is believed. One as short as ``key``, ``code`` or ``sig`` is believed only
where its value was made by a machine: one word of it turns often between letters and digits, or between
small letters and capitals. ``?key=title``, ``?key=user:42:profile`` and ``?code=PROJ-1234`` stay.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from stepfork._redact.names import value_span, word_set
from stepfork._redact.placeholder import redacted_at
from stepfork._redact.secrets import Rule, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    Secret = Callable[[str], str | None]
    """Tells which words make a name the name of a secret."""

__all__ = [
    "is_credential",
    "is_made",
    "is_query",
    "parameter_probe",
    "parameter_rules",
    "parameter_rules_so_far",
]

_BY_VALUE: Final = word_set(
    """key code sig sign signature hmac ticket appid assertion client_assertion code_verifier device_code hash
    oauth_verifier oauth_signature consumer_key oauth_consumer_key samlresponse hub.verify sas k"""
)
"""Parameters that are credentials where their value looks it."""
_SECRET_HERE: Final = word_set("pass pw passcode")
"""Names that say it in a URL, and elsewhere do not."""
_QUERIES: Final = word_set(
    "params query queryparams queryparameters querystring querystringparameters extraquery searchparams"
)
_LAST_WORDS: Final = {re.split("[_.]", name)[-1] for name in _BY_VALUE | _SECRET_HERE} | word_set(
    """keys token tokens secret secrets password passwords passwd passphrase pwd auth authorization
    credential credentials creds cookie jwt bearer sessid phpsessid jsessionid"""
)
_SIGNS: Final = ("=", "%3D", "%3d", "%253D")
_CASES: Final = sorted(
    {case for word in _LAST_WORDS for case in (word, word.title(), word.upper())} | {"SAMLResponse"}
)
_TRIGGERS: Final = tuple(f"{case}{sign}".encode() for case in _CASES for sign in _SIGNS)

_LONGEST_NAME: Final = 48
_BEFORE: Final = b"?&#\"'"
# Where a URL is quoted, what stands before the name is an escape, whose digits look like part of the name.
_ESCAPED_BEFORE: Final = re.compile(rb"%(?:25){0,2}(?:3[Ff]|26|23)|\\u00(?:26|3[fF])")
_VALUE: Final = re.compile(rb"(?:[A-Za-z0-9._~+/=:@!$*-]|%[0-9A-Fa-f]{2}){1,4096}+")
_QUOTED_VALUE: Final = re.compile(rb"(?:[A-Za-z0-9._~+!$*-]|%(?!(?:25)*(?:26|23))[0-9A-Fa-f]{2}){1,4096}+")
_ENDS_A_SENTENCE: Final = b".:!"
_SURE: Final = 16
"""So long is a value that is believed where nothing but its name tells that this is a query."""


def parameter_rules(secret: Secret) -> tuple[Rule, ...]:
    """Return the rule for what stands in a text or in JSON; ``secret`` judges names."""
    return (Rule(_TRIGGERS, functools.partial(_find, secret)),)


def parameter_rules_so_far(secret: Secret) -> tuple[Rule, ...]:
    """Return the rule for a value that the end of what there is cuts off."""
    return (Rule(_TRIGGERS, functools.partial(_find_so_far, secret)),)


def parameter_probe() -> Rule:
    """Return the rule for JSON bytes as we write them, where a query may be an object or a list of pairs."""
    signs = ('":"', '","', '":["')
    return Rule(tuple(f"{case}{sign}".encode() for case in _CASES for sign in signs), _probe)


def is_query(key: str) -> bool:
    """Whether what stands under this key are the parameters of a query."""
    return key.replace("_", "").replace("-", "").lower() in _QUERIES


def is_credential(name: str, value: str) -> bool:
    """Whether a parameter of a query is a credential, whose name does not say so by itself."""
    known = name.lower()
    if known in _SECRET_HERE:
        return len(value) >= _SHORTEST
    return known in _BY_VALUE and is_made(value)


_SHORTEST: Final = 4


def _find(secret: Secret, data: bytes, start: int, end: int) -> Span | None:
    found = _parameter(data, start, end)
    if found is None:
        return None
    name, last = found
    known = _secret_here(secret, name)
    if known is not None:
        return value_span(data, end, last, known)
    is_one = name.lower() in _BY_VALUE and _is_made(data[end:last])
    return Span(end, last, "url-parameter") if is_one else None


def _find_so_far(secret: Secret, data: bytes, start: int, end: int) -> Span | None:
    found = _parameter(data, start, end)
    if found is None or found[1] < len(data) or not _may_be_made(data[end:]):
        return None
    is_either = found[0].lower() in _BY_VALUE or _secret_here(secret, found[0]) is not None
    return Span(end, len(data), "url-parameter") if is_either else None


def _secret_here(secret: Secret, name: str) -> str | None:
    return name.lower() if name.lower() in _SECRET_HERE else secret(name)


def _parameter(data: bytes, start: int, end: int) -> tuple[str, int] | None:
    """Return the name that the trigger ends, and where the value behind it ends; None outside of a query."""
    is_quoted = data[end - 1] != _EQUALS
    first = _start_of_name(data, start)
    if first is None:
        return None
    value = (_QUOTED_VALUE if is_quoted else _VALUE).match(data, end)
    if value is None or redacted_at(data, end):
        return None
    last = value.end()
    if last < len(data):
        last = end + len(value[0].rstrip(_ENDS_A_SENTENCE))
    if last - end < _SURE and data[last : last + 1] != b"&" and _begins_a_text(data, first):
        return None
    name = data[first:end].partition(b"%" if is_quoted else b"=")[0]
    return (name.decode(), last) if last - end >= _SHORTEST else None


def _start_of_name(data: bytes, start: int) -> int | None:
    """Return where the name begins that holds ``start``, if that is in a query, or at the start of a text."""
    if start and data[start - 1] in _BEFORE:
        return start
    left = data[max(0, start - _LONGEST_NAME) : start]
    first = start - len(left) + len(left.rstrip(_NAME_CHARS))
    if first == 0 or data[first - 1] in _BEFORE or data[first - 5 : first] == b"&amp;":
        return first
    escaped = _ESCAPED_BEFORE.match(data, first - 1)
    return escaped.end() if escaped and escaped.end() <= start else None


_EQUALS: Final = ord("=")
_NAME_CHARS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"


def _begins_a_text(data: bytes, position: int) -> bool:
    return position == 0 or data[position - 1] in b"\"'"


_TOKEN: Final = re.compile(rb"[^\"\\\s]{4,4096}")


def _probe(data: bytes, start: int, end: int) -> Span | None:
    value = _TOKEN.match(data, end)
    if value is None or redacted_at(data, end):
        return None
    name = data[start:end].partition(b'"')[0].lower().decode()
    return Span(*value.span(), "url-parameter") if name in _SECRET_HERE or _is_made(value[0]) else None


_WORD: Final = re.compile(rb"[A-Za-z0-9]+")
_TURN: Final = re.compile(rb"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_made(text: str) -> bool:
    """Whether a machine made this text up, as it does keys."""
    return _is_made(text.encode("utf-8", "replace"))


def _is_made(value: bytes) -> bool:
    """Whether a machine made this up. So a UUID is, or what is longer than any word."""
    if len(value) < _SHOWN:
        return False
    plain = unquote_to_bytes(value) if b"%" in value else value
    return any(map(_is_made_word, _WORD.findall(plain))) or _UUID.fullmatch(plain) is not None


def _is_made_word(word: bytes) -> bool:
    if len(word) < _SHOWN:
        return False
    turns = len(_TURN.findall(word))
    return len(word) >= 32 or (turns >= 4 and turns * 5 >= len(word) - 1)


def _may_be_made(value: bytes) -> bool:
    """Whether this may be the beginning of such a value; its eighth character would show too much."""
    words = _WORD.findall(unquote_to_bytes(value))
    return sum(map(len, words)) >= _SHOWN and sum(len(_TURN.findall(word)) for word in words) >= 2


_SHOWN: Final = 8
