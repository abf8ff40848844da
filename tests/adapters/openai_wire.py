"""The protocols of OpenAI, as its API writes them: chat completions, responses, embeddings."""

from __future__ import annotations

import base64
import hashlib
import struct
import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from adapters.replies import Event, Reply, Request, ToolCall, fresh_id, pieces

Object = dict[str, Any]

_ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}


class _OpenAI:
    """What the endpoints have in common: how errors read."""

    def error(self, status: int, text: str) -> Object:
        """Return the body of an error."""
        kind = _ERROR_TYPES.get(status, "server_error")
        return {"error": {"message": text, "type": kind, "param": None, "code": None}}

    def broken(self, text: str) -> Event:
        """Return what stands in a stream that the provider gives up."""
        return Event(
            {"error": {"message": text, "type": "server_error", "param": None, "code": "server_error"}}
        )


class Chat(_OpenAI):
    """``/chat/completions``."""

    def plain(self, reply: Reply, request: Request) -> Object:
        """Return the answer in one piece."""
        message: Object = {
            "role": "assistant",
            "content": reply.text or None,
            "refusal": None,
            "annotations": [],
        }
        if reply.calls:
            message["tool_calls"] = [self._call(call) for call in reply.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason(reply)}
        return {
            **self._head(request, fresh_id("chatcmpl-"), "chat.completion"),
            "choices": [choice],
            "usage": self._usage(reply, request),
        }

    def events(self, reply: Reply, request: Request) -> Iterator[Event]:
        """Yield the answer as a stream."""
        head = self._head(request, fresh_id("chatcmpl-"), "chat.completion.chunk")
        options = request.body.get("stream_options") or {}
        usage: Object = {"usage": None} if options.get("include_usage") else {}
        for delta in self._deltas(reply):
            yield Event({**head, "choices": [self._delta(delta, None)], **usage})
        yield Event({**head, "choices": [self._delta({}, self._reason(reply))], **usage})
        if usage:
            yield Event({**head, "choices": [], "usage": self._usage(reply, request)})
        yield Event("[DONE]")

    def _deltas(self, reply: Reply) -> Iterator[Object]:
        yield {"role": "assistant", "content": None if reply.calls else "", "refusal": None}
        for piece in pieces(reply.text):
            yield {"content": piece}
        for index, call in enumerate(reply.calls):
            whole = self._call(call)
            yield {
                "tool_calls": [{"index": index, **whole, "function": {"name": call.name, "arguments": ""}}]
            }
            for piece in pieces(call.written):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    @staticmethod
    def _delta(delta: Object, reason: str | None) -> Object:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}

    @staticmethod
    def _call(call: ToolCall) -> Object:
        function = {"name": call.name, "arguments": call.written}
        return {"id": fresh_id("call_"), "type": "function", "function": function}

    @staticmethod
    def _reason(reply: Reply) -> str:
        return "tool_calls" if reply.calls else "stop"

    @staticmethod
    def _head(request: Request, id_: str, kind: str) -> Object:
        return {
            "id": id_,
            "object": kind,
            "created": int(time.time()),
            "model": request.model,
            "service_tier": "default",
            "system_fingerprint": None,
        }

    @staticmethod
    def _usage(reply: Reply, request: Request) -> Object:
        tokens = reply.tokens(request)
        return {
            "prompt_tokens": tokens.input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }


class Responses(_OpenAI):
    """``/responses``."""

    def plain(self, reply: Reply, request: Request) -> Object:
        """Return the answer in one piece."""
        return self._whole(self._head(request), self._items(reply), reply, request)

    def events(self, reply: Reply, request: Request) -> Iterator[Event]:
        """Yield the answer as a stream, each event with its number."""
        numbers = count()
        for kind, fields in self._steps(reply, request):
            yield Event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    def broken(self, text: str) -> Event:
        """Return what stands in a stream that the provider gives up."""
        data = {"type": "error", "sequence_number": 0, "code": "server_error", "message": text, "param": None}
        return Event(data, "error")

    def _steps(self, reply: Reply, request: Request) -> Iterator[tuple[str, Object]]:
        head = self._head(request)
        begun = {**head, "status": "in_progress", "output": [], "usage": None}
        yield "response.created", {"response": begun}
        yield "response.in_progress", {"response": begun}
        items = self._items(reply)
        for index, item in enumerate(items):
            yield from self._item(index, item)
        yield "response.completed", {"response": self._whole(head, items, reply, request)}

    def _item(self, index: int, item: Object) -> Iterator[tuple[str, Object]]:
        empty: Object = {"content": []} if item["type"] == "message" else {"arguments": ""}
        started = {**item, **empty, "status": "in_progress"}
        yield "response.output_item.added", {"output_index": index, "item": started}
        yield from self._words(index, item) if item["type"] == "message" else self._arguments(index, item)
        yield "response.output_item.done", {"output_index": index, "item": item}

    @staticmethod
    def _words(index: int, item: Object) -> Iterator[tuple[str, Object]]:
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        (part,) = item["content"]
        yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**place, "part": part}

    @staticmethod
    def _arguments(index: int, item: Object) -> Iterator[tuple[str, Object]]:
        place = {"item_id": item["id"], "output_index": index}
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**place, "delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield "response.function_call_arguments.done", {**place, **done}

    @staticmethod
    def _items(reply: Reply) -> list[Object]:
        items: list[Object] = []
        if reply.text or not reply.calls:
            part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            message = {"id": fresh_id("msg_"), "type": "message", "role": "assistant", "status": "completed"}
            items.append({**message, "content": [part]})
        for call in reply.calls:
            ids = {"id": fresh_id("fc_"), "call_id": fresh_id("call_"), "status": "completed"}
            items.append({"type": "function_call", **ids, "name": call.name, "arguments": call.written})
        return items

    @staticmethod
    def _head(request: Request) -> Object:
        settings = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "instructions": None}
        return {
            "id": fresh_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": request.model,
            **{name: request.body.get(name) or value for name, value in settings.items()},
            "metadata": {},
            "temperature": 1.0,
            "top_p": 1.0,
        }

    @staticmethod
    def _whole(head: Object, items: list[Object], reply: Reply, request: Request) -> Object:
        tokens = reply.tokens(request)
        usage = {
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens.input + tokens.output,
        }
        return {**head, "output": items, "usage": usage}


class Embeddings(_OpenAI):
    """``/embeddings``: each text has a vector of its own, the same one each time."""

    def plain(self, reply: Reply, request: Request) -> Object:
        """Return a vector for each text."""
        texts = request.body["input"]
        texts = texts if isinstance(texts, list) else [texts]
        packed = request.body.get("encoding_format") == "base64"
        data = [self._one(index, text, packed) for index, text in enumerate(texts)]
        tokens = reply.tokens(request).input
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": request.model, "usage": usage}

    def events(self, reply: Reply, request: Request) -> Iterator[Event]:
        """Embeddings come in one piece."""
        raise NotImplementedError

    @staticmethod
    def _one(index: int, text: object, packed: bool) -> Mapping[str, Any]:
        numbers = [byte / 255 for byte in hashlib.sha256(str(text).encode()).digest()[:8]]
        vector = base64.b64encode(struct.pack("<8f", *numbers)).decode() if packed else numbers
        return {"object": "embedding", "index": index, "embedding": vector}
