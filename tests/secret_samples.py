"""Made-up secrets, and what has to hold wherever one of them was redacted."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
from hypothesis import strategies as st

from stepfork._plain import canonical
from stepfork._redact import Redactor, has_redaction, matches

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
    "sendgrid": "SG." + BODY + "." + LONG,
    "digitalocean": "dop_v1_" + HEX,
    "databricks": "dapi" + HEX,
    "shopify": "shpat_" + HEX,
    "vault": "hvs." + LONG,
    "jwt": JWT,
}
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


def b64(data: bytes) -> str:
    """Encode in base64."""
    return base64.b64encode(data).decode()


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
