"""Never run: checked by mypy --strict and pyright. A decorator must not change a type (B07)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, assert_type, overload

import stepfork
from stepfork import tolerance


@stepfork.tool
def bare(order_id: str, region: str | None = None) -> dict[str, int]:
    return {order_id: len(region or "")}


assert_type(bare("A-17"), dict[str, int])
bare(17)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@stepfork.tool(name="search", ignore=("conn",), match=("query",), mutates=(), repeats=True)
def with_options(query: str, conn: object) -> list[str]:
    return [query, repr(conn)]


assert_type(with_options("x", object()), list[str])


@stepfork.model(tolerance={"output": tolerance.similar(0.9)})
async def ask(messages: list[dict[str, str]]) -> str:
    return str(messages)


asked: Callable[[list[dict[str, str]]], Coroutine[Any, Any, str]] = ask


@stepfork.step(expected=ValueError)
async def handle(ticket: str) -> int:
    return len(await ask([{"role": ticket}]))


agent: Callable[[str], Awaitable[int]] = handle


@stepfork.tool
def chunks(text: str) -> Iterator[str]:
    yield text


assert_type(chunks("x"), Iterator[str])


@stepfork.model
async def stream(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


assert_type(stream("x"), AsyncIterator[bytes])


class Shop:
    @stepfork.tool
    def price(self, sku: str) -> float:
        return float(len(sku))

    @stepfork.tool
    @classmethod
    def opened(cls, name: str) -> "Shop":
        return cls() if name else Shop()

    @staticmethod
    @stepfork.tool
    def currency(country: str) -> str:
        return country

    @property
    @stepfork.step
    def stock(self) -> int:
        return 0


assert_type(Shop().price("x"), float)
assert_type(Shop.opened("x"), Shop)
assert_type(Shop.currency("de"), str)
assert_type(Shop().stock, int)
Shop().price(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@overload
def either(value: int) -> int: ...
@overload
def either(value: str) -> str: ...
@stepfork.tool
def either(value: int | str) -> int | str:
    return value


assert_type(either(1), int)
assert_type(either("x"), str)

wrapped = stepfork.tool("x".encode, name="encode", repeats=True)
assert_type(wrapped(), bytes)
assert_type(stepfork.step(str.upper, name="upper", ignore=("self",))("x"), str)


@stepfork.tool(nmae="typo")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
def misspelt() -> None: ...


with stepfork.run("refund", ticket="A-17") as opened:
    opened.fail("denied")


async def in_async_code() -> None:
    async with stepfork.run("refund") as run:
        run.fail("denied")
    assert_type(await handle("x"), int)
