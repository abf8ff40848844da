"""How a test reaches the root function of a run, and what is said where it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from project import MINIMAL, Project
from stepfork._calls import Call, Entry, Outcome, Run
from stepfork._making.entry import Reach, find_entry
from stepfork.errors import EntryNotFound

AGENT = """
    import functools

    import stepfork


    @stepfork.step
    def handle(order_id, session=None):
        return order_id


    def _impl(order_id):
        return order_id


    wrapped = stepfork.step(_impl, name="wrapped")


    class Counter:
        def __init__(self, start):
            self.start = start

        @stepfork.step
        def count(self, order_id):
            return order_id

        @classmethod
        @stepfork.step
        def make(cls, order_id):
            return order_id

        @stepfork.step
        @staticmethod
        def show(order_id):
            return order_id


    class Simple:
        @stepfork.step
        def handle(self, order_id, session):
            return order_id

        class Inner:
            @stepfork.step
            def handle(self):
                return 1


    class Special(Counter):
        pass


    counter = Special(1)
    LIMIT = 3
"""
STOPS = """
    import stepfork


    @stepfork.tool
    def look_up(key):
        open("ran.txt", "w").close()


    @stepfork.step
    def handle(key):
        return look_up(key)


    class Needy:
        def __init__(self, client):
            self.client = client

        @stepfork.step
        def handle(self):
            return 1


    def plain(key):
        return handle(key)
"""
FILES = {
    **MINIMAL,
    "shop/__init__.py": "",
    "shop/agent.py": AGENT,
    "src/lib/__init__.py": "",
    "src/lib/agent.py": AGENT,
    "shop/__main__.py": STOPS + '\n\n    if __name__ == "__main__":\n        handle("x")\n',
    "scripts/run_it.py": STOPS,
    "scripts/not-a-name.py": STOPS,
    "bare.py": STOPS + '\n\n    handle("x")\n',
    "swallows.py": STOPS + '\n\n    try:\n        handle("x")\n    except BaseException:\n        pass\n',
    "by_hand.py": STOPS + '\n\n    with stepfork.run("x"):\n        look_up("x")\n',
    "exits.py": "raise SystemExit(3)\n",
    "broken.py": "import no_such_thing\n",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with agents of every kind, read only."""
    return Project(tmp_path_factory.mktemp("shop") / "project", FILES)


@pytest.fixture(autouse=True)
def _in_nobodys_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)


def reached(shop: Project, entry: Entry | None, given: str | None = None) -> Reach:
    """Look for the root; the agent must not run, and nothing be recorded."""
    recorded = {"order_id": "A-17", "key": "x"}
    root = Call("step", "handle", "handle#1", recorded, Outcome("returned"))
    try:
        return find_entry(Run("0a1b", "handle", root, entry=entry), shop.root, given)
    finally:
        assert not (shop.root / "ran.txt").exists()
        assert not (shop.root / ".stepfork").exists()


@pytest.mark.parametrize(
    ("qualname", "expression"),
    [
        ("handle", "handle"),
        ("_impl", "wrapped"),
        ("Counter.count", "counter.count"),
        ("Counter.make", "Counter.make"),
        ("Counter.show", "Counter.show"),
        ("Simple.Inner.handle", "Simple.Inner().handle"),
    ],
)
def test_a_function_or_method_of_a_module_is_reached(shop: Project, qualname: str, expression: str) -> None:
    """A method through an instance of the module, or a constructor without arguments."""
    found = reached(shop, Entry("shop.agent", qualname, "shop/agent.py"))
    assert (found.module, found.expression) == ("shop.agent", expression)
    assert found.imported == expression.partition(".")[0]
    assert (found.source_root, found.missing) == (shop.root, ())


@pytest.mark.parametrize(
    ("entry", "module", "folder"),
    [
        (Entry("lib.agent", "handle", "src/lib/agent.py"), "lib.agent", "src"),
        (Entry("run_it", "handle", "scripts/run_it.py"), "run_it", "scripts"),
        (Entry("__main__", "handle", "shop/__main__.py"), "shop.__main__", "."),
        (Entry("__main__", "handle", "scripts/run_it.py"), "scripts.run_it", "."),
        (Entry("__main__", "wrapped", "src/lib/agent.py"), "lib.agent", "src"),
    ],
)
def test_a_module_is_found_by_its_file(shop: Project, entry: Entry, module: str, folder: str) -> None:
    """In a src layout, beside a script, and where the file itself was run."""
    found = reached(shop, entry)
    assert (found.module, found.source_root) == (module, (shop.root / folder).resolve())
    assert found.main_module == (module if entry.module == "__main__" else None)


def test_what_was_not_recorded_and_has_no_default_is_named(shop: Project) -> None:
    """The test will have to hand it in."""
    found = reached(shop, Entry("shop.agent", "Simple.handle", "shop/agent.py"))
    assert (found.expression, found.missing) == ("Simple().handle", ("session",))


def test_another_way_in_may_be_given(shop: Project) -> None:
    """A plain function that calls the agent; what the script defined is found by its own file."""
    entry = Entry("__main__", "Needy.handle", "scripts/run_it.py")
    found = reached(shop, entry, "shop.__main__:plain")
    assert (found.module, found.expression, found.main_module) == (
        "shop.__main__",
        "plain",
        "scripts.run_it",
    )


@pytest.mark.parametrize(
    ("entry", "given", "says"),
    [
        (None, None, "opened with stepfork.run('handle')"),
        (Entry("shop.agent", "main.<locals>.handle"), None, "defined inside a function"),
        (None, "shop.agent", "not of the form MODULE:CALLABLE"),
        (None, "shop.agent:no_such", "has no attribute 'no_such'"),
        (None, "shop.agent:LIMIT", "cannot be called: int"),
        (None, "no_such.agent:handle", "No module named 'no_such'"),
        (Entry("__main__", "handle", "scripts/not-a-name.py"), None, "not-a-name.py cannot be imported"),
        (
            Entry("__main__", "Needy.handle", "scripts/run_it.py"),
            None,
            "needs an instance of Needy: scripts.run_it holds none",
        ),
        (Entry("__main__", "handle", "exits.py"), None, "importing exits raised SystemExit: 3"),
        (Entry("broken", "handle", "broken.py"), None, "No module named 'no_such_thing'"),
        (None, "broken:handle", "with what it imports installed: pip install -e ."),
        (
            Entry("__main__", "handle", "bare.py"),
            None,
            "importing bare runs the agent: it calls handle at bare.py:",
        ),
        (Entry("swallows", "handle", "swallows.py"), None, "importing swallows runs the agent"),
        (Entry("by_hand", "handle", "by_hand.py"), None, "importing by_hand runs the agent"),
    ],
)
def test_where_no_test_can_reach_it_the_message_says_what_to_do(
    shop: Project, entry: Entry | None, given: str | None, says: str
) -> None:
    """The agent does not run, whatever its file does when it is imported."""
    with pytest.raises(EntryNotFound) as raised:
        reached(shop, entry, given)
    assert says in str(raised.value)
    assert any("--entry" in way or "MODULE:CALLABLE" in way for way in raised.value.ways_on) or given


def test_a_module_of_the_same_name_elsewhere_is_not_taken_for_it(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file decides, not the name."""
    (tmp_path / "run_it.py").write_text("def handle(key): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = reached(shop, Entry("run_it", "handle", "scripts/run_it.py"))
    assert found.source_root == shop.root / "scripts"
    assert str(tmp_path) not in sys.path


def test_what_only_pythonpath_makes_importable_is_known_for_it(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain pytest elsewhere does not have it, so what needs it not is found without it."""
    (tmp_path / "far_away.py").write_text("def handle(key): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert reached(shop, None, "far_away:handle").needs_path
    assert not reached(shop, Entry("shop.agent", "handle", "shop/agent.py")).needs_path
