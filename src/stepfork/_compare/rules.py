"""A compiled tolerance: which rule applies where, and how a rule is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from stepfork._calls import Plain
from stepfork._compare.locate import Path, Query, View
from stepfork._plain import kind
from stepfork.errors import OptionError

Rule: TypeAlias = Callable[[Plain, Plain], bool]
"""``(recorded, now) -> whether the difference is tolerated``."""


def describe(rule: Rule) -> str:
    """Return one stable line for any rule: ``approx(rel=0.01)``, or the callable's ``module:qualname``."""
    own = getattr(rule, "describe", None)
    if callable(own):
        return str(own())
    named = rule if hasattr(rule, "__qualname__") else type(rule)
    return f"{named.__module__}:{named.__qualname__}"


def is_retyped(old: Plain, new: Plain) -> bool:
    """Whether the type differs in a way that no rule hides, unless it judges types itself."""
    kinds = {kind(old), kind(new)}
    return len(kinds) > 1 and not kinds <= {"int", "float"}


def check_rule(pattern: object, rule: object) -> None:
    """Raise OptionError where a key is no text or its rule nothing that can be asked."""
    if not isinstance(pattern, str):
        raise OptionError(f"tolerance key {pattern!r} is not a text")
    if not callable(rule):
        raise OptionError(
            f"tolerance for {pattern!r} is {rule!r}: neither a rule nor a callable(old, new)",
            ways_on=["a rule of stepfork.tolerance, such as approx(rel=0.01)"],
        )


class Located:
    """A rule with the key it was given under, and whether that ever matched."""

    __slots__ = ("matched", "query", "rule")

    def __init__(self, pattern: str, rule: Rule) -> None:
        check_rule(pattern, rule)
        self.query = Query(pattern)
        self.rule = rule
        self.matched = False


class Rules:
    """A compiled tolerance, ``{path: rule}``. Where several apply to one place the last wins.

    Raises:
        OptionError: a key is no JSONPath, or a value no rule; names the key.
    """

    __slots__ = ("_rules",)

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = tuple(Located(pattern, rule) for pattern, rule in rules.items())

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __or__(self, nearer: Rules) -> Rules:
        """Return both together; where they meet, ``nearer`` wins."""
        own = {located.query.pattern for located in nearer._rules}
        return _made([rule for rule in self._rules if rule.query.pattern not in own] + list(nearer._rules))

    def locate(self, old: Plain, new: Plain) -> dict[Path, Rule]:
        """Return the rule for each place in the one value or the other."""
        return {path: located.rule for path, located in self.places(old, new).items()}

    def places(self, *values: Plain) -> dict[Path, Located]:
        """Return, for each place in any of the values, its rule together with the key it came from."""
        views = [View(value) for value in values]
        found: dict[Path, Located] = {}
        for located in self._rules:
            paths = [path for view in views for path in located.query.locate(view)]
            located.matched = located.matched or bool(paths)
            found.update(dict.fromkeys(paths, located))
        return found

    def texts(self, *values: Plain) -> dict[str, str]:
        """Return ``{key: rule}``, as text, of the rules that have a place in the values."""
        used = {located.query.pattern: located for located in self.places(*values).values()}
        return {pattern: describe(used[pattern].rule) for pattern in sorted(used)}

    def inside(self) -> Rules:
        """Return the rules that also hold inside a part of the value: those for a name at any depth."""
        return _made(rule for rule in self._rules if rule.query.is_relative)

    @property
    def patterns(self) -> list[str]:
        """The keys, in the order in which they apply."""
        return [located.query.pattern for located in self._rules]

    def unused(self) -> list[str]:
        """Return the keys that never matched anything, here or in what this was merged into."""
        return [located.query.pattern for located in self._rules if not located.matched]


def _made(located: Iterable[Located]) -> Rules:
    rules = Rules({})
    rules._rules = tuple(located)
    return rules
