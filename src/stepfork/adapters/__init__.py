"""Adapters: they find the calls of a library that nobody has decorated, so that an agent needs no edit.

An adapter of your own is an :class:`Adapter`, named by an entry point of the group ``stepfork.adapters``::

    adapter = Adapter("shop", {"shop.client": "shop_stepfork:hook"})


    def hook(module, patches):
        patches.call(module.Client, "lookup", Boundary("tool", described))


    def described(client, args, kwargs):
        return "shop.lookup", {"order_id": args[0]}

``stepfork.testing`` checks that it keeps what adapters promise.
"""

from __future__ import annotations

from stepfork.adapters._adapter import Adapter
from stepfork.adapters._boundary import Boundary
from stepfork.adapters._patches import Patches

__all__ = ["Adapter", "Boundary", "Patches"]
