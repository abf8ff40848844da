"""The credentials that a request, a server's command or its URL is made with.

Whoever refuses them repeats them: they are hidden from then on wherever they turn up in a run.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from stepfork._context import busy
from stepfork._redact.environ import is_secret_variable
from stepfork._redact.in_use import in_use
from stepfork._redact.names import Names
from stepfork._redact.parameters import is_made
from stepfork._redact.placeholder import SCHEME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from urllib.parse import SplitResult

__all__ = ["hide", "hide_those_in", "hide_those_of", "in_command", "in_headers", "in_url", "split_url"]

_names: Final = Names()
_SCHEME: Final = re.compile(SCHEME)
_URL: Final = re.compile(r"[A-Za-z][\w+.-]*://.*", re.DOTALL)


def hide(found: Iterable[str], where: str) -> None:
    """Have these texts hidden in every run of this process; ``where`` names what they were seen in."""
    for secret in found:
        in_use.learn(secret, where, in_run=bool(busy))


def hide_those_of(request: Any) -> None:
    """Hide what a model is asked with: its key is no part of the recording, and its answers may repeat it."""
    hide_those_in(request.headers, str(request.url))


def hide_those_in(headers: Mapping[Any, Any], url: str = "") -> None:
    """Do so where there is no request yet: what it asks is to be hidden by the same rule each time."""
    found = {*in_headers(headers), *_in_query(url)}
    hide((secret for secret in found if _is_key(secret)), "request to a model")


def _is_key(value: str) -> bool:
    """Whether it is more than a word, as stands where a local server wants any: ``lm-studio``."""
    return len(value) >= _SURE and " " not in value and re.search("[0-9]", value) is not None


_SURE: Final = 12


def in_command(command: str, words: Iterable[Any], env: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets that a process is started with."""
    for option, word in pairwise([command, *map(str, words)]):
        yield from _in_word(option, word)
    for name, value in env.items():
        if is_secret_variable(name):
            yield str(value)
        elif url := _URL.search(str(value)):
            yield from in_url(url[0])


def _in_word(option: str, word: str) -> Iterator[str]:
    name, sign, value = word.partition("=")
    if sign and _says_secret(name):
        yield value
    elif option.startswith("-") and "=" not in option and _says_secret(option):
        yield word
    elif url := _URL.search(word):
        yield from in_url(url[0])
    elif ":" in word:  # a header, as in --header "Authorization: Bearer ..."
        header, _, value = word.partition(":")
        yield from in_headers({header: value.strip()})
    elif is_made(word) and not _PLACE.fullmatch(name if sign else option):
        yield word


_PLACE: Final = re.compile(
    r"--(?:project|workspace|org|organi[sz]ation|tenant|account|team|database|space|channel|page|site|cluster)"
    r"(?:[-_](?:id|uuid|ref))?"
)
"""Options that say where a server works. The agent knows such an id as well, and looks for it in results."""


def in_url(url: str) -> Iterator[str]:
    """Yield the secrets in a URL: a password, credentials in its query, what nobody made up by hand."""
    parts = split_url(url)
    if parts is None:
        return
    yield from _in_query(url)
    values = [value for _, value in parse_qsl(parts.query)]
    yield from filter(is_made, [*values, *parts.path.split("/"), *(parts.hostname or "").split(".")])


def _in_query(url: str) -> Iterator[str]:
    parts = split_url(url)
    if parts is None:
        return
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    yield unquote(password or user)
    for name, value in parse_qsl(parts.query):
        if _says_secret(name) or name.lower() in _CREDENTIALS:
            yield value


def in_headers(headers: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the values of headers that are credentials, without the name of their scheme."""
    for name, value in headers.items():
        if _says_secret(str(name)):
            yield _SCHEME.sub("", str(value), count=1).strip()


def split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL; None where it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _says_secret(name: str) -> bool:
    return name.lower().lstrip("-") == "pass" or _names.secret(name) is not None


_CREDENTIALS: Final = frozenset({"key", "sig", "code"})
"""In the query of a request that is known to ask for what needs one."""
