"""An agent in a web application: each request is a run of its own, and the one that fails becomes a test."""

from __future__ import annotations

import json
import re

from adapters.conftest import Start
from adapters.replies import Reply, Request, asks, says
from stepfork._calls import Run
from stepfork._recording import read_run

APP = """
    import json

    from fastapi import FastAPI
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    from bodies import ran


    class State(MessagesState):
        amount: int


    @tool
    async def find_order(order_id: str) -> dict:
        '''Find an order.'''
        ran(f"find_order {order_id}")
        return {"id": order_id}


    model = ChatOpenAI(model="gpt-test").bind_tools([find_order])


    async def ask(state: State):
        return {"messages": [await model.ainvoke(state["messages"])]}


    def decide(state: State):
        return {"amount": json.loads(state["messages"][-1].content)["amount"]}


    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("tools", ToolNode([find_order]))
    builder.add_node("decide", decide)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", tools_condition, {"tools": "tools", END: "decide"})
    builder.add_edge("tools", "ask")
    graph = builder.compile(name="refunds")

    app = FastAPI()


    @app.get("/refund/{order_id}")
    async def refund(order_id: str):
        state = await graph.ainvoke({"messages": [HumanMessage(f"Refund {order_id}.")]})
        return {"amount": state["amount"]}
"""

DRIVER = """
    import re
    import subprocess
    import sys
    from concurrent.futures import ThreadPoolExecutor

    import httpx

    COMMAND = ["stepfork", "run", "--per-step", "--", "uvicorn", "my_agent:app", "--port", "0"]


    def ask(number):
        response = httpx.get(f"{url}/refund/A-{number}", timeout=120)
        return response.json()["amount"] if response.status_code == 200 else f"failed {number}"


    with subprocess.Popen(COMMAND, stderr=subprocess.PIPE, text=True) as server:
        for line in server.stderr:
            if found := re.search(r"http://127.0.0.1:\\d+", line):
                url = found[0]
                break
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(ask, range(20)))
        server.terminate()
        server.stderr.read()
    print("answers", answers)
    sys.exit(1)
"""

FAILING = 13


def reply(request: Request) -> Reply:
    """Answer each conversation by the order that it is about."""
    messages = request.body["messages"]
    number = int(messages[0]["content"].rpartition("-")[2].rstrip("."))
    if len(messages) == 1:
        return asks(("find_order", {"order_id": f"A-{number}"}), delay=0.2)
    said = {"total": number} if number == FAILING else {"amount": number}
    return says(json.dumps(said), delay=0.2)


def test_requests_at_once(scenario: Start) -> None:
    """Twenty requests are twenty runs, none of them mixed with another; the failed one becomes a test."""
    road = scenario(APP, reply, way="run", files={"drive.py": DRIVER}, start=("python", "drive.py"))
    expected = [f"failed {FAILING}" if number == FAILING else number for number in range(20)]
    road.record(f"answers {expected}")
    assert sorted(road.executed) == sorted(f"find_order A-{number}" for number in range(20))
    runs = [read_run(path) for path in (road.project.root / ".stepfork" / "runs").glob("*.jsonl")]
    assert sorted(_order_of(run) for run in runs) == list(range(20))
    assert road.make()["reason"] == "KeyError: 'amount'"
    road.is_still_failing("KeyError: 'amount'")
    road.change('.content)["amount"]', '.content).get("amount", 0)')
    road.is_red("the recorded failure is gone")
    road.is_accepted("accepted")


def _order_of(run: Run) -> int:
    """Return the number of the one order that a run is about, in all of its calls."""
    first, find, second = run.root.children
    found = set(re.findall(r"A-(\d+)", f"{run.root.input} {first.input} {find.input} {second.input}"))
    assert (first.name, find.name, second.name) == ("openai.chat.completions", "find_order", first.name)
    assert len(found) == 1
    return int(found.pop())
