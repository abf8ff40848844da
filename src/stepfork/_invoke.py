"""Runs one decorated call in whatever session is open: four flavours, one seam.

Each wrapper asks for a frame; without one it is a plain call, with an answer in it the answer is
served, else the function runs and the frame is told what came of it.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

from stepfork._context import Frame, _frame, busy, child_of_replay, current_frame, leave
from stepfork._served import chunks, served, served_chunks, served_later
from stepfork._warn import warn_once
from stepfork._watch import async_generated, consumed, generated, made, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepfork._calls import Shape
    from stepfork._context import Answer
    from stepfork._spec import Spec

    Wrapper = Callable[[Any, Any, tuple[Any, ...], Mapping[str, Any]], Any]


def wrapper_of(spec: Spec) -> Wrapper:
    """Return what is called in the function's place: by its kind, and for the rest by what it returns."""
    target: Any = spec.function
    if not inspect.isroutine(target) and not hasattr(target, "func"):
        target = getattr(type(target), "__call__", target)  # noqa: B004 - the method, not whether there is one
    if inspect.iscoroutinefunction(target):
        return for_coroutines(spec)
    if inspect.isasyncgenfunction(target):
        return for_async_generators(spec)
    if inspect.isgeneratorfunction(target):
        return for_generators(spec)
    return for_functions(spec)


def begin(
    spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any], made_in: Frame | None = None
) -> Frame | None:
    """Return the frame of a call that starts now; None where nothing is recorded or replayed.

    ``made_in`` is where a coroutine or generator was made that is run only now: what was made in a
    replay must not run outside of it.
    """
    parent = current_frame(may_open_run=spec.kind == "step")
    if parent is None and made_in is not None and made_in.session.is_replay:
        parent = made_in
    if parent is not None:
        if _is_claimed(spec, getattr(parent, "spec", None)):
            return None
        return parent.session.enter(spec, parent, args, kwargs)
    if spec.kind != "step":
        if child_of_replay:
            from stepfork._refusal import refused

            raise refused(spec.name)
        return None
    try:
        from stepfork._open_run import open_root
    except Exception as fault:  # without a free descriptor nothing can be loaded
        warn_once(f"stepfork cannot record here: {type(fault).__name__}: {fault}")
        return None
    return open_root(spec, args, kwargs)


def _is_claimed(spec: Spec, outer: Spec | None) -> bool:
    """Whether this is the very call under way, seen once more further in: one call, one record.

    A model that asks a model is one; so is a tool that stands for another of its name, as a framework's
    tool does for the function in it, or with a prefix (``server_add``) for that of a server.
    """
    if outer is None or outer.kind != spec.kind or not (outer.is_hooked or spec.is_hooked):
        return False
    if spec.kind == "tool":
        return outer.name == spec.name or outer.name.endswith(("_" + spec.name, "." + spec.name))
    return spec.kind == "model"


def for_functions(spec: Spec) -> Wrapper:
    """Plain functions; what they return may still be something to await or to iterate over."""
    is_tool = spec.kind != "step"

    def call_function(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if is_tool and not busy:
            return wrapped(*args, **kwargs)
        frame = begin(spec if instance is None else spec.as_method, args, kwargs)
        if frame is None:
            return wrapped(*args, **kwargs)
        if frame.answer is not None:
            return served(frame.answer)
        token = _frame.set(frame)
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as error:
            leave(token)
            frame.raised(error, "value")
            raise
        leave(token)
        return watched(frame, result)

    return call_function


def for_coroutines(spec: Spec) -> Wrapper:
    """Coroutine functions; like its body, the call starts when the coroutine is first run."""
    is_tool = spec.kind != "step"
    may_be_tried = _only_makes(spec.function)
    fitting = _fitting(spec.function)

    async def call_coroutine(
        spec: Spec, wrapped: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], made_in: Frame | None
    ) -> Any:
        if is_tool and not busy:
            return await wrapped(*args, **kwargs)
        frame = begin(spec, args, kwargs, made_in)
        if frame is None:
            return await wrapped(*args, **kwargs)
        if frame.answer is not None:
            return await served_later(frame.answer)
        token = _frame.set(frame)
        try:
            result = await wrapped(*args, **kwargs)
        except BaseException as error:
            leave(token)
            frame.raised(error, "value")
            raise
        leave(token)
        return consumed(frame, result, "value")

    make = _named_like(call_coroutine, spec.function)

    def call(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if may_be_tried and (kwargs or len(args) + (instance is not None) not in fitting):
            # Arguments that do not fit are an error here. It is not kept: whoever cancels the outer one
            # before its start would be told that this one was never awaited.
            wrapped(*args, **kwargs).close()
        the_spec = spec if instance is None else spec.as_method
        return make(the_spec, wrapped, args, kwargs, _frame.get())

    return call


def for_generators(spec: Spec) -> Wrapper:
    """Generator functions; like its body, the call starts when the first chunk is asked for."""
    return _for_streams(spec, "stream", generated, chunks)


def for_async_generators(spec: Spec) -> Wrapper:
    """Async generator functions; the same."""
    return _for_streams(spec, "astream", async_generated, served_chunks)


def _for_streams(spec: Spec, shape: Shape, watch: Any, serve: Callable[[Answer], Any]) -> Wrapper:
    is_tool = spec.kind != "step"
    is_made_early = _only_makes(spec.function)
    make = _named_like(watch, spec.function)

    def call(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        # Made here, so that arguments that do not fit are an error here.
        inner = wrapped(*args, **kwargs) if is_made_early else None
        made_in = _frame.get()

        def start() -> tuple[Frame | None, Any]:
            frame = None
            if busy or not is_tool:
                frame = begin(spec if instance is None else spec.as_method, args, kwargs, made_in)
                if frame is not None and frame.answer is not None:
                    return None, serve(frame.answer)
            return frame, inner if inner is not None else made(frame, wrapped, args, kwargs, shape)

        return make(start)

    return call


def _only_makes(function: Any) -> bool:
    """Whether calling it runs none of its body, nor any code of other decorators."""
    while isinstance(function, (functools.partial, types.MethodType)):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return type(function) is types.FunctionType and function.__code__.co_flags & _MAKES != 0


_MAKES = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _fitting(function: Any) -> range:
    """Return the numbers of positional arguments, ``self`` included, that surely fit a plain function."""
    if type(function) is not types.FunctionType:
        return range(0)
    code = function.__code__
    if code.co_kwonlyargcount > len(function.__kwdefaults__ or ()):
        return range(0)
    return range(code.co_argcount - len(function.__defaults__ or ()), code.co_argcount + 1)


def _named_like(wrapper: Any, function: Any) -> Any:
    """Return the wrapper under the function's name, which is told by event loops, warnings and ``repr``."""
    code, scope = wrapper.__code__, wrapper.__globals__
    named = types.FunctionType(code, scope, wrapper.__name__, wrapper.__defaults__, wrapper.__closure__)
    for name in ("__name__", "__qualname__"):
        value = getattr(function, name, None)
        setattr(named, name, value if isinstance(value, str) else getattr(wrapper, name))
    return named
