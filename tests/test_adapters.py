"""Adapters: switched on and off, lazily, and whatever is wrong in one of them is nobody's problem."""

from __future__ import annotations

import asyncio
import re
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import stepfork
from project import MINIMAL, Project
from recorded import Recorded, record
from stepfork._context import adapters_on
from stepfork.adapters import Adapter, Boundary, Patches, _child_processes
from stepfork.adapters._child_processes import run_with_adapters
from stepfork.adapters._switch import BUILT_IN, instrument, switched_on, tried
from stepfork.errors import AdapterFailed, OptionError


@pytest.fixture
def patches() -> Iterator[Patches]:
    """What is undone after the test at the latest."""
    made = Patches()
    yield made
    made.undo()


# -- what a call is


class Fetcher:
    """Has a function of each kind."""

    def plain(self, key: str) -> str:
        return found(key)

    async def later(self, key: str) -> str:
        await asyncio.sleep(0)
        return found(key)

    def chunks(self, key: str) -> Iterator[str]:
        yield "first"
        yield found(key)

    async def later_chunks(self, key: str) -> Any:
        yield "first"
        yield found(key)


RAN: list[str] = []


def found(key: str) -> str:
    """Note that it ran."""
    RAN.append(key)
    if key == "none":
        raise LookupError(key)
    return key * 2


KINDS = ["plain", "later", "chunks", "later_chunks"]


def fetch(kind: str, key: str) -> Any:
    """Make a call of one kind to its end, its exception as a value."""

    async def drain(result: Any) -> Any:
        return [chunk async for chunk in result]

    result = getattr(Fetcher(), kind)(key)
    try:
        if kind == "later":
            return asyncio.run(result)
        if kind == "later_chunks":
            return asyncio.run(drain(result))
        return list(result) if kind == "chunks" else result
    except LookupError as error:
        return repr(error)


def hook_fetcher(_module: ModuleType, patches: Patches) -> None:
    """Hook it all, whatever module it is in."""

    def describe(_fetcher: Any, args: tuple[Any, ...], _kwargs: Any) -> tuple[str, dict[str, Any]]:
        return "fetch", {"key": args[0]}

    for kind in KINDS:
        patches.call(Fetcher, kind, Boundary("tool", describe))


FETCHER = Adapter("fetcher", {__name__: hook_fetcher})


@pytest.mark.parametrize("key", ["a", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_every_kind_are_recorded_and_served(tmp_path: Path, kind: str, key: str) -> None:
    """Functions, coroutines and streams give again what they gave, and nothing runs."""

    def agent() -> Any:
        try:
            return fetch(kind, key)
        except LookupError as error:
            return repr(error)

    path = tmp_path / "run.jsonl"
    with tried(FETCHER):
        recorded = Recorded(path)
        with recorded:
            saw = agent()
        RAN.clear()
        replayed = stepfork.replay(path, agent)
    assert recorded.run.adapters == ("fetcher",)
    assert recorded.tree == ["fetch#1"]
    assert replayed.value == saw
    assert RAN == []


def test_a_call_that_is_of_no_interest_is_a_plain_one(tmp_path: Path, patches: Patches) -> None:
    """``describe`` may say so."""
    patches.call(Fetcher, "plain", Boundary("tool", lambda _instance, _args, _kwargs: None))
    recorded = record(tmp_path / "run.jsonl", lambda: fetch("plain", "a"))
    assert recorded.tree == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["describe", "recorded"])
def test_a_fault_of_an_adapter_is_not_the_agents(
    tmp_path: Path, patches: Patches, kind: str, where: str
) -> None:
    """It costs one warning, and the run is incomplete."""

    def broken(*_arguments: Any) -> Any:
        raise ZeroDivisionError(f"in {where} of {kind}")

    def describe(*_arguments: Any) -> tuple[str, dict[str, Any]]:
        return "fetch", {}

    whole = Boundary("tool", broken) if where == "describe" else Boundary("tool", describe, recorded=broken)
    patches.call(Fetcher, kind, whole)
    recorded = Recorded(tmp_path / "run.jsonl")
    is_stream = "chunks" in kind and where == "recorded"
    with recorded:
        if is_stream:  # chunk by chunk, whatever is said of the whole
            assert fetch(kind, "a") == ["first", "aa"]
        else:
            with pytest.warns(RuntimeWarning, match=f"ZeroDivisionError: in {where} of {kind}"):
                assert fetch(kind, "a") in ("aa", ["first", "aa"])
    assert recorded.run.incomplete is not is_stream


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_do_not_fit_a_function_are_its_own_error(
    tmp_path: Path, patches: Patches, kind: str
) -> None:
    """No adapter can describe them, which is no fault of it: the run is whole, and a replay ends so too."""

    async def consume(result: Any) -> None:
        if kind == "later":
            await result
        elif kind == "later_chunks":
            await anext(result)
        elif kind == "chunks":
            next(result)

    def agent() -> None:
        asyncio.run(consume(getattr(Fetcher(), kind)()))

    with pytest.raises(TypeError) as plain:
        agent()
    patches.call(Fetcher, kind, Boundary("tool", lambda _, args, __: ("fetch", {"key": args[0]})))
    recorded = Recorded(tmp_path / "run.jsonl")
    with pytest.raises(TypeError) as seen, recorded:
        agent()
    assert str(seen.value) == str(plain.value)
    assert not recorded.run.incomplete
    assert recorded.run.failure is not None
    replayed = stepfork.replay(tmp_path / "run.jsonl", agent)
    assert (type(replayed.error), str(replayed.error)) == (TypeError, str(plain.value))


# -- when it is switched on

LIBRARY = {
    **MINIMAL,
    "shopping/__init__.py": "",
    "shopping/client.py": """
        class Client:
            def buy(self, item):
                return f"bought {item}"
    """,
    "shopping_adapter.py": """
        from stepfork.adapters import Adapter, Boundary


        def hook(module, patches):
            boundary = Boundary("tool", lambda client, args, kwargs: ("buy", {"item": args[0]}))
            patches.call(module.Client, "buy", boundary)


        def absent(module, patches):
            raise AssertionError("hooked what nobody imported")


        def broken(module, patches):
            patches.call(module.Client, "sell", Boundary("tool", lambda client, args, kwargs: None))


        adapter = Adapter("shopping", {"shopping.client": hook, "shopping.absent": absent})
        lazy = Adapter("lazy", {"shopping.client": "shopping_hooks:hook"})
        unfit = Adapter("unfit", {"shopping.client": broken})
        nothing = "no adapter at all"
    """,
    "shopping_hooks.py": "from shopping_adapter import hook\n",
    "shopping_adapter-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: shopping-adapter\nVersion: 1\n",
}


def library(folder: Path, *adapters: str) -> Project:
    """Write the library, and the adapters of it that are installed."""
    points = "".join(f"{name} = shopping_adapter:{name}\n" for name in adapters or ("adapter",))
    entry_points = f"[stepfork.adapters]\n{points}"
    return Project(folder, {**LIBRARY, "shopping_adapter-1.dist-info/entry_points.txt": entry_points})


def in_process(project: Project, script: str) -> str:
    """Run a script there."""
    done = project.write({"script.py": script}).run("python", "script.py")
    assert done.code == 0, done
    return done.out + done.err


@pytest.mark.parametrize("first", ["instrument", "import"])
def test_the_library_may_come_before_or_after(tmp_path: Path, first: str) -> None:
    """The adapter of an installed package is found, and hooks its library whenever that is imported."""
    lines = ["stepfork.instrument()", "from shopping.client import Client"]
    ordered = lines if first == "instrument" else lines[::-1]
    script = "\n".join(["import stepfork", *ordered, "", "", "@stepfork.step", "def agent():"])
    project = library(tmp_path)
    in_process(project, script + "\n    return Client().buy('tea')\n\n\nagent()\n")
    (shown,) = project.stepfork("runs", "--json").json["runs"]
    assert shown["calls"] == 2


def test_nothing_is_imported_for_what_is_not_there(tmp_path: Path) -> None:
    """Neither the libraries, nor the modules that hook them, nor wrapt's and stepfork's own for calls."""
    told = in_process(
        library(tmp_path, "lazy"),
        """
        import sys

        import stepfork

        stepfork.instrument()
        names = ["shopping", "shopping_hooks", "openai", "anthropic", "httpx", "langchain_core", "mcp"]
        print([name for name in names if name in sys.modules])
        print(sorted(name for name in sys.modules if name.startswith("stepfork.adapters._")))
        from shopping.client import Client
        print("shopping_hooks" in sys.modules, type(vars(Client)["buy"]).__name__)
        """,
    )
    imported, ours, hooked = told.splitlines()
    assert imported == "[]"
    assert not {"stepfork.adapters._mcp", "stepfork.adapters._wire"} & set(ours.split("'"))
    assert hooked == "True _Wrapped"


def test_an_import_survives_an_adapter_that_does_not_fit(tmp_path: Path) -> None:
    """One warning says which adapter, what is wrong, and in which module; the others work."""
    told = in_process(
        library(tmp_path, "unfit", "adapter"),
        """
        import stepfork

        stepfork.instrument()
        import shopping.client
        print(shopping.client.Client().buy("tea"), type(vars(shopping.client.Client)["buy"]).__name__)
        """,
    )
    assert "stepfork cannot record unfit here: AttributeError: " in told
    assert "(in shopping.client)" in told
    assert "bought tea _Wrapped" in told


def test_an_adapter_that_cannot_be_loaded_is_left_out(tmp_path: Path) -> None:
    """A warning for each: one that is not there, one that is no adapter."""
    told = in_process(
        library(tmp_path, "missing", "nothing", "adapter"),
        """
        import stepfork
        from stepfork._context import adapters_on

        stepfork.instrument()
        print("shopping" in adapters_on)
        """,
    )
    assert "stepfork cannot load the adapter missing: AttributeError" in told
    assert "stepfork cannot load the adapter nothing: TypeError" in told
    assert "True" in told


def test_a_child_that_lacks_an_adapter_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls are lost, with a warning; in the child of a replay they would be made, so it does nothing."""
    with pytest.warns(RuntimeWarning, match="cannot record in this process"):
        assert run_with_adapters(["gone"], [], lambda: "done") == "done"
    monkeypatch.setattr(_child_processes, "child_of_replay", True)
    with pytest.raises(OptionError, match="gone"):
        run_with_adapters(["gone"], [], lambda: "done")


def test_an_unknown_name_is_an_error() -> None:
    """It says which there are, and which may be meant."""
    with pytest.raises(OptionError, match="there is no adapter 'opena1'") as caught:
        instrument("opena1")
    assert "openai" in str(caught.value)


def test_a_replay_needs_the_adapters_of_its_recording(tmp_path: Path) -> None:
    """Without them its calls would run: it is an error of its own, before anything runs."""
    path = tmp_path / "run.jsonl"
    with tried(FETCHER):
        record(path, lambda: fetch("plain", "a"))
    RAN.clear()
    with pytest.raises(AdapterFailed, match="made with the adapter 'fetcher', which is not installed here"):
        stepfork.replay(path, lambda: fetch("plain", "a"))
    assert RAN == []


def test_a_replay_whose_adapter_does_not_fit_ends_before_anything_runs() -> None:
    """What is a warning while a run is recorded is an error there."""

    def broken(_module: ModuleType, _patches: Patches) -> None:
        raise AttributeError("moved")

    with (
        pytest.raises(AdapterFailed, match="'unfit' does not fit the library"),
        tried(Adapter("unfit", {__name__: broken})),
    ):
        raise AssertionError("reached")
    assert "unfit" not in adapters_on


def test_a_replay_refuses_what_the_program_itself_could_not_switch_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That was a warning there, and it is no less true in the replay: the calls would run."""
    from stepfork.adapters import _switch

    def broken(_module: ModuleType, _patches: Patches) -> None:
        raise AttributeError("moved again")

    adapter = Adapter("unfit", {__name__: broken})
    monkeypatch.setitem(_switch._others, "unfit", adapter)
    with pytest.warns(RuntimeWarning, match="cannot record unfit here: AttributeError: moved again"):
        instrument("unfit")
    try:
        with pytest.raises(AdapterFailed, match="does not fit the library"), switched_on(["unfit"]):
            raise AssertionError("reached")
        assert "unfit" in adapters_on
    finally:
        _switch._for_good.discard("unfit")
        _switch._switch_off(adapter)
    assert _switch._misfits == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_of_an_adapter_ends_a_replay_before_the_call_runs(
    tmp_path: Path, patches: Patches, kind: str
) -> None:
    """There is no answer for what cannot be told, and nothing runs live."""
    path = tmp_path / "run.jsonl"
    record(path, lambda: None)

    def broken(*_arguments: Any) -> Any:
        raise ZeroDivisionError(f"in a replay of {kind}")

    patches.call(Fetcher, kind, Boundary("tool", broken))
    RAN.clear()
    assert isinstance(stepfork.replay(path, lambda: fetch(kind, "a")).error, ZeroDivisionError)
    assert RAN == []


def test_a_replay_switches_on_what_was_on_and_off_again(tmp_path: Path) -> None:
    """And leaves what the program itself had switched on."""
    from stepfork.adapters import _switch

    path = tmp_path / "run.jsonl"
    with tried(FETCHER):
        record(path, lambda: fetch("plain", "a"))
    _switch._others["fetcher"] = FETCHER
    try:
        before = set(adapters_on)
        assert stepfork.replay(path, lambda: (fetch("plain", "a"), set(adapters_on))).value == (
            "aa",
            before | {"fetcher"},
        )
        assert adapters_on == before
    finally:
        del _switch._others["fetcher"]
    assert type(vars(Fetcher)["plain"]).__name__ == "function"


def test_overlapping_replays_keep_an_adapter_on_until_the_last_is_over() -> None:
    """In threads or tasks side by side: who began first may end first."""
    with tried(FETCHER):
        first, second = switched_on(["fetcher"]), switched_on(["fetcher"])
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert "fetcher" in adapters_on
        assert type(vars(Fetcher)["plain"]).__name__ == "_Wrapped"
        second.__exit__(None, None, None)


def test_overlapping_replays_of_an_adapter_that_was_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that switched it on is over, and the other still needs it."""
    from stepfork.adapters import _switch

    monkeypatch.setitem(_switch._others, "fetcher", FETCHER)
    first, second = switched_on(["fetcher"]), switched_on(["fetcher"])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert type(vars(Fetcher)["plain"]).__name__ == "_Wrapped"
    second.__exit__(None, None, None)
    assert type(vars(Fetcher)["plain"]).__name__ == "function"
    assert "fetcher" not in adapters_on


def test_threads_may_switch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrapped twice, nothing is left."""
    from stepfork.adapters import _switch

    monkeypatch.setitem(_switch._others, "fetcher", FETCHER)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                with switched_on(["fetcher"]):
                    wrapped = vars(Fetcher)["plain"]
                    assert type(wrapped).__name__ == "_Wrapped"
                    assert type(wrapped.__wrapped__).__name__ == "function"
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert type(vars(Fetcher)["plain"]).__name__ == "function"


# -- what is told of them

CHECKOUT = Path(__file__).resolve().parent.parent


def test_the_table_of_the_adapters_tells_those_that_there_are() -> None:
    """Each with the versions that its tests are run with, and no other."""
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    tried_with: dict[str, set[str]] = {}
    for name, requirements in groups.items():
        for requirement in requirements if name.startswith("adapters-") else ():
            if isinstance(requirement, str):
                library, version = re.match(r"([\w-]+)(?:[=>]=([\d.]+))?", requirement).groups()  # type: ignore[union-attr]
                tried_with.setdefault(library, set()).add(version or "")
    page = (CHECKOUT / "docs" / "adapters.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (\w+) +\| [^|]+\| ([^|]+?) +\|", page, re.MULTILINE))
    del rows["adapter"]
    assert rows.keys() == {adapter.name for adapter in BUILT_IN}
    for told in rows.values():
        for library, *versions in (each.split() for each in re.split(r", (?=[a-z])", told)):
            assert {version.strip(",") for version in versions} == tried_with[library] - {""}, library
