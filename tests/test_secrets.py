from __future__ import annotations

import base64
import gzip
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from properties import thoroughly
from secret_samples import (
    AWS_ID,
    AWS_SECRET,
    BODY,
    DB_PASSWORD,
    ENVIRON,
    FORMS,
    HARMLESS_NAMES,
    HEX,
    LONG,
    PEM,
    SECRET_NAMES,
    SHAPES,
    TEXTS,
    b64,
    redacted,
)
from stepfork._plain import canonical
from stepfork._redact import Redactor, matches


@pytest.fixture
def redactor() -> Redactor:
    """Return a redactor that knows the secrets of ENVIRON."""
    return Redactor(environ=ENVIRON)


@pytest.mark.parametrize(
    "place",
    [
        lambda secret: {"query": secret},
        lambda secret: f"Please call the API with {secret}, then stop.",
        lambda secret: f"line one\n{secret}\nline three",
        lambda secret: json.dumps({"text": f"held in JSON\n{secret}"}),
        lambda secret: {secret: 1},
        lambda secret: f"https://api.example.com/v1?k={secret}&page=2",
        lambda secret: f"https://api.example.com/v1?q=a%20{secret}",
        lambda secret: {
            "$exception": "shop:Denied",
            "args": [f"401 for {secret}"],
            "message": f"401 for {secret}",
        },
        lambda secret: {"$object": "shop:Client", "state": {"options": [secret]}},
        lambda secret: {"$dict": [[{"$tuple": [1, secret]}, True]]},
        lambda secret: {"$set": ["a", secret]},
        lambda secret: {"$path": f"/srv/{secret}/file"},
    ],
    ids=[
        "argument",
        "prompt",
        "line",
        "json",
        "key",
        "url",
        "quoted",
        "exception",
        "object",
        "dict",
        "set",
        "path",
    ],
)
def test_a_secret_is_known_by_its_shape(redactor: Redactor, place: Any) -> None:
    """Keys of 30 providers are found in arguments, keys, text, URLs and exceptions (B43)."""
    for secret in SHAPES.values():
        redacted(redactor, place(secret), secret[-12:])


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES)
def test_a_secret_in_bytes_is_found_too(redactor: Redactor, secret: str) -> None:
    """Bytes are decoded, searched and encoded again, binary, text or gzip (B43)."""
    for data in (
        b"\xff\x00" + secret.encode() + b"\xfe",
        f"ä {secret}".encode(),
        gzip.compress(secret.encode()),
    ):
        result = redacted(redactor, {"$bytes": b64(data)})
        content = base64.b64decode(result["$bytes"])
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        assert secret[-12:].encode() not in content
        assert b"[redacted-1]" in content
        assert not redactor.scan(msgspec.json.encode(result))


@pytest.mark.parametrize("before", ["", "a", "ab", "\n", "user:"])
@pytest.mark.parametrize(
    "kind", ["openai project", "anthropic", "github", "github fine-grained", "slack bot", "aws id"]
)
def test_a_secret_in_base64_text_is_found_at_every_alignment(
    redactor: Redactor, before: str, kind: str
) -> None:
    """Base64 inside a text hides no provider's key (B43)."""
    encoded = b64((before + SHAPES[kind] + "\n").encode())
    redacted(redactor, f"data:text/plain;base64,{encoded}", encoded, encoded[12:36])


def test_a_private_key_in_base64_text_is_found(redactor: Redactor) -> None:
    """A PEM file in base64, as deployments keep it, is a secret (B43)."""
    encoded = b64(PEM.encode())
    redacted(redactor, {"tls": encoded}, encoded[:60], encoded[-60:])


@pytest.mark.parametrize("text", [PEM, json.dumps(PEM), PEM.replace("\n", "\r\n"), PEM[:150]])
def test_the_body_of_a_private_key_goes_and_what_surrounds_it_stays(redactor: Redactor, text: str) -> None:
    """PEM keys go as a whole, whatever their line ends, cut off or not (B43)."""
    result = redacted(redactor, f"see {text} (end)", BODY)
    assert result.startswith("see ")
    assert result.endswith(" (end)")
    assert "RSA PRIVATE KEY-----[redacted-1]" in result


def test_an_aws_secret_key_behind_its_id_goes(redactor: Redactor) -> None:
    """The secret half of an AWS key pair has no prefix; it is found beside its id (B43)."""
    for between in (":", " / ", "\n", '","'):
        redacted(redactor, f"{AWS_ID}{between}{AWS_SECRET}", AWS_ID[4:], AWS_SECRET)


@pytest.mark.parametrize(
    "place",
    [
        lambda name, secret: {name: secret},
        lambda name, secret: {"headers": {name: [secret]}},
        lambda name, secret: {"$dict": [[name, secret], [1, 2]]},
        lambda name, secret: {"$object": "shop:Settings", "state": {name: secret}},
        lambda name, secret: {
            name: {"$object": "pydantic.types:SecretStr", "state": {"_secret_value": secret}}
        },
        lambda name, secret: {"name": name, "value": secret},
        lambda name, secret: ["set", [{"attr": name}], secret],
        lambda name, secret: ["append", ["a", name, 0], [secret]],
        lambda name, secret: f"{name}={secret}",
        lambda name, secret: f"first\n{name}={secret}\nlast",
        lambda name, secret: f'{name} = "{secret}"',
        lambda name, secret: f"failed: {{'{name}': '{secret}'}}",
        lambda name, secret: json.dumps({"a": 1, name: secret}),
        lambda name, secret: json.dumps({"body": json.dumps({name: secret})}),
        lambda name, secret: f"{name}: {secret}",
        lambda name, secret: f"https://example.com/cb?{name}={secret}&state=1",
    ],
)
def test_a_secret_is_known_by_its_name(redactor: Redactor, place: Any) -> None:
    """A name tells a secret as a key, as a field, in JSON and in NAME=value, on by default (B43, B44)."""
    secret = "tr0ub4dor"
    for name in SECRET_NAMES:
        redacted(redactor, place(name, secret), secret)


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_a_name_that_only_holds_a_secret_word_hides_nothing(redactor: Redactor, name: str) -> None:
    """Names are judged in whole words, by how they end (B43)."""
    for plain in ({name: "tr0ub4dor"}, {name: 512}, f"{name}=tr0ub4dor", f'{{"{name}": "tr0ub4dor"}}'):
        assert redactor.redact(plain) is plain


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgres://bob:hunter2@db:5432/prod", "hunter2"),
        ("redis://:hunter2@cache/0", "hunter2"),
        ("mongodb+srv://bob:p@ss@cluster0.example.net", "p@ss"),
        ("could not open https://bob:hunter2@example.com/a?b=c", "hunter2"),
        ("curl -H 'Authorization: Bearer abc.DEF-123_x~y' https://x", "abc.DEF-123_x~y"),
        ("authorization: bearer%20abcDEF12345", "abcDEF12345"),
        (f"Basic {b64(b'bob:hunter2')}", b64(b"bob:hunter2")),
        (f"authorization: Basic {b64(b'bob:x')}", b64(b"bob:x")),
        ("Cookie: theme=dark; sid=Zx81qw", "Zx81qw"),
        ("Server=db;User Id=bob;Password=hunter2;Encrypt=yes", "hunter2"),
        ("password: swordfish\nuser: bob", "swordfish"),
        ("my API key: Zx81qwTT", "Zx81qwTT"),
        ("export DB_PASSWORD=hunter2 && run", "hunter2"),
        ("--api-key=Zx81qwTT --verbose", "Zx81qwTT"),
        ('{"pin": 1, "password": 12345678}', "12345678"),
        ("Client(api_key='Zx81', retries=3)", "Zx81"),
        ('password="with \\"quotes\\" inside"', "inside"),
        ("secret => 'Zx81qw'", "Zx81qw"),
        (r"{\"token\": \"Zx81qw\"}", "Zx81qw"),
        ("[default]\npassword = swordfish\n", "swordfish"),
        ("curl -u bob:hunter2 https://x", "hunter2"),
        ("curl -sS --user 'bob:hunter2' https://x", "hunter2"),
        ("mysql --password hunter2x -h db", "hunter2x"),
        ("tool --api-key 'Zx81 qwTT' run", "Zx81 qwTT"),
        ("JSESSIONID=0000Zx81qw; Path=/", "0000Zx81qw"),
        ("postgresql%3A%2F%2Fbob%3Ahunter2%40db%2Fprod", "hunter2"),
        ("next=postgresql%3A//bob%3Ahunter2%40db/prod", "hunter2"),
        ("postgresql%253A%252F%252Fbob%253Ahunter2%2540db", "hunter2"),
        (f"https://{HEX}@o1.ingest.example.com/12", HEX),
        (f"https://api.telegram.org/bot123456:AAF{BODY}/send", BODY),
        (f"bot token 123456789:AAF{BODY}{BODY[:12]}", BODY),
        (f"https://discord.com/api/webhooks/123456789012345678/{LONG}", LONG),
        ("MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs", "ZnCjm1XVW7vRze4b7Cq4se7kKWs"),
        (f"https://x.example.com/c?sv=2020&sig={LONG}%3D", LONG),
        (f"https://s3.example.com/k?X-Amz-Signature={HEX}{HEX}", HEX),
        (f"AccountName=a;AccountKey={LONG}==;EndpointSuffix=x", LONG),
        (f"key{SHAPES['openai project']}", LONG),
        (json.dumps({"type": "service_account", "private_key": PEM}), BODY),
    ],
)
def test_a_secret_is_known_by_what_stands_around_it(redactor: Redactor, text: str, secret: str) -> None:
    """URL passwords, authorization schemes and assignments in text are found (B43, B44)."""
    redacted(redactor, text, secret)
    redacted(redactor, {"$exception": "shop:Failed", "args": [text], "message": text}, secret)


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (["mysql", "--password", "hunter2", "-h", "db"], ["mysql", "--password", "-h", "db"]),
        (["curl", "-u", "bob:hunter2", "https://x"], ["curl", "-u", "https://x"]),
        (["--api-key", "hunter2"], ["--api-key"]),
    ],
)
def test_the_value_behind_an_option_is_a_secret(
    redactor: Redactor, command: list[str], kept: list[str]
) -> None:
    """A command line as a list of arguments hides what one in a text hides (B43)."""
    result = redacted(redactor, {"args": command}, "hunter2")
    assert [part for part in result["args"] if "[redacted-" not in part] == kept
    plain = {"args": ["docker", "run", "-u", "1000:1000", "--token-type", "bearer", "--token", "--verbose"]}
    assert redactor.redact(plain) is plain


@pytest.mark.parametrize(
    "text",
    [
        "550e8400-e29b-41d4-a716-446655440000",
        "task-550e8400-e29b-41d4-a716-446655440000",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "order A-17 of customer 4711, SKU-000123-XL",
        "https://shop.example.com:8443/orders?id=A-17&key=value#top",
        "http://localhost:8080/path?email=a@b.com",
        "mailto:maria@example.com or ssh://git@github.com/x/y.git",
        "The key to success is a token of appreciation: keep the secret recipe. Auth is hard.",
        "secret: never give up",
        "Bearer tokens are sent as Basic authentication was before.",
        "basic information, basic training",
        "api_key: str | None = None",
        "token = Keyword.Type",
        "if password == other: raise",
        "client = Client(api_key=api_key, token=get_token())",
        "api_key=os.environ['OPENAI_API_KEY']",
        "password: ${DB_PASSWORD}",
        "postgres://{user}:{password}@{host}/db",
        "api_key=<your key here> token=None password=null",
        "max_tokens=512, token_count=9, keyboard=qwertz12",
        "risk-averse-mask-based-desk-job-2024-planning-01",
        "AKIA is short for an access key id; Asia is a continent",
        "eyJ is how a JSON web token begins",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "hf_short ghp_short xoxb- sk-short",
        "PATH=/usr/local/bin:/usr/bin HOME=/home/customer PWD=/home/customer/project",
        "100000000 and emacs-nox and https://auth.example.com/token and abc123",
        '{"usage": {"prompt_tokens": 12, "completion_tokens": 7}, "next_page_token": "CAUQAA17"}',
        "sk-learn-contributions-of-the-community",
        "docker run -u 1000:1000 image, then sign-up for it",
        "Use --token to pass a token, and --password to be asked for one.",
        "SKU-000123, SK0123 and ACME-8Q~1; see https://example.com/robots.txt",
        "https://git-user@example.com/repo and https://my-long-user-name-here@example.com",
        "http%3A%2F%2Fexample.com%3A8080%2Fpath%3Fa%3Db%40c",
        "MTA and NDA in ODEs. MTk4NjIyNDgzNDcxOTI1MjQ4 is no token",
        "at 12:30:AA-13, /bot/status, sig=none, --keyboard qwertz12",
    ],
)
def test_what_is_no_secret_stays(redactor: Redactor, text: str) -> None:
    """Ids, hashes, plain URLs, code and prose about keys are left as they are."""
    for plain in (text, {"text": text}, {text: 1}, {"$bytes": b64(text.encode())}):
        assert redactor.redact(plain) is plain


@pytest.mark.parametrize(
    "place",
    [
        lambda text: text,
        lambda text: f"failed with [{text}] today",
        lambda text: {f"k {text} k": 1},
        lambda text: {"$exception": "shop:Failed", "args": [f"<{text}>"], "message": f"<{text}>"},
        lambda text: json.dumps({"deep": text}),
        lambda text: {"$bytes": b64(text.encode())},
        lambda text: {"$bytearray": b64(b"\xff" + text.encode() + b"\xff")},
    ],
)
def test_a_secret_of_the_environment_is_known_in_every_form(redactor: Redactor, place: Any) -> None:
    """Values of secret variables are found URL-encoded, escaped, in base64 and in bytes (B43)."""
    for form in FORMS.values():
        result = redacted(redactor, place(form), form[4:-4])
        assert b"w0rd" not in canonical(result)
    assert redactor.found["DB_PASSWORD"] == "environment"


@pytest.mark.parametrize(
    "before", [b"", b"\xff\xfe", "ab".encode("utf-16-le"), "ab".encode("utf-16-be"), b"\x01"]
)
@pytest.mark.parametrize("order", ["le", "be"])
def test_a_secret_of_the_environment_is_known_in_utf_16(
    redactor: Redactor, before: bytes, order: str
) -> None:
    """Bytes from a system with wide characters show no secret, in either order; the rest stays (B43)."""
    wide = DB_PASSWORD.encode(f"utf-16-{order}")
    result = redacted(redactor, {"$bytes": b64(before + wide + b"\0;\0")})
    content = base64.b64decode(result["$bytes"])
    assert wide[1:-1] not in content
    assert content.startswith(before)
    assert content.endswith(b";\0")


@pytest.mark.parametrize("digits", [DB_PASSWORD.encode().hex(), DB_PASSWORD.encode().hex().upper()])
def test_a_secret_of_the_environment_is_known_in_hexadecimal(redactor: Redactor, digits: str) -> None:
    """A dump in hexadecimal digits shows no secret either (B43)."""
    redacted(redactor, f"bytes: 00{digits}ff", digits, digits[4:-4])


def test_which_variables_of_the_environment_are_secret() -> None:
    """Secret names count, with 8 characters or more, and passwords in URLs; other values never do."""
    redactor = Redactor(environ=ENVIRON)
    for name in ("OPENAI_API_KEY", "SERVICE_CREDENTIALS"):
        redacted(redactor, f"a {ENVIRON[name]} b", ENVIRON[name])
    redacted(redactor, "a hunter2hunter2 b", "hunter2")
    assert set(redactor.found) == {"OPENAI_API_KEY", "SERVICE_CREDENTIALS", "DATABASE_URL"}
    for name in ("PATH", "HOME", "PWD", "EDITOR", "MAX_TOKENS", "TOKEN_URL", "SHORT_TOKEN"):
        plain = [ENVIRON[name], f"a {ENVIRON[name]} b"]
        assert redactor.redact(plain) is plain


@pytest.mark.parametrize(
    "part",
    [
        *(
            "a",
            "sk-",
            "://",
            "eyJ",
            "-eyJ",
            "token=",
            "key ",
            "passwor",
            "hf_",
            "AKIA",
            "Bearer ",
            "[redacted-",
            "\\",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "c2stcHJvai",
            "://a:",
            "key          ",
            "ghp_",
            "xoxb-",
            "SG.",
            "token\\",
        ),
    ],
)
def test_no_text_makes_the_rules_slow(redactor: Redactor, part: str) -> None:
    """What looks like the start of a secret, a megabyte of it, takes time in proportion to its length."""
    length = 1_000_000 if part in ("a", "sk-", "://") else 200_000
    text = part * (length // len(part))
    data = msgspec.json.encode(text)
    started = time.process_time()
    redactor.scan(data)
    result = redactor.redact(text)
    matches(result, text)
    assert time.process_time() - started < 60


@thoroughly(150)
@given(st.sampled_from([*SHAPES.values(), *FORMS.values()]), TEXTS, TEXTS)
def test_no_secret_gets_through(secret: str, before: str, after: str) -> None:
    """A planted secret is in none of the bytes, whatever stands around it (B43)."""
    assume(secret not in before + after)  # glued to another word it may be part of that
    redactor = Redactor(environ=ENVIRON)
    text = f"{before} {secret} {after}"
    in_bytes = redactor.redact({"$bytes": b64(text.encode())})
    shown = [
        canonical(redactor.redact([{text: text}, json.dumps(text)])),
        base64.b64decode(in_bytes["$bytes"]),
    ]
    for part in shown:
        assert secret.encode() not in part
        assert json.dumps(secret, ensure_ascii=False)[1:-1].encode() not in part
