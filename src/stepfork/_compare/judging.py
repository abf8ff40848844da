"""Two values opened, part by part, until what is left can be judged: the same, drift, or different."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from stepfork._compare.held_json import held_json
from stepfork._compare.multiset import alike, leftovers
from stepfork._compare.rules import Located, Rules, describe, is_retyped
from stepfork._plain import SET_TAGS, canonical, elements, is_container, kind, number, tag
from stepfork._redact.match import has_redaction, matches
from stepfork.errors import OptionError
from stepfork.tolerance import Approx, Unordered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepfork._calls import Plain
    from stepfork._compare.locate import Path

_CHECK_EVERY: Final = 256


class Difference(NamedTuple):
    """One place where the values differ.

    ``path`` leads through the Plain form: of the recorded value, or of the new one for ``added``.
    """

    path: Path
    kind: Literal["changed", "added", "removed", "retyped"]
    old: Plain
    new: Plain


class Comparison(NamedTuple):
    """All that is not equal byte for byte: outside tolerance, and inside it (``drift``)."""

    differences: list[Difference]
    drift: list[Difference]
    rules_used: dict[str, str]
    """``{key: rule}`` of the rules that judged a value."""
    truncated: bool
    """Not everything was compared: there may be more differences, or one where none is listed."""

    @property
    def same(self) -> bool:
        """Whether the values were compared in full and no difference is outside tolerance."""
        return not self.differences and not self.truncated


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING: Final = _Missing()


class Pair(NamedTuple):
    """Two values that stand for each other, and where; either may be missing."""

    path: Path
    new_path: Path
    old: Plain
    new: Plain


Pairing: TypeAlias = "Callable[[Search, Pair], Iterable[Pair]]"


class OutOfTimeError(Exception):
    """The time budget is used up."""


class Clock:
    """The time budget, looked at only now and then."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._ticks = 0

    def tick(self, every: int = _CHECK_EVERY) -> None:
        """Count one piece of work.

        Raises:
            OutOfTimeError: the budget is used up.
        """
        self._ticks += 1
        if self._ticks % every == 0 and time.monotonic() > self._deadline:
            raise OutOfTimeError


class Search:
    """One comparison under way: pairs are opened until what is left can be judged."""

    def __init__(self, places: dict[Path, Located], rules: Rules | None, clock: Clock) -> None:
        self.clock = clock
        self.differences: list[Difference] = []
        self.drift: list[Difference] = []
        self._places = places
        self._rules = rules
        self._used: dict[str, str] = {}

    def run(self, root: Pair, pairing: Pairing, *, limit: int = 0) -> bool:
        """Compare from ``root`` on; False if it stopped at ``limit`` differences."""
        work: list[Iterator[Pair]] = [iter((root,))]
        while work:
            pair = next(work[-1], None)
            if pair is None:
                work.pop()
            elif pair.old is not pair.new:
                self.clock.tick()
                work.append(iter(self._open(pair, pairing)))
                if limit and len(self.differences) >= limit:
                    return False
        return True

    def result(self, *, truncated: bool) -> Comparison:
        """Return what was found, in the order of the canonical document."""
        self.differences.sort(key=_place)
        self.drift.sort(key=_place)
        return Comparison(self.differences, self.drift, dict(sorted(self._used.items())), truncated)

    def is_whole(self, pair: Pair) -> bool:
        """Whether the pair is judged as it is, without looking for what differs inside."""
        if not (is_container(pair.old) and is_container(pair.new)) or kind(pair.old) != kind(pair.new):
            return True
        located = self._located(pair)
        if located is not None and not isinstance(located.rule, Approx):
            return True
        return tag(pair.old) in SET_TAGS

    def _open(self, pair: Pair, pairing: Pairing) -> Iterable[Pair]:
        if pair.old is MISSING:
            self.differences.append(Difference(pair.new_path, "added", None, pair.new))
        elif pair.new is MISSING:
            self.differences.append(Difference(pair.path, "removed", pair.old, None))
        elif not self.is_whole(pair):
            return pairing(self, pair)
        elif not _identical(pair.old, pair.new):
            self._judge(pair)
        return ()

    def _judge(self, pair: Pair) -> None:
        if not is_container(pair.old) and has_redaction(pair.old) and matches(pair.old, pair.new):
            self._settle(pair, near=True)  # whatever stands there now; the placeholder stays the reference
            return
        located = self._located(pair) or self._inherited(pair)
        same_type = kind(pair.old) == kind(pair.new)
        loose = located is not None and isinstance(located.rule, Unordered)
        if same_type and (loose or (located is None and tag(pair.old) in SET_TAGS)):
            self._judge_unordered(pair, located)
        elif located is not None:
            self._settle(pair, near=self._ask(located, pair.old, pair.new))
        else:
            self._settle(pair, near=self._is_near(pair.old, pair.new))

    def _settle(self, pair: Pair, *, near: bool) -> None:
        changed: Literal["changed", "retyped"] = "changed" if kind(pair.old) == kind(pair.new) else "retyped"
        (self.drift if near else self.differences).append(Difference(pair.path, changed, pair.old, pair.new))

    def _judge_unordered(self, pair: Pair, located: Located | None) -> None:
        if located is not None:
            self._note(located)

        def same(i: int, j: int) -> bool:
            return self._elements_agree(pair, i, j)

        rest = leftovers(pair.old, pair.new, same)
        if rest is None or rest == ([], []):
            self._settle(pair, near=rest is not None)
            return
        (steps, before), (_, after) = _items(pair.old), _items(pair.new)
        for index in rest[0]:
            self.differences.append(Difference((*pair.path, *steps, index), "removed", before[index], None))
        for index in rest[1]:
            self.differences.append(Difference((*pair.new_path, *steps, index), "added", None, after[index]))

    def _elements_agree(self, pair: Pair, i: int, j: int) -> bool:
        (steps, before), (_, after) = _items(pair.old), _items(pair.new)
        paths = (*pair.path, *steps, i), (*pair.new_path, *steps, j)
        inner = Search(self._places, self._rules, self.clock)
        inner.run(Pair(*paths, before[i], after[j]), walk_pairs, limit=1)
        self._used |= inner._used
        return not inner.differences

    def _is_near(self, old: Plain, new: Plain) -> bool:
        if is_container(old) or is_container(new):
            return False
        texts = isinstance(old, str) and isinstance(new, str)
        return self._is_same_json(old, new) if texts else alike(old, new)

    def _is_same_json(self, old: str, new: str) -> bool:
        before, after = held_json(old), held_json(new)
        if before is None or after is None:
            return False
        rules = self._rules.inside() if self._rules else None
        inner = Search(rules.places(before, after) if rules else {}, rules, self.clock)
        inner.run(Pair((), (), before, after), walk_pairs, limit=1)
        self._used |= inner._used
        return not inner.differences

    def _ask(self, located: Located, old: Plain, new: Plain) -> bool:
        rule = located.rule
        self._note(located)
        if is_retyped(old, new) and not getattr(rule, "judges_type", False):
            return False
        try:
            return bool(rule(old, new))
        except (OptionError, OutOfTimeError):
            raise
        except RecursionError:  # too deep to be judged is not tolerated
            return False
        except Exception as error:
            what = f"the tolerance rule {describe(rule)} for {located.query.pattern!r} raised {error!r}"
            raise OptionError(what) from error

    def _note(self, located: Located) -> None:
        self._used[located.query.pattern] = describe(located.rule)

    def _located(self, pair: Pair) -> Located | None:
        return self._places.get(pair.path) or self._places.get(pair.new_path)

    def _inherited(self, pair: Pair) -> Located | None:
        """Return the approx of the nearest container around a number."""
        if not self._places or (number(pair.old) is None and tag(pair.old) != "$complex"):
            return None
        for length in range(len(pair.path) - 1, -1, -1):
            located = self._places.get(pair.path[:length])
            if located is not None:
                return located if isinstance(located.rule, Approx) else None
        return None


def _items(plain: Plain) -> tuple[tuple[str, ...], list[Plain]]:
    found = elements(plain)
    assert found is not None
    return found


def _identical(old: Plain, new: Plain) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, list | dict):
        return sizes_of(old, new) == (0, 0)
    return bool(old == new) and (not isinstance(old, float) or repr(old) == repr(new))  # 0.0 is not -0.0


def members(plain: Plain) -> dict[str | int, tuple[Path, Plain]]:
    """Return the direct contents of a container: name, steps to it, value."""
    if isinstance(plain, list):
        return {index: ((index,), value) for index, value in enumerate(plain)}
    if tag(plain) == "$dict":
        pairs = enumerate(plain["$dict"])
        return {_key_name(key): (("$dict", index, 1), value) for index, (key, value) in pairs}
    return {key: ((key,), value) for key, value in plain.items()}


def _key_name(key: Plain) -> str:
    # A string key is named as in a dict that has no others, so that the two can be compared.
    if isinstance(key, str):
        return f"${key}" if key.startswith("$") else key
    return f"\0{canonical(key).decode()}"


def children(pair: Pair) -> Iterator[tuple[str | int, Pair]]:
    """Yield name and pair of what is directly inside two containers, also where one side has nothing."""
    before, after = members(pair.old), members(pair.new)
    absent: tuple[Path, Plain] = (), MISSING
    for name in before | after:
        (steps, old), (new_steps, new) = before.get(name, absent), after.get(name, absent)
        yield name, Pair((*pair.path, *steps), (*pair.new_path, *new_steps), old, new)


def walk_pairs(search: Search, pair: Pair) -> Iterator[Pair]:
    """Pair what has the same key or position."""
    return (child for _, child in children(pair))


def _place(difference: Difference) -> list[tuple[bool, int, str]]:
    return [(True, 0, step) if isinstance(step, str) else (False, step, "") for step in difference.path]


def sizes_of(old: Plain, new: Plain) -> tuple[int, int]:
    """Return the sizes in bytes; zeros where the values are equal, negative ones where they are too deep."""
    try:
        left, right = canonical(old), canonical(new)
    except RecursionError:
        return -1, -1
    return (0, 0) if left == right else (len(left), len(right))
