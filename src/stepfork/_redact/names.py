"""Which names say that their value is a secret: ``api_key``, ``X-Auth-Token``, ``DB_PASSWORD``.

A name is judged by how it ends, in whole words: ``max_tokens``, ``token_count`` and ``keyboard`` are none.
The same name is found as a key and in text (``password=...``, ``"token": "..."``).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from stepfork._redact.placeholder import PLACEHOLDER, SCHEME, is_whole, redacted_at
from stepfork._redact.secrets import BOUNDARY, Rule, Span, is_opaque
from stepfork._redact.table import prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Names", "value_span", "word_set"]


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(words.split())


_PHRASES: Final = frozenset(
    tuple(phrase.split("_"))
    for phrase in word_set(
        """password passwords passwd passphrase pwd
        db_pass user_pass smtp_pass mail_pass ftp_pass redis_pass proxy_pass
        secret secrets secret_key secret_access_key secret_id client_secrets
        api_key api_keys app_key access_key access_key_id account_key auth_key private_key priv_key
        signing_key encryption_key master_key ssh_key deploy_key license_key subscription_key service_key
        session_key shared_access_key shared_key storage_key webhook_key function_key functions_key hmac_key
        token auth_tokens access_tokens refresh_tokens api_tokens bearer_tokens
        authorization auth oauth jwt bearer credential credentials creds cookie cookies
        sessid phpsessid jsessionid csrftoken"""
    )
)
_GLUED: Final = (
    *("password", "passwd", "passphrase", "apikey", "secretkey", "accesskey", "privatekey", "accountkey"),
    *("authtoken", "accesstoken", "refreshtoken", "sessiontoken", "idtoken", "apitoken", "clientsecret"),
)
_NOT_BEFORE_TOKEN: Final = word_set(
    """page next prev previous continuation sync cursor eos bos pad unk mask sep cls stop start end first last
    special per input output prompt completion max min no num cancel cancellation"""
)
_NOT_BEFORE_KEY: Final = word_set(
    """primary foreign public pub cache sort partition range hash idempotency group object row lookup join
    dict map json translation routing registry hot shortcut arrow shift dedup unique natural composite
    column index s3 blob file event message"""
)
_QUALIFIERS: Final = word_set(
    "value hash confirmation confirm raw b64 base64 plain plaintext text str string header new old current"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-. "
_LONGEST = 64
_TRIGGERS = word_set("key token secret pass pwd cred auth cookie jwt bearer sessid jsessionid csrftoken")


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def _says_secret(words: tuple[str, ...], name: str) -> int:
    """Return how many words at the end make the name a secret's; 0 if none do."""
    if words[-1] == "token":
        return 0 if words[-2:-1] and words[-2] in _NOT_BEFORE_TOKEN else 1
    for count in range(min(4, len(words)), 0, -1):
        if words[-count:] in _PHRASES:
            return count
    if words[-1].endswith(_GLUED):
        return 1
    is_constant = words[-1] == "key" and len(words) > 1 and name[-3:].isupper()
    return 2 if is_constant and words[-2] not in _NOT_BEFORE_KEY else 0


def _in_json(key: str) -> bytes:
    return json.dumps(key, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def _anyway(data: bytes, start: int, end: int) -> Span:
    return Span(start, end, "name", "name")


class Names:
    """The names that are secret, the user's own among them.

    ``extra``: names that end in the same words as one of these are secret as well.
    """

    def __init__(self, extra: Iterable[str] = ()) -> None:
        self._exact = frozenset(extra)
        self._extra = frozenset(words for name in self._exact if (words := _words(name)))
        self._known: dict[str, str | None] = {}

    def secret(self, key: str) -> str | None:
        """Return the words that make ``key`` the name of a secret, joined by ``_``; None if it is none."""
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) > 4096:
                self._known.clear()
            return self._known.setdefault(key, self._judge(key))

    def _judge(self, key: str) -> str | None:
        if key in self._exact:
            return key
        name = key.rstrip(" ]")[-_LONGEST:]
        words = _words(name[len(name.rstrip(_NAME_CHARS)) :])
        for _ in range(3):
            if not words:
                return None
            for extra in self._extra:
                if words[-len(extra) :] == extra:
                    return "_".join(extra)
            if count := _says_secret(words, name):
                return "_".join(words[-count:])
            if words[-1] not in _QUALIFIERS and not words[-1].isdigit():
                return None
            words = words[:-1]
        return None

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules for ``NAME=value``, ``name: value`` and ``--name value`` in text."""
        return Rule(self._triggers(), self._find), Rule(_OPTION_STARTS, self._find_option)

    def probe_rules(self) -> tuple[Rule, ...]:
        """Return the rules for JSON bytes, which may have a secret under a name as key or in text.

        Their spans tell no more than that.
        """
        strange = tuple(_in_json(key) for key in self._exact if key.strip(_NAME_CHARS))
        return (
            Rule(self._triggers(), self._probe),
            Rule(_OPTION_STARTS, self._probe_option),
            Rule(strange, _anyway),
        )

    def rules_so_far(self) -> tuple[Rule, ...]:
        """Return these rules for a text whose end is still to come, and with it the quote behind a value."""
        return Rule(self._triggers(), self._find_so_far), Rule(_OPTION_STARTS, self._find_option)

    def _triggers(self) -> tuple[bytes, ...]:
        """Return texts of which one stands in every secret name, in each case that a word may have."""
        words = {*_TRIGGERS, *(words[-1] for words in self._extra)}
        return tuple(sorted({case.encode() for word in words for case in (word, word.title(), word.upper())}))

    def _probe(self, data: bytes, start: int, end: int) -> Span | None:
        sign = None if _is_prose(data, end) else _SIGN.match(data, end)
        name = self._name_at(data, start, sign.end(1)) if sign else None
        if sign is None or name is None or _KEPT.match(data, sign.end()):
            return None
        return Span(start, end, name, "name")

    def _probe_option(self, data: bytes, start: int, end: int) -> Span | None:
        option = _OPTION.match(data, start)
        name = self.secret(option[1].decode()) if option else None
        return Span(start, end, name, "name") if name else None

    def _name_at(self, data: bytes, start: int, end: int) -> str | None:
        """Judge the name that ends at ``end`` and holds ``start``."""
        left = data[max(0, start - _LONGEST) : start]
        run = len(left.rstrip(_NAME_BYTES))
        name = data[start - len(left) + run : end].decode()
        if found := self.secret(name):
            return found
        # The letter of an escape such as \n is no part of the name behind it.
        escaped = run and left[run - 1 : run] == b"\\"
        return (self.secret(name[1:]) or self.secret(name[5:])) if escaped else None

    def _find(self, data: bytes, start: int, end: int) -> Span | None:
        sign = None if _is_prose(data, end) else _ASSIGN.match(data, end)
        if not sign or redacted_at(data, sign.end()):
            return None
        name = self._name_at(data, start, sign.end(1))
        return _value_at(data, sign, name) if name else None

    def _find_so_far(self, data: bytes, start: int, end: int) -> Span | None:
        sign = None if _is_prose(data, end) else _ASSIGN.match(data, end)
        quote = _QUOTE.match(data, sign.end()) if sign else None
        if not sign or not quote or _closing(data, quote) >= 0 or b"\n" in data[quote.end() :]:
            return self._find(data, start, end) if sign else None
        name = self._name_at(data, start, sign.end(1)) if quote.end() < len(data) else None
        if not name or redacted_at(data, quote.end()):
            return None
        return Span(quote.end(), len(data), name, "name")

    def _find_option(self, data: bytes, start: int, end: int) -> Span | None:
        option = _OPTION.match(data, start)
        name = self.secret(option[1].decode()) if option else None
        if option is None or name is None or redacted_at(data, option.end()):
            return None
        quote = _QUOTE.match(data, option.end())
        if quote and (closing := _closing(data, quote)) >= 0:
            return value_span(data, quote.end(), closing, name)
        value = _UNQUOTED.match(data, option.end())
        return value_span(data, *value.span(), name) if value and _is_argument(value[0], name) else None


def _is_prose(data: bytes, end: int) -> bool:
    """Whether a word that ends here is followed by another; most are: "the key to the door"."""
    return data[end : end + 1] == b" " and data[end + 1 : end + 2].isalpha()


def _is_argument(value: bytes, name: str) -> bool:
    """Whether what follows an option is its value, and not the next word of a sentence about it."""
    is_password = name.startswith("pass") or name == "pwd"
    return not value.startswith(b"-") and (is_opaque(value) or (is_password and len(value) >= 8))


_NAME_BYTES = _NAME_CHARS.encode()
_SPACE = rb"(?: |\t|\\+t){0,8}+"
# Possessive throughout: these are tried at every "key" and "token" of a text.
_NAME_END = rb"([A-Za-z0-9_-]{0,40}+)[ \]]{0,8}+"
# A name in quotes may also be one of a list: ["authorization", "..."], {"name": "token", "value": "..."}.
_SIGN = re.compile(_NAME_END + rb"""(?:\\*["']""" + _SPACE + rb"[]:,=}]|" + _SPACE + rb"[:=])")
# What is no secret under any name, or no longer one.
_KEPT = re.compile(
    rb"[=>]?" + _SPACE + rb"""(?:"value":)?"""
    rb"""(?:null|true|false|\{\}|\[\]|(\\*["'])\1|(?:\\*["'])?"""
    + f"{SCHEME}?{PLACEHOLDER}".encode()
    + rb""")(?=[\s,;&)}\]"'\\]|\Z)"""
)
_ASSIGN = re.compile(_NAME_END + rb"""(\\*["'])?""" + _SPACE + rb"(=>|:=|==?|:)" + _SPACE)
_OPTION = re.compile(BOUNDARY.encode() + rb"--([A-Za-z][A-Za-z0-9-]{1,60}+) {1,4}+(?=\S)")
_OPTION_STARTS = tuple(f"--{letter}".encode() for letter in "abcdefghijklmnopqrstuvwxyz")
_QUOTE = re.compile(rb"""\\*["']""")
_SCHEME = re.compile(SCHEME.encode())
_UNQUOTED = re.compile(rb"""[^\s"'\\,;&<>()\[\]{}|`]+""")
_GLANCE = 64
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z_.]*:?")
_LINE = re.compile(rb"""[^\r\n"'\\]{1,16384}""")
_EXCUSED = re.compile(
    rb"""(?i:none|null|nil|true|false|undefined|str|string|int|integer|bytes|bool|boolean|optional|any|required|missing
    |invalid|incorrect|expired|unknown|your[-_ ].*|x+|\*+|\.+|<[^>]*>|\$\{[^}]*\}|\{\{?[\w. ]*\}?\}|%s)
    |\$[A-Z][A-Z0-9_]*|(?:self|os|settings|config|process|cls|args|env)\.[\w.]+""",
    re.VERBOSE,
)


def _value_at(data: bytes, sign: re.Match[bytes], name: str) -> Span | None:
    """Find the value behind ``name=``; ``sign`` has the name's end and its closing quote."""
    quote = _QUOTE.match(data, sign.end())
    # A line that ends first means that the quote itself ended a text: ask("Password: ").
    if quote and (end := _closing(data, quote)) >= 0 and b"\n" not in data[quote.end() : end]:
        return value_span(data, quote.end(), end, name)
    start = quote.end() if quote else sign.end()
    if name.endswith("cookie") and sign[3] == b":" and (line := _LINE.match(data, start)) and b"=" in line[0]:
        return value_span(data, start, line.end(), name)
    return _bare_value(data, start, sign, name)


def _bare_value(data: bytes, start: int, sign: re.Match[bytes], name: str) -> Span | None:
    if scheme := _SCHEME.match(data, start):
        start = scheme.end()
    glance = _UNQUOTED.match(data, start, start + _GLANCE)
    if not glance or data[glance.end() : glance.end() + 1] in (b"(", b"["):
        return None
    if (name == "pwd" and glance[0][:1] in b"/~") or not _is_believed(glance[0], data, sign, name):
        return None
    end = _UNQUOTED.match(data, start).end()  # type: ignore[union-attr]  # it matched a glance before
    span = value_span(data, start, end, name)
    if span and sign[2] and _NUMBER.fullmatch(data, start, end):
        return span._replace(quote=sign[2])
    return span


def _is_believed(value: bytes, data: bytes, sign: re.Match[bytes], name: str) -> bool:
    """Whether a value without quotes is meant as one: prose has colons too, and code assigns names."""
    is_password = name.startswith("pass") or name == "pwd"
    if not _IDENTIFIER.fullmatch(value):
        return is_opaque(value) and (is_password or len(value) >= 4 or sign[2] is not None)
    if sign[3] != b":":
        is_itself = data[sign.end(1) - len(value) : sign.end(1)] == value
        is_code = sign[3] == b"==" or b"." in value or is_itself
        is_spaced = b" " in data[sign.end(1) : sign.end()]
        return len(value) >= 4 and not is_code and (is_password or not is_spaced)
    end = sign.end() + len(value)
    return (
        is_password and len(value) >= 6 and data[end : end + 2].strip(b" .")[:1] in (b"", b"\n", b"\r", b"\\")
    )


def _closing(data: bytes, quote: re.Match[bytes]) -> int:
    """Return where the text in quotes ends; -1 if it does not."""
    mark, position, end = quote[0], quote.end(), -1
    for _ in range(32):
        end = data.find(mark, position, quote.end() + 16384)
        if end < 0:
            return -1
        before = data[quote.end() : end]
        escapes = len(before) - len(before.rstrip(b"\\"))
        if escapes == 0 or (len(mark) == 1 and escapes % 2 == 0):
            return end
        position = end + len(mark)
    return end


def value_span(data: bytes, start: int, end: int, name: str) -> Span | None:
    """Return the span of a value under a secret's name, if it is one, without an authorization scheme."""
    value = data[start:end]
    if not value or is_whole(value) or _EXCUSED.fullmatch(value):
        return None
    if scheme := _SCHEME.match(value):
        start += scheme.end()
    if start >= end:
        return None
    return Span(start, end, name, "name", prefix_of(data[start:end].decode("utf-8", "replace")))
