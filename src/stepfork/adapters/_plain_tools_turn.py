"""Makes a tool of a function in place: its code is exchanged, so that every reference to it is hooked.

The function object stays what it was, with its signature, defaults, annotations and closure: dispatch
tables, ``is`` and pickles never notice. Its own code lives on in a copy, which the call is handed to.
"""

from __future__ import annotations

import inspect
import keyword
import sys
import threading
import types
import weakref
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, final

from stepfork._context import tools_on
from stepfork._frames import StandIn, is_stand_in
from stepfork._invoke import wrapper_of
from stepfork._spec import Options, Spec, address_part
from stepfork.adapters._plain_tools_functions import targets
from stepfork.adapters._plain_tools_members import namespace_of, own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MAKES = (
    inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
)
"""What ``inspect`` and event loops read off a function, and what no interpreter since 3.11 acts upon: that
code makes a coroutine or generator is an instruction of its own, which ours does without."""

_ABOUT = ("__kwdefaults__", "__qualname__", "__module__", "__doc__")

_lock = threading.RLock()
_turned: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()


class FoundSpec(Spec):
    """Of a tool that nobody has marked as one."""

    is_hooked = True
    is_plain = True


def found_spec(function: Callable[..., Any], name: str) -> FoundSpec:
    """Return what is known of a function that turned out to be a tool."""
    return FoundSpec("tool", function, Options(name=name), address_part(name))


@final
class PlainTool(StandIn):
    """A function that has become a tool: what its new code calls, and its own code."""

    __slots__ = ("_call", "is_method", "original", "spec")

    def __init__(self, original: types.FunctionType, name: str, *, is_method: bool) -> None:
        self.original = original
        self.is_method = is_method
        self.spec = found_spec(original, name)
        self._call = wrapper_of(self.spec)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.is_method and args and args[0] is not None:
            owner, *rest = args
            return self._call(types.MethodType(self.original, owner), owner, tuple(rest), kwargs)
        return self._call(self.original, None, args, kwargs)

    def __reduce__(self) -> Any:
        """For what pickles a function by its code, to have it called in another process."""
        return _again, (self.original, self.spec.options.name, self.is_method)


def _again(original: types.FunctionType, name: str, is_method: bool) -> PlainTool:
    return PlainTool(original, name, is_method=is_method)


def tool_in(function: types.FunctionType) -> PlainTool | None:
    """Return what a function was turned into; None for one that is as its author wrote it."""
    code = function.__code__
    return code.co_consts[-1] if is_stand_in(code) else None


def own_code(function: types.FunctionType) -> types.CodeType:
    """Return the code that its author wrote."""
    tool = tool_in(function)
    return function.__code__ if tool is None else tool.original.__code__


def turn_into_tool(function: types.FunctionType, name: str, *, is_method: bool = False) -> PlainTool | None:
    """Have the calls of a function recorded and served under this name; once, whoever asks for it.

    ``is_method``: its first parameter is the object or class that it belongs to. None where its parameters
    have names that no source could spell.
    """
    with _lock:
        known = tool_in(function)
        if known is not None:
            return known
        code = function.__code__
        shape = _shape_of(code)
        if not all(each.isidentifier() and not keyword.iskeyword(each) for each in shape.names):
            return None
        tool = PlainTool(_copy_of(function), name, is_method=is_method and code.co_argcount > 0)
        function.__code__ = _stand_in(code, shape, tool)
        _turned.add(function)
        tools_on.update(_entry(function, name))
        return tool


def turn_back() -> None:
    """Give every function its own code again."""
    with _lock:
        for function in list(_turned):
            tool = tool_in(function)
            if tool is not None:  # else somebody has given it another code since
                function.__code__ = tool.original.__code__
        _turned.clear()
        tools_on.clear()


def main_module(names: Mapping[str, Any]) -> str:
    """Return what the module of these names is called where it is imported, and not run as the program."""
    spec = names.get("__spec__")
    name = getattr(spec, "name", None)
    return name if type(name) is str else PurePath(names.get("__file__") or "__main__").stem


def _entry(function: types.FunctionType, name: str) -> Iterator[str]:
    """Yield how a replay finds the function at once, if it can be found by name."""
    module = function.__module__
    if type(module) is not str or not _stands_under_its_name(function):
        return
    if module == "__main__":
        module = main_module(function.__globals__)
    yield f"{module}:{function.__qualname__}={name}"


def _stands_under_its_name(function: types.FunctionType) -> bool:
    """Whether it is found there; where a table holds functions that are all called ``_``, one is."""
    names: Any = function.__globals__
    if names.get("__name__") != function.__module__:
        module = sys.modules.get(function.__module__)
        names = {} if module is None else namespace_of(module)
    value: Any = None
    for part in function.__qualname__.split("."):
        value = names.get(part)
        names = own(value) if isinstance(value, type) else {}
    return any(target.function is function for target in targets(value))


def _copy_of(function: types.FunctionType) -> types.FunctionType:
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    # Where annotations are evaluated when asked for (3.14), asking could run the user's code.
    hints = "__annotate__" if hasattr(types.FunctionType, "__annotate__") else "__annotations__"
    for each in (*_ABOUT, hints, "__type_params__"):
        if hasattr(function, each):
            setattr(copy, each, getattr(function, each))
    vars(copy).update(vars(function))
    return copy


class _Shape(NamedTuple):
    """What a function can be called with."""

    names: tuple[str, ...]
    positional_only: int
    positional: int
    has_rest: bool
    has_keywords: bool


def _shape_of(code: types.CodeType) -> _Shape:
    has_rest, has_keywords = (
        bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    )
    count = code.co_argcount + code.co_kwonlyargcount + has_rest + has_keywords
    names = code.co_varnames[:count]
    return _Shape(names, code.co_posonlyargcount, code.co_argcount, has_rest, has_keywords)


def _stand_in(code: types.CodeType, shape: _Shape, tool: PlainTool) -> types.CodeType:
    template, line = _template(shape)
    constants = tuple(tool if each == _PLACE else each for each in template.co_consts)
    return template.replace(
        co_consts=(*constants, tool),
        co_flags=(template.co_flags & ~_MAKES) | (code.co_flags & (_MAKES | inspect.CO_NESTED)),
        co_freevars=code.co_freevars,  # not used; but there are as many as the function has cells
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
        co_linetable=line,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
    )


_PLACE = "the tool"


@lru_cache(maxsize=1024)
def _template(shape: _Shape) -> tuple[types.CodeType, bytes]:
    """Return code with these parameters that hands them to the constant, and where its lines are."""
    local = "call"
    while local in shape.names:
        local += "_"
    source = (
        f"def stand_in({_parameters(shape)}):\n {local} = {_PLACE!r}\n return {local}({_handed_on(shape)})"
    )
    module = compile(source, "<stepfork>", "exec")
    code = next(each for each in module.co_consts if isinstance(each, types.CodeType))
    return code, _one_line(len(code.co_code) // 2)


def _parts(shape: _Shape) -> tuple[tuple[str, ...], tuple[str, ...], str | None, str | None]:
    names = list(shape.names)
    keywords = names.pop() if shape.has_keywords else None
    rest = names.pop() if shape.has_rest else None
    return tuple(names[: shape.positional]), tuple(names[shape.positional :]), rest, keywords


def _parameters(shape: _Shape) -> str:
    positional, by_keyword, rest, keywords = _parts(shape)
    spelled = list(positional)
    if shape.positional_only:
        spelled.insert(shape.positional_only, "/")
    if rest is not None or by_keyword:
        spelled.append(f"*{rest or ''}")
    spelled.extend(by_keyword)
    if keywords is not None:
        spelled.append(f"**{keywords}")
    return ", ".join(spelled)


def _handed_on(shape: _Shape) -> str:
    positional, by_keyword, rest, keywords = _parts(shape)
    args = [*positional, *([] if rest is None else [f"*{rest}"])]
    kwargs = [f"{name!r}: {name}" for name in by_keyword] + ([] if keywords is None else [f"**{keywords}"])
    return f"({''.join(f'{each}, ' for each in args)}), {{{', '.join(kwargs)}}}"


def _one_line(units: int) -> bytes:
    """Return the line table of code that stands on its first line, at no column."""
    table = bytearray()
    while units > 0:
        length = min(units, 8)
        table += bytes([0x80 | _WITHOUT_COLUMNS << 3 | length - 1, 0])
        units -= length
    return bytes(table)


_WITHOUT_COLUMNS = 13
