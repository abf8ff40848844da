"""Records an agent in this process and runs it again, with bodies that raise: the same must come of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

import stepfork
from stepfork._calls import Call, Run
from stepfork._recording import read_run
from stepfork._replay.result import Replayed

ADAPTERS = ("langchain", "langgraph")


class Bodies:
    """Notes the bodies that ran; while ``forbidden`` each of them raises."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.forbidden = False

    def ran(self, name: str) -> None:
        """Say that the body of this name runs."""
        self.names.append(name)
        if self.forbidden:
            raise AssertionError(f"{name} was executed")


class Again:
    """What came of an agent when it was recorded, and in the replay."""

    def __init__(self, path: Path, bodies: Bodies, agent: Callable[[], Any]) -> None:
        self.result, self.error = _outcome(path, agent)
        self.recorded: Run = read_run(path)
        self.ran = list(bodies.names)
        bodies.names.clear()
        bodies.forbidden = True
        try:
            self.replayed: Replayed = stepfork.replay(path, agent)
        finally:
            bodies.forbidden = False
        assert bodies.names == []
        bodies.names.clear()

    def is_the_same(self) -> Again:
        """Check that the replay made the same calls and came to the same end."""
        assert not self.replayed.frontiers, self.replayed.frontiers
        assert [call.address for call in self.replayed.unused_calls] == []
        assert calls(self.replayed.run) == calls(self.recorded)
        if self.error is None:
            assert _plain(self.replayed.result) == _plain(self.result)
        else:
            error = self.replayed.error
            assert type(error) is type(self.error)
            assert str(error) == str(self.error)
            failure = self.replayed.run.failure
            assert failure is not None
            assert failure.type == f"{type(error).__module__}:{type(error).__qualname__}"
        return self


def _outcome(path: Path, agent: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        with stepfork.run("agent", path=path):
            result = agent()
            return (asyncio.run(result) if inspect.iscoroutine(result) else result), None
    except Exception as error:
        return None, error


def calls(run: Run) -> list[tuple[str, dict[str, Any]]]:
    """Return the outermost tool and model calls, with their arguments."""
    found: list[tuple[str, dict[str, Any]]] = []

    def look(call: Call) -> None:
        for below in call.children:
            if below.kind == "step":
                look(below)
            else:
                found.append((below.address, below.input))

    look(run.root)
    return found


def labels(run: Run) -> list[str]:
    """Return the addresses of all calls below the root, without it."""
    root = run.root.address
    return [call.address.removeprefix(f"{root}/") for call in run.walk() if call is not run.root]


def _plain(value: Any) -> Any:
    """Return messages by what they say, since LangGraph gives them other ids each time."""
    if isinstance(value, BaseMessage):
        dumped = value.model_dump()
        dumped.pop("id")
        return type(value).__name__, dumped
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def wants(*tools: tuple[str, dict[str, Any]], text: str = "", ids: str = "call") -> AIMessage:
    """Return a message that asks for tools."""
    return AIMessage(
        text,
        tool_calls=[
            {"name": name, "args": args, "id": f"{ids}_{number}_{name}", "type": "tool_call"}
            for number, (name, args) in enumerate(tools, 1)
        ],
    )


class Scripted(BaseChatModel):
    """A model of the user's own, that says what it is told to, by the number of the assistant's turns."""

    replies: Sequence[Any]
    bodies: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Hand the tools in with each call."""
        return self.bind(tools=list(tools), **kwargs)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self.bodies.ran("model")
        turn = sum(isinstance(message, AIMessage) for message in messages)
        reply = self.replies[min(turn, len(self.replies) - 1)]
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply) if isinstance(reply, str) else reply.model_copy(deep=True)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])


class Streaming(Scripted):
    """The same, word by word."""

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for word in str(self._reply(messages).content).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))


class Listener(BaseCallbackHandler):
    """Notes what a tool's callbacks are told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
        """Note the arguments."""
        self.heard.append(("start", serialized["name"], input_str, kwargs.get("inputs")))

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        """Note the result."""
        self.heard.append(("end", _plain(output)))

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        """Note the exception."""
        self.heard.append(("error", type(error), str(error)))
