"""Everything that adapters promise, by samples of the library's calls."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import shop_client
from stepfork_shop import adapter

from stepfork.testing import Sample, adapter_checks

ANSWERS = {
    "/orders/A-17": {"total": 120},
    "/orders/A-18": {"total": 80},
    "/orders/A-19": None,
    "/history/A-17": [{"text": "ordered"}, {"text": "sent"}],
    "/history/A-18": [{"text": "ordered"}, {"text": "lost", "fails": True}],
    "/history/A-20": [{"text": "ordered"}, {"text": "paid"}, {"text": "sent"}],
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWERS[self.path]).encode())

    def log_message(self, *_args):
        pass


@pytest.fixture(scope="module", autouse=True)
def shop():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client._url = f"http://127.0.0.1:{server.server_port}"
        yield
        server.shutdown()


@contextmanager
def unplugged():
    def refuse(self, path):
        raise AssertionError(f"the shop was asked for {path}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop_client.Client, "_get", refuse)
        yield


client = shop_client.Client("")
SAMPLES = {
    "a call": Sample(lambda: client.lookup("A-17"), records=("shop.lookup",)),
    "a call that raises": Sample(lambda: client.lookup("A-19")),
    "a coroutine": Sample(lambda: client.alookup(order_id="A-18")),
    "a stream": Sample(lambda: client.history("A-17"), records=("shop.history",)),
    "a stream that breaks": Sample(lambda: client.history("A-18")),
    "an async stream": Sample(lambda: client.ahistory("A-20")),
}


@pytest.mark.parametrize("check", adapter_checks(adapter, SAMPLES, unplugged=unplugged), ids=str)
def test_the_adapter(check):
    check()
