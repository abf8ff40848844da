"""Tools of an agent that has its own loop: plain functions, known by the requests that declare them.

An agent on a provider's SDK marks no function as a tool. But each of its requests names the tools that the
model may ask for; so before a request goes out, the functions of these names are looked for from where it is
made, and turned into tools in place.
"""

from __future__ import annotations

import sys
import threading
import types
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfork._answers import answer_of
from stepfork._context import busy, current_frame
from stepfork._decorators import Decorated
from stepfork._spec import name_of
from stepfork.adapters import _plain_tools_named as named
from stepfork.adapters import _plain_tools_turn as turn
from stepfork.adapters._plain_tools_declared import declared
from stepfork.adapters._plain_tools_find import View, find
from stepfork.adapters._plain_tools_functions import is_decorated, is_shared, targets
from stepfork.adapters._plain_tools_members import Gone, member, put, text_of
from stepfork.adapters._plain_tools_stack import other_frames, users_frames
from stepfork.adapters._plain_tools_unseen import note_unseen

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from stepfork._calls import Call
    from stepfork.adapters._plain_tools_find import Found, Path
    from stepfork.adapters._plain_tools_members import Step

_MOST_PLACES = 1000
"""How many places of requests are remembered."""

covered: set[str] = set()
"""The names of the tools whose functions were found in this process."""


class _Known(NamedTuple):
    """Where what carries out a tool was found last time."""

    path: Path
    names: dict[types.CodeType, str]
    """By the code of a function that stood there, under which name it became a tool."""


class _Place:
    """The code on the stack that requests are made from."""

    def __init__(self, codes: tuple[types.CodeType, ...]) -> None:
        self.codes = codes  # held, so that no identity is used twice
        self.known: dict[str, dict[Hashable, _Known]] = {}
        self.misses: dict[str, int] = {}
        self.elsewhere: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        """By run, what was found in other tasks or threads."""

    def is_worth_a_look(self, name: str) -> bool:
        """Whether to search for a name again that was not found: ever more rarely."""
        misses = self.misses[name] = self.misses.get(name, 0) + 1
        return misses & (misses - 1) == 0


_lock = threading.RLock()
_places: dict[tuple[int, ...], _Place] = {}
_replaced: deque[tuple[Any, Step, Any, Any]] = deque(maxlen=1000)
"""What has no code to be exchanged: where it stands, what stands there now, and what stood there."""


def look(body: object) -> None:
    """Turn the functions of the tools that a request declares into tools, before it goes out.

    Called by what is called in the place of a model, and never raises into a run that is recorded. It also
    notes which tools ran since the request before without stepfork seeing them.
    """
    if not busy:
        return
    try:
        names = declared(body)
        if names or named.waiting:
            frames = users_frames(sys._getframe(1))
            named.apply_to([*(each.f_globals for each in frames), named.main_names()])
            _look(names, View(frames))
            note_unseen(body, names, covered)
    except Exception as fault:
        frame = current_frame()
        if frame is not None:
            frame.session.give_up(fault)


def look_for_asked(body: object, items: list[Any] | None, answered: Call | None, session: Any) -> None:
    """Look for the functions of the tools that an answer asks for, before it is served.

    ``answered`` is the recorded call whose answer it is; None where a test put it there.

    The replay stops where the request declares one that it cannot find: its function would run.
    """
    answer = answer_of(items)
    lost = [tool for tool, _ in answer.asked if tool not in covered] if answer else []
    if lost:
        view = View(users_frames(sys._getframe(1)))
        _place_of(view).misses.clear()
        _look(lost, view)
        named = declared(body)
        session.asks_for([tool for tool in lost if tool in named and tool not in covered], named, answered)


def turn_back() -> None:
    """Leave every function as its author wrote it, and forget where they were."""
    with _lock:
        turn.turn_back()
        named.forget()
        while _replaced:
            holder, step, ours, original = _replaced.pop()
            try:
                if member(holder, step) is ours:
                    put(holder, step, original)
            except Gone:
                continue
        _places.clear()
        covered.clear()


def _look(names: list[str], view: View) -> None:
    place = _place_of(view)
    session = getattr(current_frame(), "session", None)
    missing = [name for name in names if not _is_known(place, name, view, session)]
    if not missing:
        return
    with _lock:
        here = find(missing, view)
        absent = set(missing).difference(each.name for each in here)
        others = View(other_frames(view.frames)) if absent else view
        there = find(absent, others) if absent else []
        names_of = _names_of([*here, *there])
        for found in here:
            known = place.known.setdefault(found.name, {}).setdefault(found.path.key, _Known(found.path, {}))
            known.names.update(_turned(found, names_of, view))
        for found in there:
            _turned(found, names_of, others)
        if session is not None and there:
            place.elsewhere.setdefault(session, set()).update(each.name for each in there)
        covered.update(each.name for each in (*here, *there))


def _place_of(view: View) -> _Place:
    key = tuple(map(id, view.codes))
    place = _places.get(key)
    if place is None:
        with _lock:
            if len(_places) >= _MOST_PLACES:
                _places.clear()
            place = _places.setdefault(key, _Place(view.codes))
    return place


def _is_known(place: _Place, name: str, view: View, session: Any) -> bool:
    """Whether there is no need to search for the functions of a tool: they stand where they stood."""
    known = place.known.get(name)
    if known:
        if all(_is_as_it_was(each, name, view) for each in list(known.values())):
            return True
        del place.known[name]
        return False
    if session is not None and name in place.elsewhere.get(session, ()):
        return True
    return not place.is_worth_a_look(name)


def _is_as_it_was(known: _Known, name: str, view: View) -> bool:
    """Whether what stands there is a tool already, or the same code in a function made anew, turned now."""
    try:
        found = targets(known.path.value(view))
    except Gone:
        return False
    is_called_so = text_of(known.path.steps[-1][1]) == name
    for target in found:
        if is_decorated(target.function):
            continue
        if type(target.function) is not types.FunctionType:
            return False
        code = turn.own_code(target.function)
        as_name = known.names.get(code) or (name if is_called_so else None)
        if as_name is None or is_shared(target.function):
            return False
        if code not in view.codes:
            turn.turn_into_tool(target.function, as_name, is_method=target.is_method)
    return bool(found)


def _names_of(all_found: Iterable[Found]) -> dict[int, str]:
    """Return the name of each function: its tool's; its own where it carries out several of them."""
    tools: dict[int, set[str]] = {}
    functions: dict[int, Any] = {}
    for found in all_found:
        for target in found.targets:
            tools.setdefault(id(target.function), set()).add(found.name)
            functions[id(target.function)] = target.function
    return {key: names.pop() if len(names) == 1 else name_of(functions[key]) for key, names in tools.items()}


def _turned(found: Found, names: dict[int, str], view: View) -> dict[types.CodeType, str]:
    """Make tools of what was found; returns the names of those that have code."""
    codes = {}
    for target in found.targets:
        function, name = target.function, names[id(target.function)]
        if type(function) is types.FunctionType and not is_shared(function):
            code = turn.own_code(function)
            codes[code] = name
            if code not in view.codes:  # what is under way makes the request, and is not what it asks for
                turn.turn_into_tool(function, name, is_method=target.is_method)
        elif not is_decorated(function):
            _replace(found.path, function, name, view)
    return codes


def _replace(path: Path, function: Any, name: str, view: View) -> None:
    """Have something else stand where a function without code of the user's is held."""
    holder = path.holder
    if holder is None:
        return
    where, step = holder.value(view), path.steps[-1]
    if member(where, step) is function:
        ours = Decorated(function, turn.found_spec(function, name))
        if put(where, step, ours):
            _replaced.append((where, step, ours, function))
