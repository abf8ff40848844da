"""How one value is told by another: what is different in it, each at a JSON Pointer (RFC 6901).

::

    set:  {/orders/A-17/status: cancelled}
    gone: [/orders/A-18]
    list: {/log: {at: 3, out: 0, in: [...]}}    from position 3 on, 0 have gone and these have come
    text: {/prompt: {at: 900, out: 0, in: ...}} the same for the characters of a long text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AnyStr

from stepfork._plain import tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepfork._calls import Plain


_LONG_TEXT = 256
_CHUNK = 256


def differences(before: Plain, after: Plain, *, inside_texts: bool = False) -> dict[str, Any]:
    """Return what turns ``before`` into ``after``; ``inside_texts``: of a long text what changed in it.

    It does not tell the order of keys, nor ``1`` that became ``true``: who needs these exact compares what
    :func:`patched` makes of it.
    """
    found: dict[str, Any] = {"set": {}, "gone": [], "list": {}, "text": {}}
    for verb, pointer, value in _differences(before, after, ""):
        if verb == "gone":
            found["gone"].append(pointer)
        elif verb == "text" and not inside_texts:
            found["set"][pointer] = value[1]
        else:
            found[verb][pointer] = _cut(*value) if verb == "text" else value
    return {verb: part for verb, part in found.items() if part}


def _cut(before: str, after: str) -> dict[str, Any]:
    start, end = in_common(before, after)
    return {"at": start, "out": len(before) - start - end, "in": after[start : len(after) - end]}


def in_common(before: AnyStr, after: AnyStr) -> tuple[int, int]:
    """Return how much two texts have in common at their start, and of the rest at their end."""
    most = min(len(before), len(after))
    start, step = 0, _CHUNK
    while step and start < most:
        step = min(step, most - start)
        if before.startswith(after[start : start + step], start):
            start += step
        else:
            step //= 2
    end, step = 0, _CHUNK
    while step and start + end < most:
        step = min(step, most - start - end)
        if before.endswith(after[len(after) - end - step : len(after) - end], 0, len(before) - end):
            end += step
        else:
            step //= 2
    return start, end


def _differences(before: Plain, after: Plain, pointer: str) -> Iterator[tuple[str, str, Any]]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and tag(before) == tag(after):
        yield from (("gone", _below(pointer, key), None) for key in before if key not in after)
        for key, value in after.items():
            if key not in before:
                yield "set", _below(pointer, key), value
            elif before[key] != value:
                yield from _differences(before[key], value, _below(pointer, key))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _in_lists(before, after, pointer)
    elif isinstance(before, str) and isinstance(after, str) and min(len(before), len(after)) > _LONG_TEXT:
        yield "text", pointer, (before, after)
    else:
        yield "set", pointer, after


def _in_lists(before: list[Plain], after: list[Plain], pointer: str) -> Iterator[tuple[str, str, Any]]:
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = shorter - start
    behind = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    out, into = before[start : len(before) - behind], after[start : len(after) - behind]
    if len(out) != len(into):
        yield "list", pointer, {"at": start, "out": len(out), "in": into}
        return
    for at, (old, new) in enumerate(zip(out, into, strict=True), start):
        yield from _differences(old, new, _below(pointer, str(at)))


def _below(pointer: str, key: str) -> str:
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def patched(before: Plain, changes: Any) -> Plain:
    """Return what ``changes`` make of ``before``, which stays as it is; what did not change is shared.

    Raises:
        ValueError: the changes do not fit, or have not the form of changes.
    """
    try:
        return _Patch(before).apply(changes)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the changes do not fit: {error}") from None


def _spliced(whole: Any, cut: dict[str, Any], kind: Any) -> Any:
    start, end, into = cut["at"], cut["at"] + cut["out"], cut["in"]
    if type(whole) is not kind or type(into) is not kind or not 0 <= start <= end <= len(whole):
        raise ValueError("no such positions")
    return whole[:start] + into + whole[end:]


class _Patch:
    """Copies the containers on the way to each change, once."""

    def __init__(self, before: Plain) -> None:
        self._whole: list[Any] = [before]
        self._own: dict[int, Any] = {id(self._whole): self._whole}

    def apply(self, changes: dict[str, Any]) -> Plain:
        for pointer in changes.get("gone", ()):
            holder, key = self._reach(pointer)
            del holder[key]
        for pointer, value in changes.get("set", {}).items():
            holder, key = self._reach(pointer)
            holder[key] = value
        for kind, verb in ((list, "list"), (str, "text")):
            for pointer, cut in changes.get(verb, {}).items():
                holder, key = self._reach(pointer)
                holder[key] = _spliced(holder[key], cut, kind)
        return self._whole[0]

    def _reach(self, pointer: str) -> tuple[Any, Any]:
        """Return what holds the place, a copy of ours, and the key of the place in it."""
        holder: Any = self._whole
        key: Any = 0
        for part in pointer.split("/")[1:]:
            holder = self._copied(holder, key)
            name = part.replace("~1", "/").replace("~0", "~")
            key = int(name) if type(holder) is list else name
        return holder, key

    def _copied(self, holder: Any, key: Any) -> Any:
        part = holder[key]
        if id(part) not in self._own:
            if type(part) is not list and type(part) is not dict:
                raise ValueError(f"there is nothing inside of {key!r}")
            part = holder[key] = part.copy()
            self._own[id(part)] = part
        return part
