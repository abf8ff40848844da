from __future__ import annotations

import asyncio
import inspect
import math
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import stepfork
from plain_agents import FUNCTIONS, MODULES, STYLES, declare, load
from project import Project
from stepfork._calls import Run
from stepfork._context import adapters_on, tools_on
from stepfork._frames import is_stand_in
from stepfork._making.wishes import Wishes, check_wishes
from stepfork._recording import read_run
from stepfork.adapters import _plain_tools, _switch
from stepfork.adapters._plain_tools_declared import declared, last_turn
from stepfork.adapters._switch import instrument, switched_on
from stepfork.errors import FailingRun, OptionError


@pytest.fixture(autouse=True)
def _as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_switch, "_for_good", set())
    monkeypatch.setattr(_switch, "_tools_for_good", [])
    yield
    for name in _switch._for_good.intersection(adapters_on):
        _switch._switch_off(_switch._named(name))
    _plain_tools.turn_back()
    for name in ("plain_shop_agent", *MODULES):
        sys.modules.pop(name, None)


def run(agent: ModuleType) -> Any:
    result = agent.main()
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def recorded(path: Path, agent: ModuleType) -> tuple[Any, Run]:
    with stepfork.run("shop", path=path):
        result = run(agent)
    return result, read_run(path)


def tools_of(run: Run) -> list[str]:
    return [call.name for call in run.walk() if call.kind == "tool"]


@pytest.mark.parametrize("style", STYLES)
def test_plain_tools_are_recorded_however_the_agent_finds_them_and_never_run_in_a_replay(
    style: str, tmp_path: Path
) -> None:
    """No decorator, no edit: the tools of an agent's own loop are calls of the run, and served from it."""
    agent = load(tmp_path, STYLES[style], may_run=True)
    result, before = recorded(tmp_path / "run.jsonl", agent)
    names = tools_of(before)
    assert len(agent.RAN) == 2
    assert names == (["request"] * 2 if style == "one function for all" else ["lookup", "refund"])
    _plain_tools.turn_back()

    agent = load(tmp_path, STYLES[style], may_run=False)
    replayed = stepfork.replay(tmp_path / "run.jsonl", lambda: run(agent))
    assert replayed.error is None
    assert replayed.value == result
    assert tools_of(replayed.run) == names
    assert replayed.unused_calls == []
    assert agent.RAN == []


def test_each_run_of_a_process_finds_its_own_functions(tmp_path: Path) -> None:
    """Functions that every run makes anew are tools in the second run as in the first."""
    agent = load(tmp_path, STYLES["closures"], may_run=True)
    for number in range(3):
        result, before = recorded(tmp_path / f"run{number}.jsonl", agent)
        assert tools_of(before) == ["lookup", "refund"]
        vars(agent)["MAY_RUN"] = False
        replayed = stepfork.replay(tmp_path / f"run{number}.jsonl", agent.main)
        assert replayed.value == result
        vars(agent)["MAY_RUN"] = True
    assert len(agent.RAN) == 6


TWO_AGENTS = """
class Agent:
    def __init__(self, tools):
        self.tools = tools

    def run(self, names):
        return loop(lambda name, args: self.tools[name](**args), names)

def one(order_id):
    return work(f"one {order_id}")

def make(number):
    def other(order_id):
        return work(f"other {number} {order_id}")
    return other

@stepfork.step
def main():
    results = Agent({"lookup": one}).run(["lookup"])
    for number in range(20):
        results += Agent({"lookup": make(number)}).run(["lookup"])
        results += Agent({"refund": make(number)}).run(["refund"])
    return results
"""


def test_agents_of_one_class_have_tools_of_their_own(tmp_path: Path) -> None:
    """The same lines ask for other objects: what was found for one agent is not taken for the next."""
    agent = load(tmp_path, TWO_AGENTS, may_run=True)
    result, before = recorded(tmp_path / "run.jsonl", agent)
    assert tools_of(before) == ["lookup", *["lookup", "refund"] * 20]
    agent = load(tmp_path, TWO_AGENTS, may_run=False)
    assert stepfork.replay(tmp_path / "run.jsonl", agent.main).value == result


BUILT_IN = """
TOOLS = {"lookup": math.sqrt, "refund": len}
LIST = [math.cos]

def execute(name, args):
    return str(TOOLS[name](math.pi if name == "lookup" else "abc"))
"""


def test_a_function_without_code_of_its_own_is_replaced_where_it_stands(tmp_path: Path) -> None:
    """What C wrote has no code to exchange: the table that holds it holds a tool, until it is undone."""
    agent = load(tmp_path, BUILT_IN, may_run=True)
    result, before = recorded(tmp_path / "run.jsonl", agent)
    assert tools_of(before) == ["lookup", "refund"]
    assert result == [str(math.sqrt(math.pi)), "3"]
    _plain_tools.turn_back()
    assert agent.TOOLS["lookup"] is math.sqrt
    assert agent.TOOLS["refund"] is len


PREFETCH = """
FIRST = "live"

def lookup(order_id):
    return work(f"lookup {order_id}")

def refund(order_id):
    return work(f"refund {order_id}")

def execute(name, args):
    return globals()[name](**args)

@stepfork.step
def main():
    return [lookup("before the first request"), *loop(execute)]
"""


def test_what_was_a_tool_when_a_run_began_is_one_from_the_start_of_its_replay(tmp_path: Path) -> None:
    """In a process that goes on, a tool may be called before the first request of a run declares it."""
    agent = load(tmp_path, PREFETCH, may_run=True)
    recorded(tmp_path / "first.jsonl", agent)
    result, before = recorded(tmp_path / "second.jsonl", agent)
    assert tools_of(before) == ["lookup", "lookup", "refund"]
    assert before.tools == ("plain_shop_agent:lookup=lookup", "plain_shop_agent:refund=refund")
    _plain_tools.turn_back()

    agent = load(tmp_path, PREFETCH, may_run=False)
    replayed = stepfork.replay(tmp_path / "second.jsonl", agent.main)
    assert (replayed.error, replayed.value) == (None, result)


def test_what_became_a_tool_later_in_a_run_is_one_from_the_start_of_its_replay(tmp_path: Path) -> None:
    """What it did before is not in the run: the replay stops there and says why, and nothing is executed."""
    recorded(tmp_path / "run.jsonl", load(tmp_path, PREFETCH, may_run=True))
    before = read_run(tmp_path / "run.jsonl")
    assert (before.tools, tools_of(before)) == ((), ["lookup", "refund"])
    assert before.found == ("plain_shop_agent:lookup=lookup", "plain_shop_agent:refund=refund")
    _plain_tools.turn_back()

    agent = load(tmp_path, PREFETCH, may_run=False)
    (frontier,) = stepfork.replay(tmp_path / "run.jsonl", agent.main).frontiers
    assert frontier.call.input == {"order_id": "before the first request"}
    assert frontier.why.endswith("stepfork run --tool plain_shop_agent:lookup does from the start")


def test_every_function_is_as_its_author_wrote_it_once_it_is_undone(tmp_path: Path) -> None:
    """Switched off, nothing of ours is left in the functions; and nothing is recorded any more."""
    agent = load(tmp_path, STYLES["a table"], may_run=True)
    codes = agent.lookup.__code__, agent.refund.__code__
    recorded(tmp_path / "run.jsonl", agent)
    assert agent.lookup.__code__ is not codes[0]
    _plain_tools.turn_back()
    assert (agent.lookup.__code__, agent.refund.__code__) == codes


def test_adapters_that_are_switched_off_leave_no_tool_behind(tmp_path: Path) -> None:
    """A replay switches on what it needs, and off again: so are the functions that became tools in it."""
    agent = load(tmp_path, STYLES["a table"], may_run=True)
    code = agent.lookup.__code__
    with switched_on(["openai"]):
        recorded(tmp_path / "run.jsonl", agent)
        assert agent.lookup.__code__ is not code
    assert agent.lookup.__code__ is code
    assert tools_on == set()


MARKED = """
@stepfork.tool
def lookup(order_id):
    return work(f"lookup {order_id}")

@functools.wraps(lookup)
def twice(order_id):
    return lookup(order_id)

@stepfork.tool(name="pay_back")
def refund(order_id):
    return work(f"refund {order_id}")

TOOLS = {"lookup": twice, "refund": refund}

def execute(name, args):
    return TOOLS[name](**args)
"""


def test_a_tool_with_a_decorator_is_left_alone(tmp_path: Path) -> None:
    """Whoever has marked a function has said its name; it is recorded once, below its wrapper too."""
    agent = load(tmp_path, MARKED, may_run=True)
    _, before = recorded(tmp_path / "run.jsonl", agent)
    assert tools_of(before) == ["lookup", "pay_back"]


INLINE = """
def execute(name, args):
    if name == "lookup":
        return work("lookup inline")
    return work("refund inline")
"""


def test_a_tool_that_ran_unseen_is_told_once_and_noted_in_the_run(tmp_path: Path) -> None:
    """Inline code has no function: the run says which tools it misses, and no test is made of it."""
    agent = load(tmp_path, INLINE, may_run=True)
    with pytest.warns(RuntimeWarning, match="did not see the tool") as told:
        _, before = recorded(tmp_path / "run.jsonl", agent)
    assert len(told) == 2
    assert tools_of(before) == []
    assert before.unseen == ("lookup", "refund")
    with pytest.raises(FailingRun, match="would run lookup, refund again"):
        check_wishes(before, Wishes())


HIDDEN = (
    FUNCTIONS.replace("def lookup", "def one").replace("def refund", "def other")
    + """
def execute(name, args):
    return one(**args) if name == "lookup" else other(**args)
"""
)


def test_a_replay_ends_where_a_fixed_agent_hides_its_tools(tmp_path: Path) -> None:
    """The first has run by then, which the frontier says; no other does."""
    recorded(tmp_path / "run.jsonl", load(tmp_path, STYLES["a table"], may_run=True))
    _plain_tools.turn_back()
    agent = load(tmp_path, HIDDEN, may_run=True)
    replayed = stepfork.replay(tmp_path / "run.jsonl", agent.main)
    assert agent.RAN == ["lookup A-17 eu"]
    assert [(each.call.name, each.why) for each in replayed.frontiers] == [
        ("lookup", "its function was not found, and ran live: decorate it")
    ]


@pytest.mark.parametrize("order", [("plain", "shop"), ("shop", "plain")])
@pytest.mark.parametrize("tools", [[], ["plain_shop_agent:refund"]])
def test_a_replay_begins_with_the_tools_of_its_run_and_of_no_other(
    order: tuple[str, str], tools: list[str], tmp_path: Path
) -> None:
    """What another one of this process has found is the agent's own function; what is named stays a tool."""
    agent = load(tmp_path, STYLES["a table"], may_run=True)
    agents = {"plain": lambda: (agent.lookup("A-17"), agent.refund("A-17")), "shop": agent.main}
    instrument("openai", tools=tools)
    for name, main in agents.items():
        with stepfork.run(name, path=tmp_path / f"{name}.jsonl"):
            main()
    runs = {name: read_run(tmp_path / f"{name}.jsonl") for name in agents}
    assert tools_of(runs["plain"]) == (["refund"] if tools else [])
    for name in (*order, *order):
        replayed = stepfork.replay(tmp_path / f"{name}.jsonl", agents[name])
        assert (replayed.error, replayed.unused) == (None, [])
        assert tools_of(replayed.run) == tools_of(runs[name])


HOLDING = (
    FUNCTIONS
    + """
def main():
    done = []
    for name in ("lookup", "refund"):
        turn([{"role": "user", "content": name}], declare("lookup", "refund"))
        done.append(globals()[name]("A-17"))
    return done

def turn(messages, tools):
    request = HELD
    before = dict(request)
    ask(request)
    if sorted(request) != sorted(before):
        raise AssertionError(sorted(request))
"""
)


HOLDS = ["locals()", "vars()"]
if sys.version_info < (3, 13):  # there a frame's own view is no copy: it shows what is defined after it
    HOLDS += ["sys._getframe().f_locals", "__import__('inspect').currentframe().f_locals"]


@pytest.mark.parametrize("held", HOLDS)
def test_the_local_names_that_an_agent_holds_stay_as_they_are(held: str, tmp_path: Path) -> None:
    """What makes its request of ``locals()`` sends the same ones in the second attempt."""
    source = "import sys\n" + HOLDING.replace("HELD", held)
    agent = load(tmp_path, source, may_run=True)
    result, before = recorded(tmp_path / "run.jsonl", agent)
    assert result == ["lookup A-17 eu: done", "refund A-17 1: done"]
    assert tools_of(before) == ["lookup", "refund"]


DELETING = (
    FUNCTIONS
    + """
import weakref

class Connection:
    pass

def main():
    connection = Connection()
    seen = weakref.ref(connection)
    request = {"messages": [{"role": "user", "content": "x"}], "tools": declare("lookup", "refund")}
    ask(request)
    del connection
    return seen() is None
"""
)


def test_what_an_agent_deletes_after_a_request_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for its functions holds none of its values."""
    monkeypatch.setattr(sys, "gettrace", lambda: None)  # coverage is no debugger
    is_gone, _ = recorded(tmp_path / "run.jsonl", load(tmp_path, DELETING, may_run=True))
    assert is_gone


MISFIT = """
def lookup(order):
    return work(f"lookup {order}")

def refund(order_id):
    return work(f"refund {order_id}")

def execute(name, args):
    try:
        return globals()[name](**args)
    except TypeError as error:
        return str(error)
"""


def test_arguments_that_do_not_fit_are_refused_as_ever_and_hide_no_tool(tmp_path: Path) -> None:
    """What a model gets wrong is the function's own error, in the replay too; it was not at work unseen."""
    agent = load(tmp_path, MISFIT, may_run=True)
    result, before = recorded(tmp_path / "run.jsonl", agent)
    assert result[0] == "lookup() got an unexpected keyword argument 'order_id'"
    assert (tools_of(before), before.unseen) == (["refund"], ())
    agent = load(tmp_path, MISFIT, may_run=False)
    assert stepfork.replay(tmp_path / "run.jsonl", agent.main).value == result


PROGRAM = """
import stepfork
from stepfork.adapters import _plain_tools, _switch

def lookup(order_id):
    return order_id

@stepfork.model
def ask(body):
    return None

TOOLS = [{"function": {"name": name}} for name in ("lookup", "refund")]
messages = []
for turn, name in enumerate(("lookup", "refund", "")):
    body = {"tools": TOOLS, "messages": list(messages)}
    _plain_tools.look(body)
    ask(body)
    content = lookup(order_id="A") if name == "lookup" else "sent back"
    messages += [
        {"role": "assistant", "tool_calls": [{"id": f"{turn}", "function": {"name": name}}]},
        {"role": "tool", "tool_call_id": f"{turn}", "content": content},
    ]
raise KeyError("amount")
"""


def test_no_test_is_made_of_a_program_with_a_tool_that_ran_unseen(project: Project) -> None:
    """What a whole program does is looked at like a run of a step; its test would do the work again."""
    project.write({"agent.py": PROGRAM})
    result = project.stepfork("run", "--", "python", "agent.py")
    assert "did not see the tool 'refund'" in result.err, result
    made = project.stepfork("make-test")
    assert made.code == 2, made
    assert "would run refund again" in made.err
    assert "module:function" in made.err
    assert not (project.root / "tests").exists()


DISPATCHER = INLINE.replace("work", "WORK[0]") + "\nWORK = [work]\n"


@pytest.mark.parametrize("tools", [["plain_shop_agent:execute"], ["plain_shop_agent:exec*=shop"]])
def test_a_dispatcher_is_a_tool_once_it_is_named(tools: list[str], tmp_path: Path) -> None:
    """A function that no request names does the work of all tools: the setting says so."""
    load(tmp_path, DISPATCHER, may_run=True)
    with switched_on(["openai"]):
        instrument("openai", tools=tools)
        agent = sys.modules["plain_shop_agent"]
        result, before = recorded(tmp_path / "run.jsonl", agent)
    name = "shop" if "=" in tools[0] else "execute"
    assert tools_of(before) == [name] * 2
    assert before.unseen == ()
    assert set(tools) <= set(before.tools)

    agent = load(tmp_path, DISPATCHER, may_run=False)
    assert stepfork.replay(tmp_path / "run.jsonl", agent.main).value == result
    assert agent.RAN == []


def test_a_setting_that_names_no_function_keeps_no_agent_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It costs a warning, as a setting that cannot be read does, and the rest of the setting holds."""
    monkeypatch.setenv("STEPFORK_TOOLS", f"math:floor,{__name__}:run")
    with pytest.warns(RuntimeWarning, match="cannot make a tool of math:floor"):
        instrument("openai")
    assert _switch._tools_for_good == [f"{__name__}:run"]
    assert is_stand_in(run.__code__)


def test_a_module_that_is_imported_later_has_its_named_tools_too(project: Project) -> None:
    """The program names its tools before it imports what holds them; a class, a pattern, the main module."""
    project.write(
        {
            "shop.py": """
                def find(order_id):
                    return order_id

                def _own():
                    return 1

                class Desk:
                    def pay(self, order_id):
                        return order_id

                    @staticmethod
                    def ask():
                        return 2
            """,
            "agent.py": """
                import stepfork
                from stepfork.adapters import _plain_tools, _switch

                stepfork.instrument(tools=["shop:*", "shop:Desk.*", "agent:execute"])
                import shop

                def execute(name):
                    return name

                with stepfork.run("run", path="run.jsonl"):
                    _plain_tools.look({"tools": [{"name": "other", "input_schema": {}}]})
                    execute("x"), shop.find("A"), shop._own(), shop.Desk().pay("B"), shop.Desk.ask()
            """,
        }
    )
    result = project.run(sys.executable, "agent.py")
    assert result.code == 0, result
    calls = [
        (call.name, call.input) for call in read_run(project.root / "run.jsonl").walk() if call.kind == "tool"
    ]
    assert calls == [
        ("execute", {"name": "x"}),
        ("find", {"order_id": "A"}),
        ("Desk.pay", {"order_id": "B"}),
        ("Desk.ask", {}),
    ]


def test_what_names_no_function_is_an_error() -> None:
    """A slip in the name of a tool is said where it is made."""
    for wrong in ("shop.execute", 3, "shop:"):
        with pytest.raises(OptionError, match="tools"):
            instrument("openai", tools=[wrong])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="tools"):
        instrument("openai", tools="shop:execute")


HOSTILE = """
class Trap:
    def __getattr__(self, name):
        raise AssertionError(f"asked for {name}")

    @property
    def lookup(self):
        raise AssertionError("a property was read")

    def __eq__(self, other):
        raise AssertionError("compared")

    def __hash__(self):
        return 1

    def __iter__(self):
        raise AssertionError("walked")

    def __bool__(self):
        raise AssertionError("tested")

    __len__ = __repr__ = __str__ = __bool__

class Sealed(Trap):
    def __getattribute__(self, name):
        raise AssertionError(f"asked for {name}")

class Table(dict):
    def __getitem__(self, key):
        raise AssertionError("asked")

    items = keys = values = __iter__ = __getitem__

class Meta(type):
    def __getattribute__(cls, name):
        raise AssertionError(f"asked for {name}")

class Odd(metaclass=Meta):
    pass

ROUND = []
ROUND.append(ROUND)
DEEP = []
for _ in range(2000):
    DEEP = [DEEP]
MANY = list(range(100_000))
TRAPS = [Trap(), Sealed(), {Trap(): "lookup", "fn": print}, Table(lookup=1), Odd, ROUND, DEEP, MANY]

@stepfork.step
def main():
    trap, sealed, table, odd = Trap(), Sealed(), Table(lookup=lambda order_id: work("lookup")), Odd
    tools = {"refund": lambda order_id: work("refund"), "lookup": lambda order_id: work("lookup")}
    return loop(lambda name, args: tools[name](**args))
"""


def test_looking_for_tools_runs_no_code_of_the_users(tmp_path: Path) -> None:
    """No property, no comparison, no iteration: objects that raise at every touch are passed by."""
    agent = load(tmp_path, HOSTILE, may_run=True)
    _, before = recorded(tmp_path / "run.jsonl", agent)
    assert tools_of(before) == ["lookup", "refund"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"tools": 3},
        {"tools": [None, 3, "x", {}, {"name": 3}, {"function": []}, {"name": "x" * 10_000}]},
        {"tools": {"name": "lookup"}, "functions": "lookup", "messages": "x"},
        {"tools": [{"name": f"tool{n}"} for n in range(50_000)], "messages": [{}] * 50_000},
        {"tools": [{"functionDeclarations": [{"name": "a/b#c%"}, None]}], "contents": [None, {"parts": 3}]},
        {"tools": [{"name": "lookup"}], "messages": [{"role": "tool", "tool_call_id": ["x"]}]},
    ],
)
def test_a_request_may_hold_anything(body: Any, tmp_path: Path) -> None:
    """What is declared comes from outside: it costs nothing and raises nothing."""
    with stepfork.run("shop", path=tmp_path / "run.jsonl"):
        _plain_tools.look(body)
        _plain_tools.look(body)
    assert not (tmp_path / "run.jsonl").exists() or not read_run(tmp_path / "run.jsonl").incomplete


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"tools": [{"type": "function", "function": {"name": "a"}}]}, ["a"]),
        ({"functions": [{"name": "a"}, {"name": "a"}]}, ["a"]),
        ({"tools": [{"type": "function", "name": "a"}, {"type": "web_search"}]}, ["a"]),
        ({"tools": [{"type": "custom", "custom": {"name": "a"}}]}, ["a"]),
        ({"tools": [{"name": "a", "input_schema": {}}, {"type": "web_search_20250305", "name": "b"}]}, ["a"]),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, ["bash"]),
        ({"tools": [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]}, ["a", "b"]),
        ({"tools": [{"function_declarations": [{"name": "a"}]}, {"googleSearch": {}}]}, ["a"]),
        ({"toolConfig": {"tools": [{"toolSpec": {"name": "a"}}]}}, ["a"]),
    ],
)
def test_the_tools_of_every_provider_are_read(body: dict[str, Any], names: list[str]) -> None:
    """OpenAI chat, legacy and responses, Anthropic, Gemini and Bedrock; not what they run themselves."""
    assert declared(body) == names


@pytest.mark.parametrize(
    "messages",
    [
        {
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "a"}}]},
                {"role": "tool", "tool_call_id": "1", "content": ""},
            ]
        },
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "a", "input": ""}}],
                },
                {"role": "tool", "tool_call_id": "1", "content": ""},
            ]
        },
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]},
            ]
        },
        {
            "input": [
                {"type": "function_call", "call_id": "1", "name": "a"},
                {"type": "function_call_output", "call_id": "1", "output": ""},
            ]
        },
        {
            "messages": [
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "a"}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "1"}}]},
            ]
        },
    ],
)
def test_the_results_that_a_request_carries_are_told_from_all_that_was_said_before(
    messages: dict[str, list[Any]],
) -> None:
    """Which tools ran since the last request stands at the end of the next one."""
    (key, said), *_ = messages.items()
    body = {key: [*[{"role": "user", "content": "x"}] * 100, *said, {"role": "user", "content": "go on"}]}
    assert last_turn(body) == ({"1": "a"}, {"1"})


def test_two_requests_at_once_turn_a_function_once(tmp_path: Path) -> None:
    """Threads that declare the same tools find the same function; its calls are recorded once each."""
    agent = load(tmp_path, STYLES["a table"], may_run=True)
    start = threading.Barrier(8)
    body = {"tools": declare("lookup", "refund"), "messages": [{"role": "tool"}] * 2}

    def request() -> None:
        start.wait()
        agent.ask(body)

    with stepfork.run("shop", path=tmp_path / "run.jsonl"):
        threads = [threading.Thread(target=request) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        agent.ask(body)
        agent.loop(agent.execute)
    assert tools_of(read_run(tmp_path / "run.jsonl")) == ["lookup", "refund"]
