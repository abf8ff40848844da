"""What differs between a recorded value and the one seen now. deepdiff finds it; tolerance judges it.

deepdiff is given only what is not equal byte for byte, and every scalar as a token of its canonical
text. So it never sees ``1 == True``, never makes a diff of long text, and never skips a key; what it
reports is looked up again in the values themselves and judged there. Where it would take too long,
or the values are too deep for it, a plain walk finds the first differences instead.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stepfork._compare.judging import (
    MISSING,
    Clock,
    Comparison,
    Difference,
    OutOfTimeError,
    Pair,
    Search,
    children,
    members,
    sizes_of,
    walk_pairs,
)
from stepfork._plain import canonical, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Plain
    from stepfork._compare.locate import Path
    from stepfork._compare.rules import Rules

__all__ = ["MAX_DIFFERENCES", "Comparison", "Difference", "compare"]

MAX_DIFFERENCES: Final = 50
"""How many a plain walk looks for before it gives up."""

_ALIGNED: Final = 100_000
"""Lists whose lengths multiply to more than this are compared position by position."""

_TOKEN_BYTES: Final = 64


def compare(
    old: Plain,
    new: Plain,
    rules: Rules | None = None,
    *,
    budget_seconds: float = 2.0,
    max_bytes: int = 4_000_000,
) -> Comparison:
    """Compare two Plain values.

    Args:
        old: the recorded value.
        new: the value now.
        rules: the tolerance. Without one floats are the same to 1e-9 of the larger, and JSON held in
            a string is compared as JSON; all else is exact.
        budget_seconds: for deepdiff; when it is used up a plain walk has the same time once more.
        max_bytes: of both values together in canonical form; for more, only the plain walk is used.

    Raises:
        OptionError: a rule of the user's own raised an exception.
    """
    sizes = sizes_of(old, new)
    if sizes == (0, 0):
        return Comparison([], [], {}, truncated=False)
    places = rules.places(old, new) if rules else {}
    root = Pair((), (), old, new)
    if 0 < sum(sizes) <= max_bytes:
        search = Search(places, rules, Clock(budget_seconds))
        try:
            search.run(root, _deepdiff_pairs)
        except (OutOfTimeError, RecursionError):
            pass
        else:
            return search.result(truncated=False)
    return _walked(Search(places, rules, Clock(budget_seconds)), root)


def _walked(search: Search, root: Pair) -> Comparison:
    try:
        done = search.run(root, walk_pairs, limit=MAX_DIFFERENCES)
    except (OutOfTimeError, RecursionError):
        done = False
    return search.result(truncated=not done)


def _deepdiff_pairs(search: Search, pair: Pair) -> Iterator[Pair]:
    """Pair what deepdiff reports, at any depth."""
    shape = _Shape(search)
    shaped = shape.of_container(pair)
    if shaped is not None:
        for names, new_names in _deepdiff(*shaped, clock=search.clock, zipped=shape.long_lists):
            path, old = _follow(pair.old, names)
            new_path, new = _follow(pair.new, new_names)
            yield Pair((*pair.path, *path), (*pair.new_path, *new_path), old, new)


_Names: TypeAlias = "list[str | int] | None"


def _deepdiff(left: Any, right: Any, *, clock: Clock, zipped: bool) -> Iterator[tuple[_Names, _Names]]:
    from deepdiff import DeepDiff

    class Deadline:
        def match(self, level: object) -> bool:
            clock.tick(every=16)
            return False

    tree = DeepDiff(
        left,
        right,
        view="tree",
        report_repetition=True,
        ignore_private_variables=False,
        ignore_nan_inequality=True,
        threshold_to_diff_deeper=0,
        zip_ordered_iterables=zipped,
        custom_operators=[Deadline()],
    )
    for report, levels in tree.items():
        for level in levels:
            names = None if report.endswith("_added") else level.path(output_format="list")
            new_names = None if report.endswith("_removed") else level.path(output_format="list", use_t2=True)
            yield names, new_names


def _follow(plain: Plain, names: _Names) -> tuple[Path, Plain]:
    if names is None:
        return (), MISSING
    path: list[str | int] = []
    for name in names:
        if tag(plain) == "$dict":
            steps, plain = members(plain)[name]
            path.extend(steps)
        else:
            path.append(name)
            plain = plain[name]
    return tuple(path), plain


class _Shape:
    """What deepdiff is shown of two containers: only what differs, scalars and whole values as tokens.

    Positions in lists stay what they are: only an equal tail is cut off.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.long_lists = False

    def of_container(self, pair: Pair) -> tuple[Any, Any] | None:
        self._search.clock.tick()
        return self._of_list(pair) if isinstance(pair.old, list) else self._of_mapping(pair)

    def _of(self, pair: Pair) -> tuple[Any, Any] | None:
        if not self._search.is_whole(pair):
            return self.of_container(pair)
        before, after = _token(canonical(pair.old)), _token(canonical(pair.new))
        return None if before == after else (before, after)

    def _of_mapping(self, pair: Pair) -> tuple[Any, Any] | None:
        left: dict[str | int, Any] = {}
        right: dict[str | int, Any] = {}
        for name, child in children(pair):
            if child.old is MISSING:
                right[name] = ""
            elif child.new is MISSING:
                left[name] = ""
            elif (shaped := self._of(child)) is not None:
                left[name], right[name] = shaped
        return (left, right) if left or right else None

    def _of_list(self, pair: Pair) -> tuple[Any, Any] | None:
        before, after = [[_token(canonical(value)) for value in values] for values in (pair.old, pair.new)]
        while before and after and before[-1] == after[-1]:
            before.pop()
            after.pop()
        if len(before) * len(after) > _ALIGNED:
            self.long_lists = True
        if len(before) != len(after):  # deepdiff aligns the tokens, and what it pairs is opened in turn
            return before, after
        shaped = [
            (left, right) if left == right else self._of(child) or ("", "")
            for left, right, (_, child) in zip(before, after, children(pair), strict=False)
        ]
        return ([left for left, _ in shaped], [right for _, right in shaped]) if shaped else None


def _token(text: bytes) -> str:
    return text.decode() if len(text) <= _TOKEN_BYTES else hashlib.blake2b(text, digest_size=16).hexdigest()
