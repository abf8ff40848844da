"""The adapter: which functions of shop_client are tools, and what they are called."""

from stepfork.adapters import Adapter, Boundary

METHODS = {
    "lookup": "shop.lookup",
    "alookup": "shop.lookup",
    "history": "shop.history",
    "ahistory": "shop.history",
}


def hook(module, patches):
    """Called once shop_client is imported, with the module."""
    for method, name in METHODS.items():
        patches.call(module.Client, method, Boundary("tool", described_as(name)))


def described_as(name):
    """Say what a call is: its name, and its arguments by name. Not the client, which holds an address."""

    def describe(client, args, kwargs):
        return name, {"order_id": args[0] if args else kwargs["order_id"]}

    return describe


adapter = Adapter("shop", {"shop_client": hook})
