"""The rules of one set of settings and one environment, compiled once and shared by every run."""

from __future__ import annotations

import re
from functools import cached_property
from hashlib import blake2b
from operator import itemgetter
from os import urandom
from typing import TYPE_CHECKING, Final, TypeAlias

from stepfork._redact.environ import environment_rules, secrets_in
from stepfork._redact.in_use import in_use
from stepfork._redact.match import BYTES_IN_JSON, BYTES_STARTS, raw, unzipped
from stepfork._redact.names import Names
from stepfork._redact.parameters import parameter_probe, parameter_rules, parameter_rules_so_far
from stepfork._redact.search import OVERLAPPING, search_for
from stepfork._redact.secrets import Rule, Span, shape_rules
from stepfork._redact.unfinished import unfinished_rules
from stepfork.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepfork._redact.search import Search
    from stepfork._redact.secrets import Find

__all__ = ["Rules", "rules_of"]

_Table: TypeAlias = "dict[bytes, list[Find]]"


class Rules:
    """What does not change from run to run; it holds nothing that was found.

    ``secrets``: a secret -> the variables that hold it.
    """

    def __init__(self, secrets: Mapping[str, str], keys: tuple[str, ...], patterns: tuple[str, ...]) -> None:
        self.names = Names(keys)
        self.patterns = [_compiled(pattern) for pattern in patterns]
        self._environment = environment_rules(secrets)
        rules = [*shape_rules(), *self._environment, *parameter_rules(self.names.secret)]
        table = _indexed([*rules, *self.names.rules()])
        probes = [*self.names.probe_rules(), parameter_probe(), Rule(BYTES_STARTS, self._probe_bytes)]
        probed = _indexed([*rules, *probes])
        self._finds = [tuple(table.get(trigger, ())) for trigger in probed]
        self._probes = [tuple(finds) for finds in probed.values()]
        self._search = search_for(probed)

    def may_hold(self, data: bytes) -> bool:
        """Whether these JSON bytes may hold a secret; False is final."""
        probes = self._probes
        for index, start, end in self._search(data, OVERLAPPING):
            for probe in probes[index]:
                if probe(data, start, end) is not None:
                    return True
        return in_use.are_in(data)

    def spans(self, data: bytes) -> list[Span]:
        """Find the secrets in a text or in binary data; they may overlap."""
        return [*_found(data, self._search, self._finds), *in_use.spans(data)]

    def spans_so_far(self, data: bytes) -> list[Span]:
        """Find the secrets in what there is of a text, and what may be the beginning of one at its end."""
        return [*_found(data, *self._so_far), *in_use.spans_so_far(data)]

    @cached_property
    def _so_far(self) -> tuple[Search, list[tuple[Find, ...]]]:
        secret = self.names.secret
        whole = [*shape_rules(), *self._environment, *parameter_rules(secret), *self.names.rules_so_far()]
        table = _indexed([*whole, *parameter_rules_so_far(secret), *unfinished_rules(self._environment)])
        return search_for(table), [tuple(finds) for finds in table.values()]

    def _probe_bytes(self, data: bytes, start: int, end: int) -> Span | None:
        found = BYTES_IN_JSON.match(data, start)
        return Span(start, end, "bytes") if found and self._holds(raw(found[1])) else None

    def _holds(self, data: bytes) -> bool:
        inside = unzipped(data)
        return bool(self.spans(data)) if inside is None else self._holds(inside)


def _found(data: bytes, search: Search, finds: list[tuple[Find, ...]]) -> list[Span]:
    spans: list[Span] = []
    met = search(data, OVERLAPPING)
    if not met:
        return spans
    first = last = 0
    for index, start, end in sorted(met, key=itemgetter(1)):
        if first < start and end <= last:  # inside what is hidden already
            continue
        for find in finds[index]:
            span = find(data, start, end)
            if span is not None:
                spans.append(span)
                if span.end > last:
                    first, last = span.start, span.end
    return spans


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        what = f"the pattern {pattern!r} is no regular expression: {error}"
        raise OptionError(what, pattern=pattern) from None


def _indexed(rules: Iterable[Rule]) -> _Table:
    """Return the rules by trigger."""
    table: _Table = {}
    for rule in rules:
        for trigger in rule.triggers:
            table.setdefault(trigger, []).append(rule.find)
    return table


_MOST_KEPT: Final = 8
_SALT: Final = urandom(16)
_by_environment: dict[object, Rules] = {}
_by_secrets: dict[object, Rules] = {}


def rules_of(environ: Mapping[str, str], keys: Iterable[str], patterns: Iterable[str]) -> Rules:
    """Return the rules for these settings and what the environment holds at this moment.

    Raises :class:`OptionError` for a pattern that does not compile.
    """
    settings = (tuple(keys), tuple(patterns))
    key = (_fingerprint(environ), settings)
    rules = _by_environment.get(key)
    if rules is None:
        rules = _keep(_by_environment, key, _rules_for(secrets_in(environ), settings))
    return rules


def _rules_for(secrets: dict[str, str], settings: tuple[tuple[str, ...], tuple[str, ...]]) -> Rules:
    # A variable that holds no secret may change at each run: that compiles nothing.
    text = repr(sorted(secrets.items())).encode("utf-8", "surrogatepass")
    key = (blake2b(text, digest_size=16, key=_SALT).digest(), settings)
    return _by_secrets.get(key) or _keep(_by_secrets, key, Rules(secrets, *settings))


def _fingerprint(environ: Mapping[str, str]) -> int:
    """Return what tells two environments apart, and cannot be turned back into one."""
    # The bytes under os.environ: their hashes are known, while each look at the mapping decodes anew.
    return hash(frozenset(getattr(environ, "_data", environ).items()))


def _keep(cache: dict[object, Rules], key: object, rules: Rules) -> Rules:
    while len(cache) >= _MOST_KEPT:  # the oldest; another thread may have been here first
        cache.pop(next(iter(list(cache))), None)
    cache[key] = rules
    return rules
