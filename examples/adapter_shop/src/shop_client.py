"""A client of a shop's server: the library that the adapter is for, which knows nothing of stepfork."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from urllib.request import urlopen


class NotFound(LookupError):
    def __init__(self, order_id: str) -> None:
        super().__init__(f"no order {order_id}")
        self.order_id = order_id


@dataclass
class Order:
    order_id: str
    total: int


class Client:
    def __init__(self, url: str) -> None:
        self._url = url

    def lookup(self, order_id: str) -> Order:
        order = self._get(f"orders/{order_id}")
        if order is None:
            raise NotFound(order_id)
        return Order(order_id, order["total"])

    async def alookup(self, order_id: str) -> Order:
        return await asyncio.to_thread(self.lookup, order_id)

    def history(self, order_id: str) -> Iterator[str]:
        for event in self._get(f"history/{order_id}") or ():
            yield event["text"]
            if event.get("fails"):
                raise ConnectionError("the shop hung up")

    async def ahistory(self, order_id: str) -> AsyncIterator[str]:
        for text in self.history(order_id):
            await asyncio.sleep(0)
            yield text

    def _get(self, path: str):
        with urlopen(f"{self._url}/{path}") as answer:
            return json.load(answer)
