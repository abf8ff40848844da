"""The protocol of Anthropic, as its API writes it: messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from adapters.replies import Event, Reply, Request, fresh_id, pieces

Object = dict[str, Any]

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class Messages:
    """``/messages``."""

    def error(self, status: int, text: str) -> Object:
        """Return the body of an error."""
        error = {"type": _ERROR_TYPES.get(status, "api_error"), "message": text}
        return {"type": "error", "error": error, "request_id": fresh_id("req_")}

    def broken(self, text: str) -> Event:
        """Return what stands in a stream that the provider gives up."""
        return Event({"type": "error", "error": {"type": "overloaded_error", "message": text}}, "error")

    def plain(self, reply: Reply, request: Request) -> Object:
        """Return the answer in one piece."""
        end = {"stop_reason": self._reason(reply), "stop_sequence": None}
        return {
            **self._head(request),
            "content": self._blocks(reply),
            **end,
            "usage": self._usage(reply, request),
        }

    def events(self, reply: Reply, request: Request) -> Iterator[Event]:
        """Yield the answer as a stream."""
        for data in self._steps(reply, request):
            yield Event(data, data["type"])

    def _steps(self, reply: Reply, request: Request) -> Iterator[Object]:
        usage = self._usage(reply, request)
        begun: Object = {"content": [], "stop_reason": None, "stop_sequence": None}
        begun["usage"] = {**usage, "output_tokens": 1}
        yield {"type": "message_start", "message": {**self._head(request), **begun}}
        for index, block in enumerate(self._blocks(reply)):
            yield from self._block(index, block)
        end = {"stop_reason": self._reason(reply), "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output_tokens"]}}
        yield {"type": "message_stop"}

    @staticmethod
    def _block(index: int, block: Object) -> Iterator[Object]:
        is_text = block["type"] == "text"
        empty: Object = {"text": ""} if is_text else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        yield {"type": "ping"}
        written = block["text"] if is_text else json.dumps(block["input"])
        for piece in pieces(written):
            delta = {"type": "text_delta", "text": piece}
            if not is_text:
                delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}

    @staticmethod
    def _blocks(reply: Reply) -> list[Object]:
        blocks: list[Object] = []
        if reply.text or not reply.calls:
            blocks.append({"type": "text", "text": reply.text})
        for call in reply.calls:
            blocks.append(
                {"type": "tool_use", "id": fresh_id("toolu_"), "name": call.name, "input": call.arguments}
            )
        return blocks

    @staticmethod
    def _reason(reply: Reply) -> str:
        return "tool_use" if reply.calls else "end_turn"

    @staticmethod
    def _head(request: Request) -> Object:
        return {"id": fresh_id("msg_"), "type": "message", "role": "assistant", "model": request.model}

    @staticmethod
    def _usage(reply: Reply, request: Request) -> Object:
        tokens = reply.tokens(request)
        return {
            "input_tokens": tokens.input - tokens.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": tokens.cached,
            "output_tokens": tokens.output,
            "service_tier": "standard",
        }
