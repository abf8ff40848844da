"""The secrets that the environment holds, in every form in which they may turn up in a value."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, urlsplit

from stepfork._redact.secrets import BASE64_CHARS, Rule, Span, base64_forms
from stepfork._redact.table import prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["environment_rules", "is_secret_variable", "is_worth_hiding", "secrets_in"]

_SECRET_WORD = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(?:^|_)(?:PWD|PASS|PAT|AUTH|COOKIE|JWT|BEARER)(?:$|_)"
)
_HARMLESS_WORD = re.compile(
    r"""^(?:OLD)?PWD$|KEYBOARD|KEYMAP|KEYCLOAK|KEYRING|MONKEY|HOTKEY|TOKENIZER|TOKENS$|MAX_TOKEN|PUBLIC_KEY|KEYWORD
    |_(?:FILE|PATH|DIR|HOME|SOCK|NAME|URL|URI|HOST|PORT|TTL|TIMEOUT|TYPE|ALGORITHM|REGION|LIMIT|COUNT|LENGTH|ENABLED|SERVER)$""",
    re.VERBOSE,
)
_FLAGS = frozenset({"disabled", "required", "optional", "undefined", "redacted", "keychain", "anonymous"})
_SHORTEST = 8


def secrets_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return each secret of the environment with the names of the variables that hold it.

    A secret is the value, of 8 characters or more, of a variable whose name says so, or the password in
    a URL that any variable holds.
    """
    names: dict[str, list[str]] = {}
    for name, value in list(environ.items()):
        for secret in _secrets_of(name, value):
            names.setdefault(secret, []).append(name)
    return {secret: ", ".join(held_by) for secret, held_by in names.items()}


def environment_rules(secrets: Mapping[str, str]) -> list[Rule]:
    """Return one rule for each form in which one of these secrets may be written."""
    return [rule for secret, held_by in secrets.items() for rule in _form_rules(secret, held_by)]


def _secrets_of(name: str, value: str) -> Iterator[str]:
    value = value.strip()
    if is_secret_variable(name) and is_worth_hiding(value):
        yield value
    elif "://" in value:
        password = _password_of(value)
        if is_worth_hiding(password):
            yield password


@functools.lru_cache(maxsize=1000)
def is_secret_variable(name: str) -> bool:
    """Whether the name of a variable says that it holds a secret."""
    upper = name.upper()
    return bool(_SECRET_WORD.search(upper)) and not _HARMLESS_WORD.search(upper)


def is_worth_hiding(value: str) -> bool:
    """Whether a value is long enough, and is nothing that a placeholder itself shows."""
    shown_anyway = not value.strip("*") or _MARK.search(value) or prefix_of(value) == value
    return len(value) >= _SHORTEST and value.lower() not in _FLAGS and not shown_anyway


_MARK = re.compile(r"redacted|acted-[0-9]")


def _password_of(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _form_rules(secret: str, held_by: str) -> Iterator[Rule]:
    identity = secret.encode("utf-8", "surrogatepass")
    written = _written_forms(secret)
    for form in written:
        yield Rule((form,), functools.partial(_find_form, held_by, identity))
    for order in ("le", "be"):
        wide = secret.encode(f"utf-16-{order}", "surrogatepass")
        yield Rule((wide,), functools.partial(_find_wide_form, held_by, identity, order == "le"))
    for _, form in base64_forms(identity):
        for alphabet in {form, form.replace(b"+", b"-").replace(b"/", b"_")} - written:
            yield Rule((alphabet,), functools.partial(_find_base64_form, held_by, identity))


def _written_forms(secret: str) -> set[bytes]:
    """Return the secret as text, URL and Python literals show it, each in JSON within JSON, and in digits."""
    texts = {secret, repr(secret)[1:-1]}
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate, from undecodable bytes, has no URL form
        quoted = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
        texts |= quoted | {_ESCAPE.sub(lambda found: found[0].lower(), text) for text in quoted}
        texts |= {quote(text, safe="") for text in quoted}
    for _ in range(4):
        texts |= {json.dumps(text, ensure_ascii=ascii_)[1:-1] for text in texts for ascii_ in (True, False)}
    data = secret.encode("utf-8", "surrogatepass")
    digits = {data.hex(), data.hex().upper()}
    return {text.encode("utf-8", "surrogatepass") for text in texts | digits}


_ESCAPE = re.compile("%[0-9A-F]{2}")


def _find_form(held_by: str, identity: bytes, data: bytes, start: int, end: int) -> Span:
    prefix = prefix_of(data[start:end].decode("utf-8", "replace"))
    return Span(start, end, held_by, "environment", prefix, identity)


def _find_wide_form(
    held_by: str, identity: bytes, is_little: bool, data: bytes, start: int, end: int
) -> Span | None:
    """Find UTF-16; among zeros the other byte order reads the same text one byte further on."""
    other = data[max(0, start - 1) : start] if is_little else data[end : end + 1]
    if start % 2 and other == b"\0":
        return None
    return Span(start, end, held_by, "environment", "", identity)


def _find_base64_form(held_by: str, identity: bytes, data: bytes, start: int, end: int) -> Span:
    # The characters at the edges carry bits of the secret too.
    if start and data[start - 1] in BASE64_CHARS:
        start -= 1
    while end < len(data) and data[end] in BASE64_CHARS and (end - start) % 4:
        end += 1
    if data[end - 1 : end] != b"=":  # what is too little to fill a group tells how long the secret is
        end += len(data[end : end + 2]) - len(data[end : end + 2].lstrip(b"="))
    return Span(start, end, held_by, "environment", "", identity)
