"""A fixed agent in which the function of a plain tool is not found any more, though the model asks for it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import stepfork
from adapters.provider import provider
from adapters.replies import asks, says
from stepfork._recording import read_run
from stepfork.adapters import _plain_tools
from stepfork.adapters._switch import switched_on

LOOP = """
import json
import stepfork
from adapters.httpx_cases import libraries

URL = "http://127.0.0.1:9"
RAN = []
NAMES = ["lookup", "refund"]

def work(what):
    RAN.append(what)
    return what

def ask(messages):
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in NAMES]
    body = {"model": "test-model", "messages": messages, "tools": tools}
    with libraries()[0].Client() as client:
        return client.post(f"{URL}/v1/chat/completions", json=body).json()["choices"][0]["message"]

def main():
    messages = [{"role": "user", "content": "pay back A-17"}]
    while True:
        reply = ask(messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return reply["content"]
        for call in reply["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            content = execute(name, arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
"""

PLAIN = """
def lookup(order_id):
    return work(f"look up {order_id}")

def refund(order_id):
    return work(f"refund {order_id}")

def execute(name, arguments):
    return globals()[name](**arguments)
"""

HIDDEN = """
def one(order_id):
    return work(f"look up {order_id}")

def other(order_id):
    return work(f"refund {order_id}")

def execute(name, arguments):
    return one(**arguments) if name == "lookup" else other(**arguments)
"""

SHARED = """
def dispatch(name, order_id):
    return work(f"{name} {order_id}")

TABLE = {"lookup": dispatch, "refund": dispatch}

def execute(name, arguments):
    return TABLE[name](name, **arguments)
"""

SHARED_HIDDEN = """
def dispatch(name, order_id):
    return work(f"{name} {order_id}")

def execute(name, arguments):
    return dispatch(name, **arguments)
"""

ENDS_ITSELF = """
class Done(Exception):
    pass

def execute(name, arguments):
    if name == "refund":
        raise Done
    return TABLE[name](**arguments)

until_done = main

def main():
    try:
        return until_done()
    except Done:
        return "done"
"""

INLINE = (
    ENDS_ITSELF
    + """
def lookup(order_id):
    return work(f"look up {order_id}")

TABLE = {"lookup": lookup}
"""
)

SHARED_INLINE = (
    ENDS_ITSELF
    + """
def dispatch(order_id):
    return work(f"look up {order_id}")

NAMES = ["lookup", "count", "refund"]
TABLE = {"lookup": dispatch, "count": dispatch}
"""
)

MARKED = HIDDEN.replace("def one", '@stepfork.tool(name="lookup")\ndef one').replace(
    "def other", '@stepfork.tool(name="refund")\ndef other'
)

MADE_LATE = """
def tools():
    def lookup(order_id):
        return work(f"look up {order_id}")

    def refund(order_id):
        return work(f"refund {order_id}")

    return {"lookup": lookup, "refund": refund}

TOOLS = tools()

def execute(name, arguments):
    return TOOLS[name](**arguments)
"""

NO_LONGER_DECLARED = 'NAMES = ["lookup"]\n'

REFUSED = (
    NO_LONGER_DECLARED
    + """
def lookup(order_id):
    return work(f"look up {order_id}")

def execute(name, arguments):
    return lookup(**arguments) if name == "lookup" else "there is no such tool"
"""
)


def load(folder: Path, source: str) -> ModuleType:
    """Return the agent with these tools, imported anew."""
    file = folder / "hidden_shop.py"
    file.write_text(LOOP + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("hidden_shop", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(folder: Path, source: str) -> Path:
    """Return the run of an agent that is asked for both tools, one after the other."""
    path = folder / "run.jsonl"
    script = [asks(("lookup", {"order_id": "A-17"})), asks(("refund", {"order_id": "A-17"})), says("done")]
    agent = load(folder, source)
    with provider(script) as server, switched_on(["httpx"]), stepfork.run("shop", path=path):
        vars(agent)["URL"] = server.url
        assert agent.main() == "done"
    assert agent.RAN
    _plain_tools.turn_back()
    return path


@pytest.mark.parametrize(
    ("recorded", "fixed"),
    [(PLAIN, HIDDEN), (SHARED, SHARED_HIDDEN), (SHARED, HIDDEN), (MADE_LATE, HIDDEN)],
    ids=["called otherwise", "one function for all", "several for one", "functions made late"],
)
def test_a_replay_stops_before_the_answer_that_asks_for_a_hidden_tool(
    recorded: str, fixed: str, tmp_path: Path
) -> None:
    """Its function would reach the world: it is not run once, and the stop says what to do."""
    path = record(tmp_path, recorded)
    agent = load(tmp_path, fixed)
    replayed = stepfork.replay(path, agent.main)
    assert agent.RAN == []
    assert [(each.call.name, each.why) for each in replayed.frontiers] == [
        ("lookup", "its function was not found, and would run live: decorate it")
    ]


@pytest.mark.parametrize("fixed", [MARKED, MADE_LATE, PLAIN], ids=["marked", "late", "same"])
def test_a_tool_that_is_carried_out_in_another_way_is_served_as_before(fixed: str, tmp_path: Path) -> None:
    """Found by its mark, under its name in a table, or made anew: such a fix is followed."""
    path = record(tmp_path, PLAIN)
    agent = load(tmp_path, fixed)
    replayed = stepfork.replay(path, agent.main)
    assert agent.RAN == []
    assert (replayed.value, replayed.frontiers) == ("done", [])


@pytest.mark.parametrize("source", [PLAIN, MADE_LATE], ids=["a module's function", "made late"])
def test_a_tool_that_is_not_offered_any_more_does_not_run_either(source: str, tmp_path: Path) -> None:
    """The recorded model asks for it still; its function is there, and would do its work in the world."""
    path = record(tmp_path, source)
    agent = load(tmp_path, source + NO_LONGER_DECLARED)
    stepfork.replay(path, agent.main)
    assert agent.RAN == []


def test_an_agent_that_refuses_a_tool_that_it_does_not_offer_goes_on(tmp_path: Path) -> None:
    """The fix is that the tool is gone: nothing could run, and the agent's own answer stands."""
    path = record(tmp_path, PLAIN)
    agent = load(tmp_path, REFUSED)
    replayed = stepfork.replay(path, agent.main)
    assert agent.RAN == []
    assert [each.call.name for each in replayed.frontiers if each.call.kind == "tool"] == []


@pytest.mark.parametrize(
    "source", [INLINE, SHARED_INLINE], ids=["beside a plain tool", "beside a shared one"]
)
def test_what_the_agent_does_by_itself_when_asked_for_a_tool_is_no_hidden_function(
    source: str, tmp_path: Path
) -> None:
    """A tool such as ``final_answer`` has no function, neither when it was recorded nor in the replay."""
    path = record(tmp_path, source)
    agent = load(tmp_path, source)
    replayed = stepfork.replay(path, agent.main)
    assert agent.RAN == []
    assert (replayed.value, replayed.frontiers) == ("done", [])


def test_a_recording_says_which_of_its_tools_have_no_mark(tmp_path: Path) -> None:
    """A replay is to find these anew; those that a decorator marks come by themselves."""
    run = read_run(record(tmp_path, PLAIN))
    assert [(call.name, call.plain) for call in run.walk() if call.kind == "tool"] == [
        ("lookup", True),
        ("refund", True),
    ]
