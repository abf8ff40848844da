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

__all__ = ["environment_rules"]

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


def environment_rules(environ: Mapping[str, str]) -> list[Rule]:
    """Return one rule for each form in which a secret of the environment may be written.

    A secret is the value, of 8 characters or more, of a variable whose name says so, or the password in
    a URL that any variable holds.
    """
    names: dict[str, list[str]] = {}
    for name, value in environ.items():
        for secret in _secrets_of(name, value):
            names.setdefault(secret, []).append(name)
    return [rule for secret, held_by in names.items() for rule in _form_rules(secret, ", ".join(held_by))]


def _secrets_of(name: str, value: str) -> Iterator[str]:
    value = value.strip()
    if _is_secret_variable(name) and _is_worth_hiding(value):
        yield value
    elif "://" in value:
        password = _password_of(value)
        if _is_worth_hiding(password):
            yield password


def _is_secret_variable(name: str) -> bool:
    upper = name.upper()
    return bool(_SECRET_WORD.search(upper)) and not _HARMLESS_WORD.search(upper)


def _is_worth_hiding(value: str) -> bool:
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
        yield Rule((form.lower(),), functools.partial(_find_form, form, held_by, identity))
    for _, form in base64_forms(identity):
        for alphabet in {form, form.replace(b"+", b"-").replace(b"/", b"_")} - written:
            yield Rule((alphabet.lower(),), functools.partial(_find_base64_form, alphabet, held_by, identity))


def _written_forms(secret: str) -> set[bytes]:
    """Return the secret as text, URL and Python literals show it, and each of these in JSON within JSON."""
    texts = {secret, repr(secret)[1:-1]}
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate, from undecodable bytes, has no URL form
        texts |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    for _ in range(4):
        texts |= {json.dumps(text, ensure_ascii=ascii_)[1:-1] for text in texts for ascii_ in (True, False)}
    return {text.encode("utf-8", "surrogatepass") for text in texts}


def _find_form(form: bytes, held_by: str, identity: bytes, data: bytes, start: int, end: int) -> Span | None:
    # Hexadecimal digits of an escape may be written in either case.
    if data[start:end] != form and b"%" not in form:
        return None
    prefix = prefix_of(data[start:end].decode("utf-8", "replace"))
    return Span(start, end, held_by, "environment", prefix, identity)


def _find_base64_form(
    form: bytes, held_by: str, identity: bytes, data: bytes, start: int, end: int
) -> Span | None:
    if data[start:end] != form:
        return None
    # The characters at the edges carry bits of the secret too.
    if start and data[start - 1] in BASE64_CHARS:
        start -= 1
    while end < len(data) and data[end] in BASE64_CHARS and (end - start) % 4:
        end += 1
    return Span(start, end, held_by, "environment", "", identity)
