"""The shapes of providers' keys: data only.

A prefix is public, and a placeholder keeps it. A longer prefix stands before a shorter that it begins with.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["SHAPES", "Shape", "prefix_of"]


class Shape(NamedTuple):
    """``prefix`` and ``body`` are patterns of what stands in the secret; one of ``triggers`` begins it."""

    label: str
    triggers: str
    """Separated by spaces."""
    prefix: str
    body: str
    bounded: bool = False
    """Too short a prefix to be believed in the middle of a word."""


_W = "[A-Za-z0-9_-]"
_A = "[A-Za-z0-9]"
# With one more character: "SK" alone stands in every SKU.
_TWILIO = " ".join(f"SK{digit}" for digit in "0123456789abcdef")
_DISCORD = "discord.com/api/webhooks/ discordapp.com/api/webhooks/"

SHAPES: Final = (
    Shape("anthropic-key", "sk-ant-", r"sk-ant-(?:[a-z]{2,6}[0-9]{2}-)?", _W + "{8,}"),
    Shape("openai-key", "sk-proj- sk-svcacct- sk-admin-", r"sk-(?:proj|svcacct|admin)-", _W + "{8,}"),
    Shape("openrouter-key", "sk-or-v1-", "sk-or-v1-", _W + "{8,}"),
    Shape("sk-key", "sk-", "sk-", r"(?=[A-Za-z_-]{0,40}+[0-9])" + _W + "{16,}", bounded=True),
    Shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", "gh[pousr]_", _A + "{20,}"),
    Shape("github-token", "github_pat_", "github_pat_", "[A-Za-z0-9_]{20,}"),
    Shape("gitlab-token", "glpat-", "glpat-", _W + "{16,}"),
    Shape("slack-token", "xox", "xox[abceoprs](?:-|[.]xox[bp]-)", "[A-Za-z0-9-]{8,}"),
    Shape("slack-token", "xapp-", "xapp-(?:[0-9]-)?", "[A-Za-z0-9-]{8,}"),
    Shape("slack-webhook", "hooks.slack.com/services/", "hooks[.]slack[.]com/services/", "[A-Za-z0-9/]{20,}"),
    Shape("google-key", "AIza", "AIza", _W + "{30,}"),
    Shape("google-token", "ya29.", "ya29[.]", _W + "{20,}"),
    Shape("google-secret", "GOCSPX-", "GOCSPX-", _W + "{16,}"),
    Shape("aws-key-id", "AKIA ASIA", "A(?:KI|SI)A", "[A-Z0-9]{16,}"),
    Shape("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", "[sr]k_(?:live|test)_", _A + "{10,}"),
    Shape("stripe-webhook", "whsec_", "whsec_", "[A-Za-z0-9+/]{16,}=*"),
    Shape("huggingface-token", "hf_", "hf_", _A + "{20,}", bounded=True),
    Shape("groq-key", "gsk_", "gsk_", _A + "{20,}", bounded=True),
    Shape("xai-key", "xai-", "xai-", _A + "{20,}", bounded=True),
    Shape("perplexity-key", "pplx-", "pplx-", _A + "{20,}"),
    Shape("replicate-token", "r8_", "r8_", _A + "{20,}", bounded=True),
    Shape("langsmith-key", "lsv2_", "lsv2_(?:pt|sk)_", "[a-f0-9_]{20,}"),
    Shape("tavily-key", "tvly-", "tvly-(?:dev-|prod-)?", _W + "{16,}"),
    Shape("nvidia-key", "nvapi-", "nvapi-", _W + "{20,}"),
    Shape("npm-token", "npm_", "npm_", _A + "{30,}", bounded=True),
    Shape("pypi-token", "pypi-", "pypi-AgE", _W + "{20,}"),
    Shape("sendgrid-key", "SG.", "SG[.]", _W + "{16,64}[.]" + _W + "{16,}", bounded=True),
    Shape("mailgun-key", "key-", "key-", "[0-9a-f]{32,}", bounded=True),
    Shape("digitalocean-token", "dop_v1_ doo_v1_", "do[op]_v1_", "[a-f0-9]{32,}"),
    Shape("databricks-token", "dapi", "dapi", "[0-9a-f]{32,}", bounded=True),
    Shape("shopify-token", "shpat_ shpss_ shpca_", "shp(?:at|ss|ca)_", "[a-fA-F0-9]{32,}"),
    Shape("vault-token", "hvs.", "hvs[.]", _W + "{20,}", bounded=True),
    Shape("docker-token", "dckr_pat_", "dckr_pat_", _W + "{16,}"),
    Shape("linear-key", "lin_api_", "lin_api_", _A + "{20,}"),
    Shape("notion-token", "ntn_", "ntn_", _A + "{30,}", bounded=True),
    Shape("twilio-key", _TWILIO, "SK", "[0-9a-f]{32}(?![0-9A-Za-z])", bounded=True),
    Shape("discord-webhook", _DISCORD, "discord(?:app)?[.]com/api/webhooks/[0-9]{15,20}/", _W + "{30,}"),
    Shape("supabase-key", "sbp_ sb_secret_", "sb(?:p|_secret)_", "[A-Za-z0-9_]{20,}", bounded=True),
    Shape("grafana-token", "glsa_ glc_", "gl(?:sa|c)_", "[A-Za-z0-9_]{20,}", bounded=True),
    Shape("pinecone-key", "pcsk_", "pcsk_", "[A-Za-z0-9_]{20,}", bounded=True),
    Shape("cerebras-key", "csk-", "csk-", _A + "{20,}", bounded=True),
    Shape("firecrawl-key", "fc-", "fc-", "[0-9a-f]{32,}", bounded=True),
    Shape("atlassian-token", "ATATT3", "ATATT3", "[A-Za-z0-9_=-]{20,}", bounded=True),
    Shape("figma-token", "figd_", "figd_", _W + "{20,}", bounded=True),
    Shape("newrelic-key", "NRAK-", "NRAK-", "[A-Z0-9]{20,}", bounded=True),
    Shape("square-token", "sq0", "sq0[a-z]{3}-", _W + "{20,}", bounded=True),
    Shape("planetscale-password", "pscale_", "pscale_(?:pw|tkn|oauth)_", "[A-Za-z0-9_.-]{20,}", bounded=True),
    Shape("age-key", "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1", "[A-Z0-9]{40,}"),
)

_PREFIX = re.compile("|".join(f"(?:{shape.prefix})" for shape in SHAPES))


def prefix_of(text: str) -> str:
    """Return the public prefix of a provider that ``text`` begins with, or an empty text."""
    found = _PREFIX.match(text)
    return found[0] if found else ""
