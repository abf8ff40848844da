"""What may be the beginning of a secret, where the text ends before one can be sure: for streams.

Each span of these rules reaches to the end of the data. A beginning is believed from its eighth
character on, whatever public prefix it has not counted: that much tells nothing yet.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from stepfork._redact.secrets import SNOWFLAKES, Rule, Span
from stepfork._redact.table import SHAPES, Shape, prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepfork._redact.secrets import Find

__all__ = ["SHOWN", "unfinished_rules"]

SHOWN: Final = 8
"""So many characters of a secret are too few to be one."""

_COUNT: Final = re.compile(r"\{(\d+)(?:,\d*)?\}")
_PATTERNS: Final = (
    ("jwt", "eyJ", r"(?<![A-Za-z0-9_-])(eyJ[A-Za-z0-9_-]{5,}(?:[.][A-Za-z0-9_-]*)*)\Z"),
    ("aws-secret-key", "AKIA ASIA", r"""A(?:KI|SI)A[A-Z0-9]{16}[\s:,;"'/|=\\]{1,8}([A-Za-z0-9/+]{8,})\Z"""),
    (
        "url-password",
        "://",
        r"""://[^\x00-\x20\x7f/?#"'<>@:\\]{0,256}+:(?![0-9]+\Z)([^\s/?#"'<>\\]{1,512})\Z""",
    ),
    ("url-token", "://", r"://(?=[a-f]*[0-9])([0-9a-f]{8,})\Z"),
    (
        "url-password",
        "%3A// %3a// %3A%2F%2F %3a%2f%2f %253A%252F%252F",
        (
            r"%(?:25)?3[Aa](?://|(?:%(?:25)?2[Ff]){2})(?:(?!%(?:25)?3[Aa])[A-Za-z0-9._~%+-]){0,128}+"
            r"%(?:25)?3[Aa](?![0-9]+\Z)([A-Za-z0-9._~+*!$%-]+)\Z"
        ),
    ),
    ("telegram-token", ":AA", r"(?<=[0-9]{8}):(AA[A-Za-z0-9_-]{6,})\Z"),
    ("azure-secret", "8Q~", r"8Q~([A-Za-z0-9_~.-]{8,})\Z"),
    (
        "discord-token",
        " ".join(trigger.decode() for trigger in SNOWFLAKES),
        r"(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{22,27}+[.][A-Za-z0-9_-]{6}[.]([A-Za-z0-9_-]+)\Z",
    ),
    ("telegram-token", "/bot", r"/bot[0-9]{5,12}(?::|%3[Aa])([A-Za-z0-9_-]{8,})\Z"),
    (
        "private-key",
        "-----BEGIN",
        r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----(?:\\+[nr]|\s){0,8}+([A-Za-z0-9+/=]{8,})\Z",
    ),
    ("url-signature", "sig= -Signature=", r"(?:sig|-Signature)=([A-Za-z0-9%+/_-]{8,}=*)\Z"),
)


def unfinished_rules(environment: Iterable[Rule]) -> Iterator[Rule]:
    """Yield the rules; ``environment`` are those of whole secrets, a trigger each."""
    beginnings = ((shape.label, shape.triggers, _beginning(shape)) for shape in SHAPES)
    for label, triggers, pattern in (*_PATTERNS, *beginnings):
        find = functools.partial(_find_pattern, re.compile(pattern.encode()), label)
        yield Rule(tuple(trigger.encode() for trigger in triggers.split()), find)
    for whole in environment:
        for form in whole.triggers:
            yield Rule((form[:SHOWN],), functools.partial(_find_beginning, form, whole.find))


def _beginning(shape: Shape) -> str:
    first, dot, _ = shape.body.partition("[.]")
    body = _COUNT.sub(lambda found: f"{{{SHOWN},}}" if int(found[1]) > SHOWN else found[0], first)
    start = "(?<![A-Za-z0-9])" if shape.bounded else ""
    more = "(?:[.][A-Za-z0-9_-]*)*" if dot else ""
    return f"{start}({shape.prefix}{body}{more})\\Z"


def _find_pattern(pattern: re.Pattern[bytes], label: str, data: bytes, start: int, end: int) -> Span | None:
    found = pattern.match(data, start)
    if not found:
        return None
    return Span(*found.span(1), label, prefix=prefix_of(found[1].decode("utf-8", "replace")))


def _find_beginning(form: bytes, find: Find, data: bytes, start: int, end: int) -> Span | None:
    if len(data) - start >= len(form) or not form.startswith(data[start:]):
        return None
    return find(data, start, len(data))
