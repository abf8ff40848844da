"""Agents with a tool loop of their own, in each way in which people write one, as source files."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import stepfork
from stepfork.adapters import _plain_tools

HEAD = '''
import asyncio
import contextlib
import dataclasses
import enum
import functools
import math
import threading
import types
import typing
from concurrent.futures import ThreadPoolExecutor

import stepfork
from plain_agents import ask, ask_async, declare

RAN = []
MAY_RUN = True

def work(what):
    """What a tool does in the world; a replay must never come here."""
    if not MAY_RUN:
        raise AssertionError(f"{what} was executed")
    RAN.append(what)
    return f"{what}: done"
'''

LOOP = """
def loop(execute, names=("lookup", "refund")):
    messages = [{"role": "user", "content": "where is A-17?"}]
    while True:
        reply = ask({"messages": messages, "tools": declare(*names)})
        messages.append(reply)
        if not reply.get("tool_calls"):
            return [message["content"] for message in messages if message["role"] == "tool"]
        for call in reply["tool_calls"]:
            content = execute(call["function"]["name"], call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
"""

FUNCTIONS = """
def lookup(order_id, *, region="eu"):
    return work(f"lookup {order_id} {region}")

def refund(order_id, amount=1):
    return work(f"refund {order_id} {amount}")
"""

RUN_PLAIN = """
@stepfork.step
def main():
    return loop(execute)
"""

STYLES: dict[str, str] = {
    "a table": FUNCTIONS
    + """
TOOLS = {"lookup": lookup, "refund": refund}

def execute(name, args):
    return TOOLS[name](**args)
""",
    "a table with other names": """
def find_order(order_id):
    return work(f"lookup {order_id}")

def pay_back(order_id):
    return work(f"refund {order_id}")

TOOLS = {"lookup": find_order, "refund": pay_back}

def execute(name, args):
    return TOOLS[name](**args)
""",
    "the global names": FUNCTIONS
    + """
def execute(name, args):
    return globals()[name](**args)
""",
    "one case for each": FUNCTIONS
    + """
def execute(name, args):
    if name == "lookup":
        return lookup(args["order_id"])
    elif name == "refund":
        return refund(**args)
""",
    "methods": """
class Shop:
    def lookup(self, order_id):
        return work(f"lookup {order_id}")

    def refund(self, order_id):
        return work(f"refund {order_id}")

    def execute(self, name, args):
        return getattr(self, name)(**args)

    def run(self):
        return loop(self.execute)

@stepfork.step
def main():
    return Shop().run()
""",
    "methods with a prefix": """
class Shop:
    def tool_lookup(self, order_id):
        return work(f"lookup {order_id}")

    def tool_refund(self, order_id):
        return work(f"refund {order_id}")

@stepfork.step
def main():
    shop = Shop()
    return loop(lambda name, args: getattr(shop, f"tool_{name}")(**args))
""",
    "methods of what the agent has": """
class Base:
    def refund(self, order_id):
        return work(f"refund {order_id}")

class Toolbox(Base):
    def lookup(self, order_id):
        return work(f"lookup {order_id}")

    def refund(self, order_id):
        return super().refund(order_id)

class Agent:
    def __init__(self):
        self.toolbox = Toolbox()

    def run(self):
        return loop(lambda name, args: getattr(self.toolbox, name)(**args))

@stepfork.step
def main():
    return Agent().run()
""",
    "a list of entries": """
def one(order_id):
    return work(f"lookup {order_id}")

def other(order_id):
    return work(f"refund {order_id}")

ENTRIES = [{"name": "lookup", "fn": one, "on_error": print}, {"name": "refund", "fn": other}]

def execute(name, args):
    return {each["name"]: each["fn"] for each in ENTRIES}[name](**args)
""",
    "entries with a schema": """
def one(order_id):
    return work(f"lookup {order_id}")

def other(order_id):
    return work(f"refund {order_id}")

ENTRIES = [
    {"schema": {"type": "function", "function": {"name": "lookup"}}, "callable": one},
    {"schema": {"type": "function", "function": {"name": "refund"}}, "callable": other},
]

def execute(name, args):
    for each in ENTRIES:
        if each["schema"]["function"]["name"] == name:
            return each["callable"](**args)
""",
    "records": """
@dataclasses.dataclass(slots=True)
class Tool:
    name: str
    fn: typing.Callable

def one(order_id):
    return work(f"lookup {order_id}")

@stepfork.step
def main():
    tools = [Tool("lookup", one), Tool("refund", lambda order_id: work(f"refund {order_id}"))]
    by_name = {tool.name: tool for tool in tools}
    return loop(lambda name, args: by_name[name].fn(**args))
""",
    "named tuples": """
class Tool(typing.NamedTuple):
    name: str
    run: typing.Callable

def one(order_id):
    return work(f"lookup {order_id}")

def other(order_id):
    return work(f"refund {order_id}")

TOOLS = (Tool("lookup", one), Tool("refund", other))

def execute(name, args):
    return next(tool for tool in TOOLS if tool.name == name).run(**args)
""",
    "namespaces": """
def one(order_id):
    return work(f"lookup {order_id}")

def other(order_id):
    return work(f"refund {order_id}")

TOOLS = [types.SimpleNamespace(name="lookup", call=one), types.SimpleNamespace(name="refund", call=other)]

def execute(name, args):
    return next(tool for tool in TOOLS if tool.name == name).call(**args)
""",
    "a list of functions": """
def make():
    def lookup(order_id):
        return work(f"lookup {order_id}")

    def refund(order_id):
        return work(f"refund {order_id}")

    return [lookup, refund]

@stepfork.step
def main():
    tools = make()
    return loop(lambda name, args: {tool.__name__: tool for tool in tools}[name](**args))
""",
    "lambdas": """
TOOLS = {
    "lookup": lambda order_id: work(f"lookup {order_id}"),
    "refund": lambda order_id, amount=2: work(f"refund {order_id} {amount}"),
}

def execute(name, args):
    return TOOLS[name](**args)
""",
    "partials": """
def one(region, order_id):
    return work(f"lookup {order_id} {region}")

def other(region, order_id):
    return work(f"refund {order_id} {region}")

TOOLS = {"lookup": functools.partial(one, "eu"), "refund": functools.partial(other, region="us")}

def execute(name, args):
    return TOOLS[name](**args)
""",
    "one function for all": """
def request(what, order_id):
    return work(f"{what} {order_id}")

TOOLS = {name: functools.partial(request, name) for name in ("lookup", "refund")}

def execute(name, args):
    return TOOLS[name](**args)
""",
    "closures": """
@stepfork.step
def main():
    orders = {"A-17": "shipped"}

    def lookup(order_id):
        return work(f"lookup {order_id} {orders[order_id]}")

    def refund(order_id):
        return work(f"refund {order_id} {len(orders)}")

    handlers = {"lookup": lookup, "refund": refund}
    return loop(lambda name, args: handlers[name](**args))
""",
    "a registry": """
class Registry:
    def __init__(self):
        self.tools = {}

    def tool(self, function):
        @functools.wraps(function)
        def checked(*args, **kwargs):
            return function(*args, **kwargs)

        self.tools[function.__name__] = checked
        return checked

registry = Registry()

@registry.tool
def lookup(order_id):
    return work(f"lookup {order_id}")

@registry.tool
def refund(order_id):
    return work(f"refund {order_id}")

def execute(name, args):
    return registry.tools[name](**args)
""",
    "a registry of functions that are all called alike": """
REGISTRY = {}

def register(name):
    def decorate(function):
        REGISTRY[name] = function
        return function
    return decorate

@register("lookup")
def _(order_id):
    return work(f"lookup {order_id}")

@register("refund")
def _(order_id, amount=1):
    return work(f"refund {order_id} {amount}")

def execute(name, args):
    return REGISTRY[name](**args)
""",
    "names that are something else by now": FUNCTIONS
    + """
TOOLS = {"lookup": lookup, "refund": refund}
lookup, refund = 5, object()

def execute(name, args):
    return TOOLS[name](**args)
""",
    "marked functions": """
def tool(name):
    def mark(function):
        function.tool_name = name
        ALL.append(function)
        return function
    return mark

ALL = []

@tool("lookup")
def one(order_id):
    return work(f"lookup {order_id}")

@tool("refund")
def other(order_id):
    return work(f"refund {order_id}")

def execute(name, args):
    return next(each for each in ALL if each.tool_name == name)(**args)
""",
    "pairs": """
def one(order_id):
    return work(f"lookup {order_id}")

def other(order_id):
    return work(f"refund {order_id}")

PAIRS = [({"name": "lookup"}, one), ({"name": "refund"}, other)]

def execute(name, args):
    return {schema["name"]: function for schema, function in PAIRS}[name](**args)
""",
    "classes with a name": """
class Lookup:
    name = "lookup"

    def run(self, order_id):
        return work(f"lookup {order_id}")

class Refund:
    name = "refund"

    def run(self, order_id):
        return work(f"refund {order_id}")

TOOLS = [Lookup(), Refund()]

def execute(name, args):
    return {tool.name: tool for tool in TOOLS}[name].run(**args)
""",
    "objects that are called": """
class Lookup:
    def __call__(self, order_id):
        return work(f"lookup {order_id}")

class Refund:
    def __call__(self, order_id):
        return work(f"refund {order_id}")

TOOLS = {"lookup": Lookup(), "refund": Refund()}

def execute(name, args):
    return TOOLS[name](**args)
""",
    "static and class methods": """
class Tools:
    @staticmethod
    def lookup(order_id):
        return work(f"lookup {order_id}")

    @classmethod
    def refund(cls, order_id):
        return work(f"{cls.__name__} refund {order_id}")

def execute(name, args):
    return getattr(Tools, name)(**args)
""",
    "bound methods": """
class Orders:
    def find(self, order_id):
        return work(f"lookup {order_id}")

    def pay_back(self, order_id):
        return work(f"refund {order_id}")

orders = Orders()
TOOLS = {"lookup": orders.find, "refund": orders.pay_back}

def execute(name, args):
    return TOOLS[name](**args)
""",
    "an enumeration": """
class Name(str, enum.Enum):
    LOOKUP = "lookup"
    REFUND = "refund"

def one(order_id):
    return work(f"lookup {order_id}")

def other(order_id):
    return work(f"refund {order_id}")

TOOLS = {Name.LOOKUP: one, Name.REFUND: other}

def execute(name, args):
    return TOOLS[Name(name)](**args)
""",
    "a cache": """
@functools.lru_cache
def lookup(order_id):
    return work(f"lookup {order_id}")

@functools.cache
def refund(order_id):
    return work(f"refund {order_id}")

TOOLS = [lookup, refund]

def execute(name, args):
    return globals()[name](**args)
""",
    "a module": """
import plain_shop_tools

def execute(name, args):
    plain_shop_tools.work = work
    return getattr(plain_shop_tools, name)(**args)
""",
    "a dispatcher in a module": """
from plain_shop_tools import dispatch

def execute(name, args):
    dispatch.__globals__["work"] = work
    return dispatch(name, args)
""",
    "a module for each": """
import plain_tool_lookup as lookup
import plain_tool_refund as refund

def execute(name, args):
    module = globals()[name]
    module.work = work
    return module.run(**args)
""",
    "coroutines": """
async def lookup(order_id):
    await asyncio.sleep(0)
    return work(f"lookup {order_id}")

async def refund(order_id):
    return work(f"refund {order_id}")

TOOLS = {"lookup": lookup, "refund": refund}

def execute(name, args):
    return asyncio.run(TOOLS[name](**args))
""",
    "generators": """
def lookup(order_id):
    yield work(f"lookup {order_id}")
    yield "and more"

async def refund(order_id):
    yield work(f"refund {order_id}")

async def drawn(stream):
    return [each async for each in stream]

def execute(name, args):
    stream = globals()[name](**args)
    return "".join(stream) if name == "lookup" else "".join(asyncio.run(drawn(stream)))
""",
    "tools that raise": """
def lookup(order_id):
    work(f"lookup {order_id}")
    raise KeyError(order_id)

async def refund(order_id):
    work(f"refund {order_id}")
    raise TimeoutError("too late", order_id)

def execute(name, args):
    try:
        result = globals()[name](**args)
        return asyncio.run(result) if asyncio.iscoroutine(result) else result
    except Exception as error:
        return repr(error)
""",
    "tools in parallel": FUNCTIONS
    + """
TOOLS = {"lookup": lookup, "refund": refund}

def execute(name, args):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(TOOLS[name], **args).result()
""",
    "requests from a thread": """
@stepfork.step
def main():
    def lookup(order_id):
        return work(f"lookup {order_id}")

    def refund(order_id):
        return work(f"refund {order_id}")

    tools = {"lookup": lookup, "refund": refund}
    messages = []
    for turn in range(3):
        with ThreadPoolExecutor(1) as pool:
            body = {"messages": list(messages), "tools": declare("lookup", "refund")}
            reply = pool.submit(ask, body).result()
        messages.append(reply)
        for call in reply.get("tool_calls", ()):
            content = tools[call["function"]["name"]](**call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return [message["content"] for message in messages if message["role"] == "tool"]
""",
    "requests with a time limit": """
@stepfork.step
async def main():
    async def lookup(order_id):
        return work(f"lookup {order_id}")

    async def refund(order_id):
        return work(f"refund {order_id}")

    tools = {"lookup": lookup, "refund": refund}
    messages = []
    for turn in range(3):
        body = {"messages": list(messages), "tools": declare("lookup", "refund")}
        (reply,) = await asyncio.gather(asyncio.wait_for(ask_async(body), 30))
        messages.append(reply)
        for call in reply.get("tool_calls", ()):
            content = await tools[call["function"]["name"]](**call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return [message["content"] for message in messages if message["role"] == "tool"]
""",
}

SHOP_TOOLS = """
def work(what):
    raise AssertionError

def lookup(order_id):
    return work(f"lookup {order_id}")

def refund(order_id):
    return work(f"refund {order_id}")

def dispatch(name, args):
    match name:
        case "lookup":
            return lookup(**args)
        case "refund":
            return refund(**args)
"""


MODULES = {
    "plain_shop_tools": SHOP_TOOLS,
    **{
        f"plain_tool_{name}": f"""
def other():
    return 1

def run(order_id):
    return work(f"{name} {{order_id}}")
"""
        for name in ("lookup", "refund")
    },
}


def declare(*names: str) -> list[dict[str, Any]]:
    """Return tools as a request to OpenAI declares them."""
    return [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]


def ask(body: dict[str, Any]) -> dict[str, Any]:
    """Stand for an SDK: what declares tools is looked at before the model is asked."""
    _plain_tools.look(body)
    return _model(body)


async def ask_async(body: dict[str, Any]) -> dict[str, Any]:
    """Do the same in an event loop."""
    _plain_tools.look(body)
    return _model(body)


@stepfork.model(name="model")
def _model(body: dict[str, Any]) -> dict[str, Any]:
    """Ask for each of the tools once, one after the other, and then say that it is done."""
    done = sum(message.get("role") == "tool" for message in body["messages"])
    names = [tool["function"]["name"] for tool in body["tools"]]
    if done == len(names):
        return {"role": "assistant", "content": "done"}
    call = {"id": f"call_{done}", "function": {"name": names[done], "arguments": {"order_id": "A-17"}}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


_numbers = itertools.count()


def load(folder: Path, source: str, *, may_run: bool) -> ModuleType:
    """Import an agent from a file of its own, anew."""
    text = textwrap.dedent(HEAD) + LOOP + textwrap.dedent(source)
    text += "" if "def main(" in source else RUN_PLAIN
    sources = {**MODULES, "plain_shop_agent": text}
    for name, content in sources.items():
        (folder / f"{name}.py").write_text(content, encoding="utf-8")
        sys.modules.pop(name, None)
    for name in sources:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    module.MAY_RUN = may_run  # type: ignore[attr-defined]
    return module
