"""What looks like a secret by its shape.

A rule has triggers, texts of which one stands at the start of every secret it knows, so that one
multi-pattern search over the bytes decides where a rule is tried at all. A rule then looks at the
neighbourhood of its trigger only. The same rules read a text and the JSON bytes that hold
it, so none may depend on a character that JSON escapes.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from stepfork._redact.placeholder import redacted_at
from stepfork._redact.table import SHAPES, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "BASE64_CHARS",
    "SNOWFLAKES",
    "Find",
    "Kind",
    "Rule",
    "Span",
    "base64_forms",
    "is_opaque",
    "shape_rules",
]

Kind: TypeAlias = Literal["environment", "name", "shape", "pattern", "custom"]
"""What gave a secret away."""


class Span(NamedTuple):
    """Where a secret stands in some bytes."""

    start: int
    end: int
    label: str
    """Name of the rule or of the environment variable; nothing of the secret."""
    kind: Kind = "shape"
    prefix: str = ""
    """The recognisable start of the secret, which its placeholder keeps."""
    identity: bytes | None = None
    """The secret itself where the span holds an encoded form of it."""
    quote: bytes = b""
    """Put around the placeholder: it stands where JSON in a text had a number."""


Find: TypeAlias = "Callable[[bytes, int, int], Span | None]"
"""(data, start, end of the trigger) -> the secret that stands there, if it is one."""


class Rule(NamedTuple):
    """One kind of secret."""

    triggers: tuple[bytes, ...]
    find: Find


# The end of an escape (percent, JSON, terminal colour) is no part of the word that follows it.
BOUNDARY = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[bfnrt])|(?<=\\u00[0-9a-f]{2})|(?<=[0-9]m))"
# A run of these is tried once, at its start: else "eyJeyJeyJ..." costs the square of its length.
_JWT_BOUNDARY = BOUNDARY.replace("[A-Za-z0-9]", "[A-Za-z0-9_-]", 1)


def is_opaque(value: bytes) -> bool:
    """Tell a token from a word of prose: it has a digit, a sign, or capitals after small letters."""
    return _DIGIT.search(value) is not None or _MIXED.search(value) is not None


_DIGIT = re.compile(rb"[0-9]")
_MIXED = re.compile(rb"[a-z][A-Z]|[+/=!@#$%^&*~][A-Za-z]")


@functools.cache
def shape_rules() -> tuple[Rule, ...]:
    """Return the rules that need nothing but the bytes; compiled on first use."""
    return (
        *(_shape_rule(shape) for shape in SHAPES),
        Rule((b"eyJ",), _find_jwt),
        Rule((b"AKIA", b"ASIA"), _find_aws_secret),
        Rule((b"://",), _find_url_password),
        Rule((b"%3A//", b"%3a//", b"%3A%2F%2F", b"%3a%2f%2f", b"%253A%252F%252F"), _find_quoted_password),
        Rule(_schemes("bearer"), _find_bearer),
        Rule(_schemes("basic"), _find_basic),
        Rule((b"-u", b"--user"), _find_curl_user),
        Rule((b":AA", b"/bot"), _find_telegram),
        Rule(SNOWFLAKES, _find_discord),
        Rule((b"8Q~",), _find_azure),
        Rule((b"sig=", b"-Signature="), _find_signature),
        Rule((b"-----BEGIN",), _find_private_key),
        *_base64_rules(),
    )


def _shape_rule(shape: Shape) -> Rule:
    start = BOUNDARY if shape.bounded else ""
    pattern = re.compile(f"{start}({shape.prefix}){shape.body}".encode())

    def find(data: bytes, start: int, end: int) -> Span | None:
        found = pattern.match(data, start)
        return found and Span(start, found.end(), shape.label, prefix=found[1].decode())

    return Rule(tuple(trigger.encode() for trigger in shape.triggers.split()), find)


_JWT = re.compile((_JWT_BOUNDARY + "eyJ" + "W{6,}[.]W{6,}(?:[.]W*)*".replace("W", "[A-Za-z0-9_-]")).encode())


def _find_jwt(data: bytes, start: int, end: int) -> Span | None:
    found = _JWT.match(data, start)
    return found and Span(start, found.end(), "jwt")


# The secret key has no shape of its own; it is believed right behind its key id.
_AWS_SECRET = re.compile(rb"""A(?:KI|SI)A[A-Z0-9]{16}[\s:,;"'/|=\\]{1,8}([A-Za-z0-9/+]{40,})""")


def _find_aws_secret(data: bytes, start: int, end: int) -> Span | None:
    found = _AWS_SECRET.match(data, start)
    return found and Span(*found.span(1), "aws-secret-key")


_URL_PASSWORD = re.compile(
    rb"""://(?:[^\x00-\x20\x7f/?#"'<>@:\\]{0,256}+:([^\x00-\x20\x7f/?#"'<>\\]{1,512})|([A-Za-z0-9_-]{20,128}+))@"""
)
_TEMPLATE = re.compile(rb"\$\{[^}]*\}|\$[A-Z][A-Z0-9_]*|\{[^}]*\}|%\([a-z_]+\)s|%s|\*+")


def _find_url_password(data: bytes, start: int, end: int) -> Span | None:
    if data.find(b"@", end, end + 800) < 0:
        return None
    found = _URL_PASSWORD.match(data, start)
    if not found:
        return None
    if found[1] is None:  # no password: the key of a Sentry DSN, or a token in place of a user
        return Span(*found.span(2), "url-token") if _DIGIT.search(found[2]) else None
    if redacted_at(data, found.start(1)) or _TEMPLATE.fullmatch(found[1]):
        return None
    return Span(*found.span(1), "url-password")


# The same in a URL that is itself quoted, perhaps twice; what ends its host there ends the search.
_QUOTED_PASSWORD = re.compile(
    rb"%(?:25)?3[Aa](?://|(?:%(?:25)?2[Ff]){2})"
    rb"(?:[A-Za-z0-9._~+-]|%(?!(?:25)?(?:3[Aa]|2[Ff]|40))[0-9A-Fa-f]{2}){0,128}+%(?:25)?3[Aa]"
    rb"((?:[A-Za-z0-9._~+*!$-]|%(?!(?:25)?(?:2[Ff]|3[Ff]|40))[0-9A-Fa-f]{2}){1,256}+)(?:%(?:25)?40|@)"
)


def _find_quoted_password(data: bytes, start: int, end: int) -> Span | None:
    found = _QUOTED_PASSWORD.match(data, start)
    return Span(*found.span(1), "url-password") if found else None


# Quotes may be escaped, and in a list of arguments the next one begins behind a comma.
_CURL_USER = re.compile(
    BOUNDARY.encode()
    + rb"""-(?:u|-user)(?: {1,4}+|=|\\*["'], ?|)(?:\\*["'])?[\w.%@+-]{1,99}+:([^\s"'\\\x00]{1,256})"""
)


def _find_curl_user(data: bytes, start: int, end: int) -> Span | None:
    if b"curl" not in data[max(0, start - 1024) : start]:  # docker run -u 1000:1000
        return None
    found = _CURL_USER.match(data, start)
    if not found or redacted_at(data, found.start(1)) or _TEMPLATE.fullmatch(found[1]):
        return None
    return Span(*found.span(1), "curl-password")


_TELEGRAM = re.compile(rb"[0-9]{8,12}:(AA[A-Za-z0-9_-]{31,})")
_TELEGRAM_URL = re.compile(rb"/bot[0-9]{5,12}(?::|%3[Aa])([A-Za-z0-9_-]{20,})")


def _find_telegram(data: bytes, start: int, end: int) -> Span | None:
    if data[start : start + 1] == b"/":
        found = _TELEGRAM_URL.match(data, start)
    else:
        digits = data[max(0, start - 12) : start]
        found = _TELEGRAM.match(data, start - len(digits) + len(digits.rstrip(b"0123456789")))
    return Span(*found.span(1), "telegram-token") if found else None


# The first part of a bot's token is its number in base64: what three digits become.
SNOWFLAKES = tuple({base64.b64encode(f"{number}".encode())[:3] for number in range(100, 1000)})
_DISCORD_TOKEN = re.compile(
    (_JWT_BOUNDARY + "[MNO]W{22,27}+[.]W{6}[.]W{27,}".replace("W", "[A-Za-z0-9_-]")).encode()
)


def _find_discord(data: bytes, start: int, end: int) -> Span | None:
    found = _DISCORD_TOKEN.match(data, start)
    return Span(start, found.end(), "discord-token") if found else None


_AZURE = re.compile(rb"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,40}")


def _find_azure(data: bytes, start: int, end: int) -> Span | None:
    found = _AZURE.match(data, start - 3) if start >= 3 else None
    return Span(*found.span(), "azure-secret") if found else None


_SIGNATURE = re.compile(rb"(?<![A-Za-z0-9])sig=([A-Za-z0-9%+/_-]{30,}=*)|-Signature=([A-Za-z0-9%+/]{40,})")


def _find_signature(data: bytes, start: int, end: int) -> Span | None:
    """Find the signature of a URL that is as good as a key: Azure's SAS, those of S3 and Google."""
    found = _SIGNATURE.match(data, start)
    return Span(*found.span(found.lastindex or 0), "url-signature") if found else None


def _schemes(name: str) -> tuple[bytes, ...]:
    cases = (name, name.title(), name.upper())
    return tuple(f"{case}{space}".encode() for case in cases for space in (" ", "%20"))


_BEARER = re.compile(rb"[Bb](?:earer|EARER)(?: +|%20)([A-Za-z0-9._~+/-]{8,}=*)")


def _find_bearer(data: bytes, start: int, end: int) -> Span | None:
    found = _BEARER.match(data, start)
    if not found or redacted_at(data, found.start(1)) or not is_opaque(found[1]):
        return None
    return Span(*found.span(1), "bearer-token")


_BASIC = re.compile(
    rb"[Bb](?:asic|ASIC)(?: +|%20)([A-Za-z0-9+/]{4,}(?:={0,2}|(?:%3[Dd]){0,2}))(?![A-Za-z0-9+/=])"
)


def _find_basic(data: bytes, start: int, end: int) -> Span | None:
    found = _BASIC.match(data, start)
    if not found or b":" not in _decoded(found[1].partition(b"%")[0].rstrip(b"=")):
        return None
    return Span(*found.span(1), "basic-credentials")


_PEM_HEAD = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(rb"(?:(?:\\+[bfnrt]|[ \t\r\n])*[A-Za-z0-9+/=:,.-]+)*")


def _find_private_key(data: bytes, start: int, end: int) -> Span | None:
    head = _PEM_HEAD.match(data, start)
    if not head or data.startswith(b"[redacted-", head.end()):
        return None
    body = _PEM_BODY.match(data, head.end())
    stop = body.end() if body else head.end()
    tail = data.find(b"-----END", head.end(), stop)
    stop = stop if tail < 0 else tail
    return Span(head.end(), stop, "private-key") if stop - head.end() >= 16 else None


# Base64 of a text that begins with one of these is decoded and looked into.
_LOOKED_INTO = (
    *("sk-proj-", "sk-svcacct-", "sk-ant-", "sk-or-v1-", "AIza", "ya29.", "gsk_", "nvapi-", "pplx-", "lsv2_"),
    *(
        "github_pat_",
        "ghp_",
        "gho_",
        "ghs_",
        "glpat-",
        "npm_",
        "pypi-",
        "dckr_pat_",
        "xoxb-",
        "xoxp-",
        "xapp-",
    ),
    *("sk_live_", "rk_live_", "whsec_", "shpat_", "dop_v1_", "hvs.", "lin_api_", "tvly-"),
    *("AKIA", "-----BEGIN "),
)
_WINDOW = 96
BASE64_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/_-]+={0,2}")


def base64_forms(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield, for each of three alignments, the characters that are the same whatever surrounds ``text``.

    With each comes its distance from the group of four characters that it begins in.
    """
    for offset in range(3):
        skipped = -(-offset * 8 // 6)
        yield skipped, base64.b64encode(b"\0" * offset + text)[skipped : (offset + len(text)) * 8 // 6]


def _base64_rules() -> Iterator[Rule]:
    for text in _LOOKED_INTO:
        for offset, (skipped, form) in enumerate(base64_forms(text.encode())):
            yield Rule((form,), functools.partial(_find_in_base64, offset, skipped))


def _find_in_base64(offset: int, skipped: int, data: bytes, start: int, end: int) -> Span | None:
    first = start - skipped
    if first < 0:
        return None
    window = _BASE64_RUN.match(data, first, first + _WINDOW)
    if not window or not _looked_into().match(_decoded(window[0].rstrip(b"=")), offset):
        return None
    run = _BASE64_RUN.match(data, first) or window
    left = data[max(0, first - 65536) : first]
    return Span(first - (len(left) - len(left.rstrip(BASE64_CHARS))), run.end(), "base64")


@functools.cache
def _looked_into() -> re.Pattern[bytes]:
    bodies = (f"{BOUNDARY if shape.bounded else ''}{shape.prefix}{shape.body}" for shape in SHAPES)
    return re.compile("|".join((*bodies, _PEM_HEAD.pattern.decode() + r"(?!\[redacted-)")).encode())


def _decoded(run: bytes) -> bytes:
    """Decode base64 of either alphabet; what does not fill a byte is left out."""
    whole = run[: len(run) - 1] if len(run) % 4 == 1 else run
    try:
        return binascii.a2b_base64(whole.translate(_STANDARD) + b"=" * (-len(whole) % 4))
    except binascii.Error:
        return b""


_STANDARD = bytes.maketrans(b"-_", b"+/")
