"""A refund agent that counts the thirty days right."""

from dataclasses import dataclass
from datetime import date

import stepfork


@dataclass(frozen=True)
class Order:
    """An order as the order service knows it."""

    id: str
    delivered: date
    amount: int


@dataclass(frozen=True)
class Resolution:
    """What the customer is told."""

    status: str
    amount: int = 0


@stepfork.tool
def lookup_order(order_id: str) -> Order:
    """Ask the order service."""
    return Order(order_id, date(2026, 11, 2), 80)


@stepfork.tool
def refund(order_id: str, amount: int) -> str:
    """Move money."""
    return f"refunded {amount} for {order_id}"


@stepfork.tool
def today() -> date:
    """The clock is a part of the outside world too."""
    return date(2026, 11, 30)


@stepfork.step
def is_eligible(order: Order) -> bool:
    """Refunds are granted within thirty days of the delivery."""
    return (today() - order.delivered).days <= 30


@stepfork.step
def handle(order_id: str) -> Resolution:
    """Answer one request: the root of a run."""
    order = lookup_order(order_id)
    if not is_eligible(order):
        return Resolution("denied")
    refund(order.id, order.amount)
    return Resolution("refunded", order.amount)


if __name__ == "__main__":
    print(handle("B-204"))
