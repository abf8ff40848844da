"""A server that speaks enough of the OpenAI protocol for the example: it asks for two tools, then answers.

Like the real one it refuses a conversation in which a tool call was left without an answer.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def reply_to(messages: list[dict]) -> tuple[int, dict]:
    """Return the status and the body of the response."""
    asked = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    answered = {
        message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"
    }
    missing = [call_id for call_id in asked if call_id not in answered]
    if missing:
        text = f"tool_call_ids without a response message: {', '.join(missing)}"
        return 400, {
            "error": {"message": text, "type": "invalid_request_error", "param": "messages", "code": None}
        }
    if answered:
        return 200, completion(
            {"role": "assistant", "content": f"The weather: {', '.join(answered.values())}."}, "stop"
        )
    calls = [
        {
            "id": f"call_{city.lower()}0000001",
            "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps({"city": city})},
        }
        for city in ("Oslo", "Rome")
    ]
    return 200, completion({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls")


def completion(message: dict, reason: str) -> dict:
    """Return a chat completion with one choice."""
    return {
        "id": "chatcmpl-00000001",
        "object": "chat.completion",
        "created": 1796000000,
        "model": "small",
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19},
    }


class Handler(BaseHTTPRequestHandler):
    """Answers every POST as a chat completion."""

    def do_POST(self) -> None:
        """Answer one request."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, body = reply_to(request["messages"])
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
