"""Finds personal data in a text: e-mail addresses, phone numbers, payment cards and IBANs.

Each kind is checked as far as it can be (check digits, lengths, calling codes), so that ids and numbers
are rarely taken for one. What is reserved for examples and tests is nobody's, and does not count; a
replacement is of that sort, so a text that was scrubbed has no personal data.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["e-mail address", "phone number", "card number", "IBAN"]

PLURALS: Final[dict[Kind, str]] = {
    "e-mail address": "e-mail addresses",
    "phone number": "phone numbers",
    "card number": "card numbers",
    "IBAN": "IBANs",
}


class Found(NamedTuple):
    """Where one stands in a text."""

    start: int
    end: int
    kind: Kind
    identity: str
    """The same for every way of writing it."""


def find(text: str) -> list[Found]:
    """Return what stands in a text, in order and without overlap."""
    found = sorted([*_ibans(text), *_cards(text), *_phones(text), *_emails(text)])
    clear: list[Found] = []
    for each in found:
        if not clear or each.start >= clear[-1].end:
            clear.append(each)
    return clear


def replacement(found: Found, text: str, number: int, site: int) -> str:
    """Return what stands for the ``number``-th of its kind: of the same form, and nobody's.

    ``site`` is the number of the domain of an e-mail address.
    """
    original = text[found.start : found.end]
    match found.kind:
        case "e-mail address":
            return _email_for(original, number, site)
        case "card number":
            return _refilled(original, _card_for(found.identity, number))
        case "IBAN":
            return _refilled(original, _iban_for(found.identity, number))
        case "phone number":
            return _phone_for(original, found.identity, number)


def _refilled(original: str, characters: str) -> str:
    """Return the original with its letters and digits replaced, the separators in their places."""
    left = iter(characters)
    return "".join(next(left) if char.isalnum() else char for char in original)


def _counted(characters: str, number: int, places: int) -> str:
    """Return letters as X and digits as 0, with the number in the last of the places of digits."""
    digits = [index for index, char in enumerate(characters) if char.isdigit()][-places:]
    result = ["0" if char.isdigit() else "X" for char in characters]
    for index, digit in zip(digits, f"{number:0{len(digits)}d}"[-places:], strict=True):
        result[index] = digit
    return "".join(result)


_ESCAPE: Final = r"(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2})"
"""Behind an escape, in JSON or a URL that is held as a text, a word begins."""

_AT: Final = re.compile("@|%40")
_LOCAL: Final = re.compile(rf"(?:(?<![\w+\\%-])(?<!//)|{_ESCAPE})\w[\w.+-]{{0,63}}\Z")
_DOMAIN: Final = re.compile(r"(?:\w(?:[\w-]{0,61}\w)?\.)+[^\W\d_]{2,24}(?![\w-]|\.\w)")
_LONGEST_LOCAL: Final = 64 + len("\\u0000")
_NOBODYS: Final = re.compile(
    r"(?:.*\.)?(?:example(?:\.com|\.net|\.org)?|test|invalid|localhost)", re.IGNORECASE
)
_IMAGES: Final = ("png", "jpg", "jpeg", "gif", "svg", "webp", "avif")
"""``logo@2x.png`` is a picture."""


def _emails(text: str) -> Iterator[Found]:
    for at in _AT.finditer(text):
        domain = _DOMAIN.match(text, at.end())
        first = max(0, at.start() - _LONGEST_LOCAL)
        local = _LOCAL.search(text[first : at.start()]) if domain else None
        if not (domain and local):
            continue
        is_picture = domain[0].rpartition(".")[2].lower() in _IMAGES
        # git@github.com:owner/repository names a repository.
        if not (_NOBODYS.fullmatch(domain[0]) or is_picture or local[0] == "git"):
            yield Found(
                first + local.start(), domain.end(), "e-mail address", f"{local[0]}@{domain[0]}".lower()
            )


def _email_for(original: str, number: int, site: int) -> str:
    local, at, domain = re.split("(@|%40)", original, maxsplit=1)
    new = "example.com" if site == 1 else f"site{site}.example.com"
    return f"{_cased(f'person{number}', local)}{at}{_cased(new, domain)}"


def _cased(text: str, original: str) -> str:
    """Return the text with capitals as the original has them: whether case matters is the agent's."""
    if original.isupper():
        return text.upper()
    return text.capitalize() if original[:1].isupper() else text


_CARD: Final = re.compile(
    rf"(?=\d{{4}})(?:(?<![\w\\%])(?<!\w[-.])|{_ESCAPE})"
    r"(?:\d{4}([ -]?)\d{4}\1\d{4}\1\d{4}|\d{4}([ -]?)\d{6}\2\d{4,5})(?!\w|[-.]\w)"
)
_BRANDS: Final = re.compile(
    r"""4\d{15} | 5[1-5]\d{14} | 2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}
    | (?:6011|65\d\d|64[4-9]\d|62\d\d)\d{12} | 35(?:2[89]|[3-8]\d)\d{12}
    | 3[47]\d{13} | 3(?:0[0-5]|[689]\d)\d{11}""",
    re.VERBOSE,
)
_TEST_CARDS: Final = frozenset(
    {"4242424242424242", "4111111111111111", "4012888888881881", "5555555555554444", "5105105105105100"}
    | {"2223003122003222", "378282246310005", "371449635398431", "6011111111111117", "6011000990139424"}
    | {"3566002020360505", "3530111333300000", "30569309025904", "38520000023237", "36227206271667"}
)
"""Those that payment providers publish."""
_CARD_PLACES: Final = 5


def _cards(text: str) -> Iterator[Found]:
    for match in _CARD.finditer(text):
        digits = re.sub("[ -]", "", match[0])
        is_nobodys = digits in _TEST_CARDS or not digits[4 : -_CARD_PLACES - 1].strip("0")
        if digits.isascii() and _BRANDS.fullmatch(digits) and not _luhn(digits) and not is_nobodys:
            yield Found(match.start(), match.end(), "card number", digits)


def _luhn(digits: str) -> int:
    """Return the remainder of the Luhn sum, 0 for a number with the right check digit."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10


def _card_for(digits: str, number: int) -> str:
    body = digits[:4] + _counted(digits[4:-1], number, _CARD_PLACES)
    return f"{body}{-_luhn(f'{body}0') % 10}"


_IBAN_HEAD: Final = re.compile(
    rf"(?=[A-Z]{{2}}[0-9])(?:(?<![\w\\%-])|{_ESCAPE})[A-Z]{{2}}[0-9]{{2}}(?= ?[A-Z0-9])"
)
_IBAN_LENGTHS: Final = {
    country: int(length)
    for country, length in re.findall(
        "([A-Z]{2})([0-9]{2})",
        """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28
    EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26
    IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28
    NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25
    SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
        """,
    )
}
_IBAN_PLACES: Final = 6


def _ibans(text: str) -> Iterator[Found]:
    for head in _IBAN_HEAD.finditer(text):
        length = _IBAN_LENGTHS.get(head[0][:2])
        if length is None:
            continue
        body = re.compile(rf"(?: ?[A-Z0-9]){{{length - 4}}}(?![A-Za-z0-9_])").match(text, head.end())
        iban = f"{head[0]}{body[0]}".replace(" ", "") if body else ""
        if body and _mod97(iban) == 1 and iban[4:] != _counted(iban[4:], _tail_of(iban), _IBAN_PLACES):
            yield Found(head.start(), body.end(), "IBAN", iban)


def _tail_of(iban: str) -> int:
    return int("".join(filter(str.isdigit, iban[4:]))[-_IBAN_PLACES:] or "0")


def _mod97(iban: str) -> int:
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97


def _iban_for(iban: str, number: int) -> str:
    account = _counted(iban[4:], number, _IBAN_PLACES)
    return f"{iban[:2]}{98 - _mod97(f'{iban[:2]}00{account}'):02d}{account}"


_PHONE: Final = re.compile(
    rf"""(?=[+(]|[0-9][-.\x20(0-9])(?:(?<![\w+\\%])(?<!\w[-.])|{_ESCAPE})
    (?: \+1(?:[ .()/-]{{0,2}}[0-9]){{10}} | \+[2-9](?:[ .()/-]{{0,2}}[0-9]){{8,14}}
      | (?:1[-.\x20])? (?:\([2-9][0-9]{{2}}\)\x20?|[2-9][0-9]{{2}}[-.]) [2-9][0-9]{{2}} [-.] [0-9]{{4}} )
    (?!\w|[-.]\w)""",
    re.VERBOSE,
)
_CALLING_CODE: Final = re.compile(
    r"""7 | 2[07] | 3[0-469] | 4[013-9] | 5[1-8] | 6[0-6] | 8[1246] | 9[0-58]
    | 2(?:1[1-368]|[2346]\d|5[0-8]|9[01789]) | 3(?:[57]\d|8[0-79]) | 42[013] | 5[09]\d
    | 6(?:7[02-9]|8[0-35-9]|9[0-2])
    | 8(?:5[02356]|8[06]) | 9(?:6[0-8]|7[1-79]|9[2-68])""",
    re.VERBOSE,
)
_NORTH_AMERICAN: Final = re.compile(r"1[2-9]\d{2}[2-9]\d{6}")
_TOLL_FREE: Final = ("800", "833", "844", "855", "866", "877", "888", "900")
_PHONE_PLACES: Final = 6


def _phones(text: str) -> Iterator[Found]:
    for match in _PHONE.finditer(text):
        digits = re.sub("[^0-9]", "", match[0])
        if match[0][0] != "+" and len(digits) == 10:
            digits = f"1{digits}"
        if _is_phone(digits, match[0]):
            yield Found(match.start(), match.end(), "phone number", digits)


def _is_phone(digits: str, written: str) -> bool:
    groups = re.findall("[0-9]+", written.replace("(0)", ""))
    if len(groups) > 6 or sum(len(group) == 1 for group in groups[1:]) > 1:
        return False  # a list of numbers
    if digits[0] == "1":
        is_nobodys = digits[4:7] == "555" or digits[1:4] in _TOLL_FREE
        return bool(_NORTH_AMERICAN.fullmatch(digits)) and not is_nobodys
    return bool(_CALLING_CODE.match(digits)) and digits[-_PHONE_PLACES:-3] != "000"


def _phone_for(original: str, digits: str, number: int) -> str:
    if digits[0] == "1":
        new = f"{digits[1:4]}555{100 + number:04d}"
        return _refilled(original, f"1{new}" if sum(map(str.isdigit, original)) == 11 else new)
    return _refilled(original, f"{digits[:-_PHONE_PLACES]}{number:0{_PHONE_PLACES}d}")
