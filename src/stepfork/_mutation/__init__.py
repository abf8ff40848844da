"""What a call changed in place in one of its arguments, as a short list that a replay can apply again.

A change is a list of three that JSON can hold; this is part of the format, version 1:

===================================  ===================================================================
``["set", path, value]``             what stands at ``path`` is now ``value``
``["del", path, null]``              the key or attribute at ``path`` is gone
``["append", path, values]``         the list at ``path`` has these at its end as well
``["splice", path, [i, j, parts]]``  positions i to j (excluded) of the list at ``path`` are now ``parts``:
                                     ``[value]`` is a new element, ``[a, b]`` are those that stood at the
                                     positions a to b (excluded) before
``["order", path, steps]``           the dict at ``path`` has its keys in this order
``["fill", path, value]``            the container at ``path`` has the content of ``value`` (a set, a
                                     bytearray, an array; all that has references to shared parts)
===================================  ===================================================================

A path is a list of steps from the argument inwards; empty, it is the argument itself. A step is a text (the
key of a dict), an integer (a position in a list or tuple), ``{"attr": name}`` or ``{"key": value}`` (a key
that is no text). Values are in their Plain form. The changes apply in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from stepfork._mutation.apply import ChangeMisfit, apply, attribute_of
from stepfork._plain import tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepfork._calls import Plain

__all__ = ["Change", "ChangeMisfit", "apply", "attribute_of", "diff", "is_change"]

Change: TypeAlias = list[Any]
Path: TypeAlias = list[Any]
_Parts: TypeAlias = dict[Any, tuple[Any, Any]]

_CONTENT: Final = frozenset({"list", "dict", "$set", "$bytearray"})
_OPAQUE_INSIDE: Final = frozenset({"array", "value", "method"})
"""Objects whose recorded parts are no attributes of theirs."""
_FILLED: Final = frozenset(
    {"numpy:ndarray", "array:array", "_io:BytesIO", "_io:StringIO", "pandas:DataFrame", "pandas:Series"}
)
"""Those of them that can be given other content; the others are replaced where they stand."""
_VERBS: Final = frozenset({"set", "del", "append", "splice", "order", "fill"})


def is_change(items: Sequence[Any]) -> bool:
    """Whether a plain list has the form of a change."""
    return len(items) == 3 and type(items[0]) is str and items[0] in _VERBS and type(items[1]) is list


def diff(before: Plain, after: Plain) -> list[Change] | None:
    """Return what turns ``before`` into ``after`` in place; objects inside stay the same ones.

    None if nothing changed, or nothing that can be changed in place. Takes time in proportion to the size.
    """
    if _same(before, after):
        return None
    # A reference names a part of the whole value: elsewhere it would mean another.
    if _has_references(before) or _has_references(after):
        return [["fill", [], after]] if _can_fill(before, after) else None
    changes: list[Change] = []
    _compare(before, after, [], changes)
    return changes or None


def _same(before: Plain, after: Plain) -> bool:
    # 1 == True == 1.0: only the bytes tell these apart, and the order of keys.
    return before is after or (before == after and _json(before) == _json(after))


_json = msgspec.json.encode


def _has_references(plain: Plain) -> bool:
    return b'"$ref":' in _json(plain)


def _can_fill(before: Plain, after: Plain) -> bool:
    before, after = _root(before), _root(after)
    return not _is_leaf(after) and _form(before) == _form(after)


def _root(plain: Plain) -> Plain:
    """Return the value itself where it comes with a table of shared parts."""
    if tag(plain) == "$shared":
        value = plain["value"]
        return plain["$shared"][value["$ref"]] if tag(value) == "$ref" else value
    return plain


def _is_leaf(plain: Plain) -> bool:
    """Whether a value has nothing inside that could be changed in place."""
    if type(plain) is not dict:
        return type(plain) is not list
    return tag(plain) not in (None, "$dict", "$tuple", "$object", "$set", "$bytearray")


def _form(plain: Plain) -> str:
    """Name how a value is compared: a dict is written in two ways, as its keys demand."""
    name = tag(plain)
    return type(plain).__name__ if name is None else "dict" if name == "$dict" else name


def _compare(before: Plain, after: Plain, path: Path, changes: list[Change]) -> bool:
    """Add what changed at ``path``; False, with nothing added, if another value must be put there."""
    form = _form(before)
    if _is_leaf(before) or form != _form(after):
        return False
    if form == "list":
        _compare_lists(before, after, path, changes)
    elif form == "dict":
        _compare_items(_by_key(before), _by_key(after), path, changes)
    elif form == "$tuple":
        return _compare_fixed(_by_place(before[form]), _by_place(after[form]), path, changes)
    elif form == "$object":
        return _compare_objects(before, after, path, changes)
    else:
        changes.append(["fill", path, after])
    return True


# Name, key or position -> the step of a path that leads to it, and what stands there.


def _by_key(plain: dict[str, Any]) -> _Parts:
    if tag(plain) is None:
        keys = {key: key[1:] if key.startswith("$") else key for key in plain}
        return {name: (name, plain[key]) for key, name in keys.items()}
    pairs = plain["$dict"]
    return {key if type(key) is str else _json(key): (_step_to(key), part) for key, part in pairs}


def _step_to(key: Plain) -> Plain:
    return key if type(key) is str else {"key": key}


def _by_place(items: list[Plain]) -> _Parts:
    return dict(enumerate(enumerate(items)))


def _by_attribute(plain: dict[str, Any]) -> _Parts:
    fields = {**plain["state"], **plain.get("extra", {})}
    return {name: ({"attr": step}, part) for name, (step, part) in _by_key(fields).items()}


def _compare_items(old: _Parts, new: _Parts, path: Path, changes: list[Change], ordered: bool = True) -> None:
    changes.extend(["del", [*path, step], None] for key, (step, _) in old.items() if key not in new)
    for key, (step, part) in new.items():
        if key not in old:
            changes.append(["set", [*path, step], part])
        elif not _same(old[key][1], part):
            _put_or_compare(old[key][1], part, [*path, step], changes)
    if ordered and [*(key for key in old if key in new), *(key for key in new if key not in old)] != [*new]:
        changes.append(["order", path, [step for step, _ in new.values()]])


def _put_or_compare(before: Plain, after: Plain, path: Path, changes: list[Change]) -> None:
    if not _compare(before, after, path, changes):
        changes.append(["set", path, after])


def _compare_fixed(old: _Parts, new: _Parts, path: Path, changes: list[Change]) -> bool:
    """Compare what cannot be changed itself, but may hold something that can."""
    added: list[Change] = []
    if old.keys() != new.keys():
        return False
    for key, (step, part) in new.items():
        if not _same(old[key][1], part) and not _compare(old[key][1], part, [*path, step], added):
            return False
    changes += added
    return True


def _compare_objects(
    before: dict[str, Any], after: dict[str, Any], path: Path, changes: list[Change]
) -> bool:
    kind = after.get("of")
    if before["$object"] != after["$object"] or before.get("of") != kind:
        return False
    if kind == "namedtuple":
        return _compare_fixed(_by_attribute(before), _by_attribute(after), path, changes)
    if kind is not None and before.get("base") != after.get("base"):
        return False
    if kind in _OPAQUE_INSIDE:
        is_filled = not path or after["$object"] in _FILLED
        changes += [["fill", path, after]] * is_filled
        return is_filled
    if not _is_by_attribute(before, after):
        changes.append(["fill", path, after])
        return True
    if kind is None and not _same(before.get("base"), after.get("base")):
        _compare(before["base"], after["base"], path, changes)
    _compare_items(_by_attribute(before), _by_attribute(after), path, changes, ordered=False)
    return True


def _is_by_attribute(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether an object differs in single attributes and in the content of a list, dict or set at most."""
    if before.get("extra", {}).keys() != after.get("extra", {}).keys():
        return False
    base, now = before.get("base"), after.get("base")
    return _same(base, now) or (_form(base) == _form(now) and _form(now) in _CONTENT)


def _compare_lists(old: list[Plain], new: list[Plain], path: Path, changes: list[Change]) -> None:
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if not _same(old[i], new[i])), shorter)
    behind = next((i for i in range(shorter - start) if not _same(old[-1 - i], new[-1 - i])), shorter - start)
    old_end, new_end = len(old) - behind, len(new) - behind
    if start == len(old):
        changes.append(["append", path, new[start:]])
        return
    both = min(old_end, new_end)
    differing = [i for i in range(start, both) if not _same(old[i], new[i])]
    gone = [*(old[i] for i in differing), *old[both:old_end]]
    come = [*(new[i] for i in differing), *new[both:new_end]]
    if (old_end != new_end and behind) or _are_others(gone, come):
        parts = _spliced(old[start:old_end], new[start:new_end], start)
        changes.append(["splice", path, [start, old_end, parts]])
        return
    for index in differing:
        _put_or_compare(old[index], new[index], [*path, index], changes)
    if old_end > new_end:
        changes.append(["splice", path, [new_end, old_end, []]])
    elif new_end > old_end:
        changes.append(["append", path, new[old_end:new_end]])


_MANY = 8
_SHORT_TEXT = 32


def _are_others(gone: list[Plain], come: list[Plain]) -> bool:
    """Whether elements changed their place, or are many plain values: not the old ones changed inside."""
    known = {_json(item) for item in gone if not _is_written_out(item)}
    if any(_json(item) in known for item in come if not _is_written_out(item)):
        return True
    return len(come) > _MANY and all(map(_is_leaf, come))


def _is_written_out(item: Plain) -> bool:
    return _is_leaf(item) and not (type(item) is str and len(item) > _SHORT_TEXT)


def _spliced(old: list[Plain], new: list[Plain], start: int) -> list[list[Plain]]:
    places: dict[bytes, list[int]] = {}
    for place in range(len(old) - 1, -1, -1):
        if not _is_written_out(old[place]):
            places.setdefault(_json(old[place]), []).append(start + place)
    parts: list[list[Plain]] = []
    for item in new:
        free = None if _is_written_out(item) else places.get(_json(item))
        if not free:
            parts.append([item])
        elif parts and len(parts[-1]) == 2 and parts[-1][1] == free[-1]:
            parts[-1][1] = free.pop() + 1
        else:
            parts.append([free[-1], free.pop() + 1])
    return parts
