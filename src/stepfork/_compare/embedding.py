"""Texts to vectors, with whichever embedding package is installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from operator import mul
from typing import Any, TypeAlias

from stepfork.errors import OptionError

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
"""Texts to their vectors, one for each."""


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors; 0 if one has no length."""
    lengths = math.hypot(*first) * math.hypot(*second)
    return sum(map(mul, first, second)) / lengths if lengths else 0.0


@lru_cache(maxsize=1)
def installed_embedding() -> Embed:
    """Return the embedding of the first package that is there, loaded once.

    Raises:
        OptionError: there is none.
    """
    for package, model_of in (("fastembed", _fastembed), ("sentence_transformers", _sentence_transformers)):
        if find_spec(package) is not None:
            return model_of(import_module(package))
    raise OptionError(
        "semantic() has nothing to embed texts with",
        ways_on=["install fastembed or sentence-transformers", "give your own: semantic(0.9, embed=...)"],
    )


def _fastembed(package: Any) -> Embed:
    model = package.TextEmbedding()
    return lambda texts: list(model.embed(texts))


def _sentence_transformers(package: Any) -> Embed:
    model = package.SentenceTransformer("all-MiniLM-L6-v2")
    return lambda texts: list(model.encode(texts))
