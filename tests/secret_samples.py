"""Made-up secrets, and what has to hold wherever one of them was redacted."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import msgspec
from hypothesis import strategies as st

from stepfork._plain import canonical
from stepfork._redact import Redactor, has_redaction, matches
from stepfork._redact.table import prefix_of

# Put together here, so that no scanner of repositories takes them for real ones.
BODY = "Qm7xV2pLk9RtZ4wN8sYb"
LONG = BODY + "c3FhJ6uD1eGo5TzXaKiPq"
HEX = "0f3a9c71be5d2486" * 2
JWT = ".".join(("eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0In0", "dBjftJeZ4CVPmB92K27uhbUJU1p1r"))
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join([LONG + BODY] * 3) + "\n-----END RSA PRIVATE KEY-----"
AWS_ID = "AKIA" + "QZ7TPLM4XW2VNB6R"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "Zq8Lm3Tn5V"

SHAPES = {
    "openai": "sk-" + LONG,
    "openai project": "sk-proj-" + LONG,
    "openai service": "sk-svcacct-" + BODY,
    "anthropic": "sk-ant-" + "api03-" + LONG,
    "openrouter": "sk-or-v1-" + HEX,
    "github": "ghp_" + LONG,
    "github server": "ghs_" + LONG,
    "github fine-grained": "github_pat_" + LONG,
    "gitlab": "glpat-" + BODY,
    "slack bot": "xoxb-" + "123456789012-" + BODY,
    "slack app": "xapp-" + "1-A012-" + BODY,
    "slack webhook": "hooks.slack.com/services/" + "T01ABC/B02DEF/" + BODY,
    "google": "AIza" + LONG,
    "google oauth": "ya29." + LONG,
    "aws id": AWS_ID,
    "stripe": "sk_live_" + LONG,
    "stripe restricted": "rk_test_" + LONG,
    "stripe webhook": "whsec_" + LONG,
    "hugging face": "hf_" + LONG,
    "groq": "gsk_" + LONG,
    "xai": "xai-" + LONG,
    "replicate": "r8_" + LONG,
    "langsmith": "lsv2_pt_" + HEX,
    "tavily": "tvly-dev-" + BODY,
    "nvidia": "nvapi-" + LONG,
    "npm": "npm_" + LONG,
    "pypi": "pypi-" + "AgE" + LONG,
    "sendgrid": "SG." + BODY[::-1] + "." + LONG,
    "digitalocean": "dop_v1_" + HEX,
    "databricks": "dapi" + HEX,
    "shopify": "shpat_" + HEX,
    "vault": "hvs." + LONG,
    "jwt": JWT,
}


def b64(data: bytes) -> str:
    """Encode in base64."""
    return base64.b64encode(data).decode()


ENVIRON = {
    "OPENAI_API_KEY": "plain-old-value-77",
    "DB_PASSWORD": 'p@ss/w0rd "ü"\nx',
    "SERVICE_CREDENTIALS": "correct horse battery staple",
    "DATABASE_URL": "postgres://bob:hunter2hunter2@db/prod",
    "PATH": "/usr/local/bin:/usr/bin",
    "HOME": "/home/customer",
    "PWD": "/home/customer/project",
    "EDITOR": "emacs-nox",
    "MAX_TOKENS": "100000000",
    "TOKEN_URL": "https://auth.example.com/token",
    "SHORT_TOKEN": "abc123",
}
DB_PASSWORD = ENVIRON["DB_PASSWORD"]


SECRET_NAMES = [
    *(
        "api_key",
        "apiKey",
        "APIKEY",
        "api-key",
        "x-api-key",
        "X-Api-Key",
        "OPENAI_API_KEY",
        "OPENAI_KEY",
        "openaiApiKey",
    ),
    *(
        "authorization",
        "Authorization",
        "Proxy-Authorization",
        "password",
        "Password",
        "db_password",
        "userPassword",
    ),
    *(
        "passwd",
        "password_hash",
        "password2",
        "token",
        "access_token",
        "refreshToken",
        "id_token",
        "githubToken",
    ),
    *(
        "secret",
        "client_secret",
        "clientSecret",
        "SECRET_KEY",
        "aws_secret_access_key",
        "private_key",
        "passphrase",
    ),
    *(
        "cookie",
        "Set-Cookie",
        "cookies",
        "credentials",
        "auth",
        "jwt",
        "X-Auth-Token",
        "bearer",
        "user[password]",
    ),
]
HARMLESS_NAMES = [
    *(
        "max_tokens",
        "maxTokens",
        "token_count",
        "tokens",
        "prompt_tokens",
        "total_tokens",
        "tokenizer",
        "keyboard",
    ),
    *(
        "key",
        "keys",
        "keyword",
        "monkey",
        "primary_key",
        "cache_key",
        "sort_key",
        "public_key",
        "idempotency_key",
    ),
    *(
        "next_page_token",
        "eos_token",
        "author",
        "authors",
        "authority",
        "author_name",
        "secretary",
        "password_policy",
    ),
    *(
        "cookie_banner",
        "auth_type",
        "token_type",
        "passed",
        "compass",
        "order_id",
        "session_count",
        "keyPath",
    ),
]


FORMS = {
    "raw": DB_PASSWORD,
    "url": quote(DB_PASSWORD, safe=""),
    "url, lower case": quote(DB_PASSWORD, safe="").lower(),
    "form": quote_plus(DB_PASSWORD),
    "json": json.dumps(DB_PASSWORD)[1:-1],
    "json, not ascii": json.dumps(DB_PASSWORD, ensure_ascii=False)[1:-1],
    "json in json": json.dumps(json.dumps(DB_PASSWORD))[1:-1],
    "python": repr(DB_PASSWORD)[1:-1],
    "base64": b64(DB_PASSWORD.encode()),
    "base64 of more": b64(b"bob:" + DB_PASSWORD.encode() + b"!"),
    "base64url": base64.urlsafe_b64encode(b"\xff\xfe" + DB_PASSWORD.encode()).decode(),
}


def redacted(redactor: Redactor, plain: Any, *secrets: str | bytes) -> Any:
    """Redact, and check what has to hold of every redaction."""
    assert redactor.scan(msgspec.json.encode(plain))
    result = redactor.redact(plain)
    shown = canonical(result)
    for secret in secrets:
        assert (secret if isinstance(secret, bytes) else secret.encode()) not in shown
    assert redactor.redact(result) is result
    assert matches(result, plain)
    assert has_redaction(result)
    return result


PIECES = st.sampled_from(
    [
        *SHAPES.values(),
        *FORMS.values(),
        *(
            "password=",
            "token: ",
            '"secret": ',
            "://u:",
            "@host",
            "Bearer ",
            "Basic ",
            "api_key",
            "=",
            ": ",
            '"',
            "'",
            "\\",
        ),
        *(
            "\n",
            "\t",
            " ",
            ",",
            "&",
            "-",
            "_",
            ".",
            "*",
            "[",
            "]",
            "[redacted-1]",
            "sk-[redacted-2]***",
            "ü",
            "\U0001f600",
        ),
        *(
            "hunter2",
            "0a1b",
            "word",
            "null",
            "None",
            "-----BEGIN PRIVATE KEY-----",
            "%20",
            "{",
            "}",
            "\x1b[32m",
            "\x00",
        ),
    ]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=20)


class Planted(NamedTuple):
    """One secret: ``text`` holds it as an agent would, ``secret`` is the part that nobody may see."""

    kind: str
    text: str
    secret: str
    variable: str = ""
    """The variable of the environment that the agent has it from; empty if it is known by its looks."""


def _by_shape() -> Iterator[Planted]:
    for kind, text in SHAPES.items():
        yield Planted(kind, text, text.removeprefix(prefix_of(text)))


VARIABLES = {
    "OPENAI_API_KEY": "plain-old-value-of-77",
    "DB_PASSWORD": 'p@ss/w0rd "ü"\\x & more',
    "SESSION_SECRET": "correct horse battery staple",
    "DATABASE_URL": "postgres://bob:hunter2hunter2@db/prod",
    "MAIL_TOKEN": "0123456789abcdef" * 2,
    "VENDOR_CREDENTIALS": "Zk9/+8==QpWm1",
}
PLANTED = [
    *_by_shape(),
    *(
        Planted("environment", value, value.removeprefix("postgres://bob:").removesuffix("@db/prod"), name)
        for name, value in VARIABLES.items()
    ),
    Planted("private key", PEM, PEM.split("\n")[1]),
    Planted("AWS pair", f"{AWS_ID}:{AWS_SECRET}", AWS_SECRET),
    Planted("URL password", "redis://:Zx81qwTT@cache/0", "Zx81qwTT"),
    Planted("quoted URL", "postgresql%3A%2F%2Fbob%3AZx82qwTT%40db%2Fprod", "Zx82qwTT"),
    Planted("Sentry DSN", f"https://{HEX}@o1.ingest.example.com/12", HEX),
    Planted("bearer", "Authorization: Bearer ab.DEF-123_x~y", "ab.DEF-123_x~y"),
    Planted("basic", f"Basic {b64(b'bob:Zx83qwTT')}", b64(b"bob:Zx83qwTT")),
    Planted("cookie", "Cookie: theme=dark; sid=Zx84qwTT", "Zx84qwTT"),
    Planted("assignment", "export PGPASSWORD=Zx85qwTT; psql", "Zx85qwTT"),
    Planted("option", "mysql --password Zx86qwTT -h db", "Zx86qwTT"),
    Planted("curl", "curl -u bob:Zx87qwTT https://x", "Zx87qwTT"),
    Planted("Telegram", f"https://api.example.com/bot123456:AAF{BODY}/send", f"AAF{BODY}"),
    Planted(
        "Discord",
        "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
        "ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    ),
    Planted("Discord webhook", f"https://discord.com/api/webhooks/123456789012345678/{LONG}", LONG),
    Planted("Azure", f"abc8Q~{LONG[:34]}", LONG[:34]),
    Planted("Azure SAS", f"https://x.example.com/c?sv=2&sig={LONG}%3D", LONG),
    Planted("Twilio", f"SK{HEX}", HEX),
    Planted("URL key", f"https://x.example.com/v1?alt=sse&key={BODY}&n=1", BODY),
    Planted("URL code", f"https://x.example.com/back?code=4/0A{LONG}", LONG),
    Planted("UUID as a key", "GET /tiles?key=9d3f1a7c-52e8-4b06-8f1d-c07a3be94412", "c07a3be94412"),
    Planted("URL password parameter", "https://x.example.com/?user=bob&pass=Zx89qwTT.a", "Zx89qwTT.a"),
    Planted("quoted URL key", f"next=https%3A%2F%2Fx%2Fv1%3Fkey%3D{BODY}%26n%3D1", BODY),
    Planted(
        "quoted URL token", "next=https%3A%2F%2Fx%2Fv1%3Faccess_token%3DZx90qwTT.a%26n%3D1", "Zx90qwTT.a"
    ),
    Planted("JSON", '{"api_key": "Zx88qwTT", "n": 1}', "Zx88qwTT"),
]
