"""A refund agent: orders from partners have a ``total`` in the place of an ``amount``."""

import stepfork

ORDERS = {
    "A-16": {"id": "A-16", "status": "delivered", "amount": 40},
    "A-17": {"id": "A-17", "status": "damaged", "total": 120, "partner": "eu-west"},
}


@stepfork.tool
def lookup_order(order_id: str) -> dict:
    """Ask the order service. In a replay this body never runs."""
    return ORDERS[order_id]


@stepfork.tool
def refund(order_id: str, amount: int) -> str:
    """Move money."""
    return f"refunded {amount} for {order_id}"


@stepfork.model
def ask(messages: list[dict]) -> dict:
    """Ask a language model; this one has a single answer, so that the example needs no key."""
    return {"action": "refund", "reason": "the goods arrived damaged"}


@stepfork.step
def decide(order: dict) -> int:
    """Return how much to refund."""
    answer = ask([{"role": "user", "content": f"Order {order['id']} is {order['status']}. Refund it?"}])
    return order.get("amount", order.get("total")) if answer["action"] == "refund" else 0


@stepfork.step
def handle(ticket: dict) -> str:
    """Answer one ticket: the root of a run."""
    order = lookup_order(ticket["order_id"])
    amount = decide(order)
    return refund(order["id"], amount)


if __name__ == "__main__":
    print(handle({"id": "T-1", "order_id": "A-17", "text": "My parcel arrived broken."}))
