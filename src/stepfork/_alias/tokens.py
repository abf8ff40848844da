"""What in a text looks made: one expression for ids, addresses, temp paths and times."""

from __future__ import annotations

import re
import tempfile
from functools import lru_cache
from typing import Final

_UUID: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

_CLOCK: Final = r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_ZONE: Final = r"(?:\ ?(?:Z|z|UTC|GMT|[+-]\d\d:?\d\d(?::?\d\d)?))"
_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_WEEKDAY: Final = r"(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,?\ )?"
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_TIME: Final = rf"""
    \d{{4}}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01]) (?:[T\ ]{_CLOCK}{_ZONE}?)?
  | \d{{8}}T\d{{6}}Z?
  | {_WEEKDAY} (?: {_DAY}\ {_MONTH},?\ \d{{4}} | {_MONTH}\ {_DAY},?\ \d{{4}} ) (?:,?\ {_CLOCK}{_ZONE}?)?
  | {_WEEKDAY} {_MONTH}\ {{1,2}}\d{{1,2}}\ {_CLOCK}(?:\ UTC)?\ \d{{4}}
"""

# The random part of a temp path only: what the code named itself, as in /tmp/tmpx8f2a1qk/report.csv,
# is compared. A component of few letters only is such a name.
_RANDOM: Final = r"(?!(?!tmp)[A-Za-z]{1,8}(?![\w-])) (?:tmp\.\w+ | [^\s/\\.,:;\"'<>|()\[\]{}]+)"
_TEMP_ROOTS: Final = (
    r"(?:/private)?/var/folders/[^\s/]+/[^\s/]+/T",
    r"(?:/private|/var)?/tmp",
    r"[A-Za-z]:[\\/]+Users[\\/]+[^\\/\s]+[\\/]+AppData[\\/]+Local[\\/]+Temp",
    r"[A-Za-z]:[\\/]+(?:Windows[\\/]+)?Temp",
)

_ID_PREFIX: Final = (
    r"(?:call|toolu|chatcmpl|cmpl|msg|run|resp|req|gen|thread|step|file|fc|rs|ws|item|batch|evt|conv|sess)"
)

_MADE: Final = r"""
    (?P<literal><+(?=(?:uuid|time|path|address|ulid|id|hex|epoch(?:-ms)?(?:-float)?)(?::\d+)?>))
  | (?<![0-9A-Za-z])(?:
        (?P<uuid>{uuid})
      | (?P<time>{time})
      | (?P<path>(?:{roots})(?=[/\\])(?:[/\\]+(?:pytest-of-[^/\\\s]+[/\\]+)?{random})?)
      | (?P<address>0x[0-9a-fA-F]{{8,16}})
      | (?P<ulid>(?=\d+[A-Z])[0-7][0-9A-HJKMNP-TV-Z]{{25}})
      | (?P<id>{prefix}[_-](?:[a-z]{{2,6}}_)?(?:{uuid}|(?=[A-Za-z]*\d)[A-Za-z0-9]{{8,}}))
      | (?P<uuid32>(?=[0-9a-f]{{32}}(?![0-9A-Za-z]))(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{{32}})
      | (?P<hex>(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{{16,}}|(?=\d*[A-F])(?=[A-F]*\d)[0-9A-F]{{16,}})
      | (?P<epoch>\d{{10}}(?:\.\d{{1,9}})?|\d{{13}})
    )(?![0-9A-Za-z])
"""

# One set of characters in front: with that the engine skips ahead, which makes it three times as fast.
hint: Final = re.compile(r"[0-9</\\](?:(?<![0-9])|[0-9]{3}|(?<=[0-9A-Za-z]{5})|[0-9A-Za-z]{4})").search
"""Finds nothing where it is not worth looking: a token has a digit in a longer word, or is a path."""


@lru_cache(maxsize=1)
def made_text() -> re.Pattern[str]:
    """Return the expression; the group that matched names the kind.

    ``literal`` is text of the user's that looks like an alias.
    """
    roots = "|".join([*_TEMP_ROOTS, re.escape(tempfile.gettempdir())])
    pattern = _MADE.format(uuid=_UUID, time=_TIME, roots=roots, random=_RANDOM, prefix=_ID_PREFIX)
    return re.compile(pattern, re.VERBOSE)
