"""Personal data in a text: what is found, what is not, and what stands in its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfork._making.personal import Kind, find, replacement

SAMPLES: dict[Kind, dict[str, str]] = {
    "e-mail address": {
        "bob@corp.com": "person7@site2.example.com",
        "bob.smith+tag@mail.corp.co.uk": "person7@site2.example.com",
        "BOB@CORP.COM": "PERSON7@SITE2.EXAMPLE.COM",
        "Bob@corp.com": "Person7@site2.example.com",
        "bob%40corp.com": "person7%40site2.example.com",
        "søren@blåbær.dk": "person7@site2.example.com",
    },
    "card number": {
        "4539148803436467": "4539000000000077",
        "4539 1488 0343 6467": "4539 0000 0000 0077",
        "4539-1488-0343-6467": "4539-0000-0000-0077",
        "378734493671000": "378700000000074",
        "3714 496353 98456": "3714 000000 00078",
        "5425233430109903": "5425000000000071",
    },
    "IBAN": {
        "DE89370400440532013000": "DE41000000000000000007",
        "GB82 WEST 1234 5698 7654 32": "GB81 XXXX 0000 0000 0000 07",
        "FR1420041010050500013M02606": "FR1300000000000000000X00007",
        "NO9386011117947": "NO1800000000007",
        "MT84MALT011000012345MTLCAST001S": "MT52XXXX000000000000XXXXXXX007X",
    },
    "phone number": {
        "+1 415-867-5309": "+1 415-555-0107",
        "(415) 867-5309": "(415) 555-0107",
        "1-415-867-5309": "1-415-555-0107",
        "+14158675309": "+14155550107",
        "+44 (0)20 7946 0958": "+44 (0)20 7900 0007",
        "+49 30 90182077": "+49 30 90000007",
        "+33 6 12 34 56 78": "+33 6 12 00 00 07",
    },
}
EVERY = [(kind, text, new) for kind, texts in SAMPLES.items() for text, new in texts.items()]
AROUND = (
    "{}",
    "see {}, or",
    "<{}>",
    "to={}&",
    '{{"a": "{}"}}',
    r"{{\"a\":\"x\n{}\n\"}}",
    r"\u003c{}\u003e",
    "%3C{}%3E",
)


def replaced(text: str) -> str:
    """Return a text with each replaced as the seventh of its kind."""
    for found in reversed(find(text)):
        text = text[: found.start] + replacement(found, text, 7, 2) + text[found.end :]
    return text


@pytest.mark.parametrize(("kind", "text", "new"), EVERY)
def test_personal_data_is_found_in_text_of_every_sort_and_has_a_replacement_of_its_form(
    kind: Kind, text: str, new: str
) -> None:
    """In prose, markup, URLs and JSON that is held as a text; what stands for it then is nobody's (B43)."""
    for around in AROUND:
        whole = around.format(text)
        assert [each.kind for each in find(whole)] == [kind], whole
        assert replaced(whole) == around.format(new)
        assert find(replaced(whole)) == []


@pytest.mark.parametrize(
    "text",
    [
        "bob@example.com, al@shop.test, x@localhost.invalid: reserved",
        "git@github.com:shop/agent logo@2x.png lodash@4.17.21 @app.route a@b https://bob@host.com/x",
        "4242424242424242 4111 1111 1111 1111 378282246310005: published for tests",
        "4539148803436468 9999999999999995 1796031340298000000 1796031340.298 0.4539148803436467",
        "123e4567-e89b-12d3-a456-426614174000 4539-1488-0343-6467-1234 order-4539148803436467",
        "DE89370400440532013001 XX89370400440532013000 DE893704004405320130001 de89",
        "2026-11-30 09:21:09+01:00 +20261130 +1 2 3 4 5 6 7 8 9 10 11 10.0.0.1 555-12-1234",
        "+1 415-555-0123 and 1-800-867-5309 are nobody's, +999 123 456 789 no country's",
    ],
)
def test_what_is_like_personal_data_and_is_none_is_left(text: str) -> None:
    """Examples, test numbers, wrong check digits, ids, times and versions."""
    assert find(text) == []


def test_one_person_written_in_two_ways_is_one() -> None:
    """Capitals, spaces and a country code that is left out make no other."""
    text = "Bob@Corp.com bob%40corp.com|4539 1488 0343 6467 4539148803436467|+1 415 867 5309 (415) 867-5309"
    assert len({each.identity for each in find(text.replace("%40", "@"))}) == 3
    assert len(find(text)) == 6


CARD_STARTS = st.sampled_from(
    [("4539", 16), ("5425", 16), ("2223", 16), ("6011", 16), ("3782", 15), ("3056", 14)]
)


@given(CARD_STARTS, st.integers(10**9, 10**10 - 1), st.integers(1, 99_999))
def test_every_card_number_has_replacements_that_are_card_numbers_of_its_length(
    start: tuple[str, int], body: int, number: int
) -> None:
    """The brand and the check digit are right, and no two numbers get the same."""
    prefix, length = start
    digits = f"{prefix}{body}"[: length - 1].ljust(length - 1, "7")
    card = next(f"{digits}{check}" for check in range(10) if is_luhn(f"{digits}{check}"))
    (found,) = find(f"card {card}.")
    new = replacement(found, f"card {card}.", number, 0)
    assert (new[:4], len(new), is_luhn(new)) == (prefix, length, True)
    assert new != replacement(found, f"card {card}.", number - 1, 0)
    assert find(new) == []


def is_luhn(digits: str) -> bool:
    """Whether the check digit is right, by the rule as it is told in ISO/IEC 7812."""
    total = 0
    for position, char in enumerate(reversed(digits)):
        value = int(char) * (1 + position % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


@given(st.text(max_size=200))
def test_any_text_can_be_looked_through(text: str) -> None:
    """What is found stands in the text, in order; replaced once, there is nothing left to find."""
    spans = [(each.start, each.end) for each in find(text)]
    assert spans == sorted(spans)
    assert find(replaced(text)) == []
