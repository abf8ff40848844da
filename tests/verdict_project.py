"""A project with one test for each situation that ``assert run == snapshot`` can meet.

The agents behave by the environment variable SHOP: as ``recorded``, as ``accepted``, or as they do ``now``.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from project import Project
from stepfork._calls import Criterion
from stepfork._events import RunMarked, encode_line
from stepfork._verdict import snapshot as _snapshot

AGENT = """
import os, time
import stepfork
from stepfork.tolerance import approx

PHASE = os.environ.get("SHOP", "recorded")
NOW = PHASE == "now"
FIXED = PHASE != "recorded"

@stepfork.tool
def look(key: str) -> dict:
    return {"key": key, "total": 120}

@stepfork.tool
def refund(order: str, amount: int) -> str:
    raise RuntimeError("a tool body ran in a replay")

@stepfork.model
def ask(prompt: str) -> dict:
    return {"approve": False}

@stepfork.step
def crash(key: str) -> int:
    order = look(key)
    return order["total"] if FIXED else order["amount"]

@stepfork.step
def crash_still(key: str) -> int:
    return look(key)["amount"]

@stepfork.step
def deny(key: str) -> str:
    look(key)
    return "approved" if FIXED else "denied"

@stepfork.step
def deny_still(key: str) -> str:
    look(key)
    return "denied"

@stepfork.step
def deny_then_ask(key: str) -> str:
    look(key)
    return refund(key, 1) if FIXED else "denied"

@stepfork.step
def give_up(key: str) -> str:
    look(key)
    stepfork.fail("gave up")
    return "sorry"

@stepfork.step
def shrug(key: str) -> str:
    look(key)
    return "sorry"

@stepfork.step
def reworded(key: str) -> bool:
    reply = ask("Refund, please?" if FIXED else "Refund?")
    return reply["approve"] if FIXED else reply["absent"]

@stepfork.step
def prompt_only(key: str) -> str:
    reply = ask("Refund? Be kind." if FIXED else "Refund?")
    if not reply["approve"]:
        raise ValueError("denied")
    return "approved"

@stepfork.step(tolerance={"score": approx(rel=0.1)})
def score(key: str) -> dict:
    return {"score": 1.05 if NOW else 1.0, "key": look(key)["key"]}

@stepfork.step(name="plan_better" if NOW else "plan")
def plan(key: str) -> str:
    return look(key)["key"]

@stepfork.step
def moved(key: str) -> str:
    return plan(key)

@stepfork.step
def crash_otherwise(key: str) -> int:
    order = look(key)
    if FIXED:
        raise ValueError("a new bug")
    return order["amount"]

@stepfork.step
def crash_early(key: str) -> int:
    if FIXED:
        os.environ["SHOP_REGION"]
    return look(key)["amount"]

@stepfork.step
def hang(key: str) -> int:
    order = look(key)
    if FIXED:
        time.sleep(30)
    return order["amount"]

def no_call(key: str) -> int:
    return 1

@stepfork.step
def went_on_later(key: str) -> str:
    total = look(key)["total"]
    return refund(key, total) if NOW else f"{total}" if FIXED else look(key)["amount"]

@stepfork.step
def goes_on(key: str) -> str:
    order = look(key)
    return refund(key, order["total"]) if FIXED else order["amount"]

@stepfork.step
def goes_elsewhere(key: str) -> str:
    order = look(key)
    return refund(key, order["total"] + NOW) if FIXED else order["amount"]

@stepfork.step
def well(key: str) -> dict:
    return {"key": look(key)["key"], "note": "new" if NOW else "old"}
"""

RECORD = """
import sys
from shop import agent

NAMES = sys.argv[1:]
for name, each in vars(agent).items():
    try:
        if getattr(each, "__module__", "") == "shop.agent" and name in NAMES:
            each("A-17")
    except Exception:
        pass
"""

HEAD = """
import pytest
from shop import agent
"""


class Situation(NamedTuple):
    """One test of the project and the row of the table that it meets."""

    name: str
    row: str
    message: str
    """A pattern for what the failing test says; empty where it passes."""
    agent: str
    body: str = ""
    """Lines of the test in place of the usual comparison."""
    before: str = ""
    """The name of the test when its snapshot was made."""
    accepted: bool = False
    """What the agent did in the second phase was accepted."""


APPROVED = Criterion(expect={"output": "approved"})
CRITERIA: dict[str, Criterion | None] = {
    "deny": APPROVED,
    "deny_still": APPROVED,
    "deny_then_ask": APPROVED,
    "shrug": None,
}


def test_source(situations: tuple[Situation, ...], *, old_names: bool) -> str:
    """Return the test file, with the names that the tests have now or had before."""
    functions = [HEAD]
    for situation in situations:
        name = situation.before if old_names and situation.before else situation.name
        body = situation.body or "assert replay({recording!r}, {agent}) == snapshot"
        body = body.format(recording=situation.agent, agent=f"agent.{situation.agent}")
        functions.append(f"def test_{name}(replay, snapshot):\n    " + body.replace("\n", "\n    ") + "\n")
    return "\n\n".join(functions)


def record(project: Project, situations: tuple[Situation, ...]) -> None:
    """Write the agents, run them where they are recorded, and keep their recordings as ``make-test`` does."""
    project.write({"shop/__init__.py": "", "shop/agent.py": AGENT, "record.py": RECORD})
    recorded = project.run("python", "record.py", *{situation.agent for situation in situations})
    assert recorded.code == 0, recorded
    for journal in (project.root / ".stepfork" / "runs").glob("*.jsonl"):
        data = journal.read_bytes()
        name = json.loads(data.splitlines()[0])["name"]
        if name in CRITERIA:
            data += encode_line(RunMarked("should be approved", None, CRITERIA[name]))
        project.write({f"tests/recordings/{name}.jsonl": data})
    shutil.rmtree(project.root / ".stepfork")


def build(root: Path, situations: tuple[Situation, ...]) -> None:
    """Record the agents, keep their failures as snapshots, and accept what they do in the second phase."""
    project = Project(root)
    record(project, situations)
    project.write({"tests/test_shop.py": test_source(situations, old_names=True)})
    _keep_failures(project)
    names = [situation.before or situation.name for situation in situations if situation.accepted]
    nodes = [f"tests/test_shop.py::test_{name}" for name in names]
    accepted = project.pytest("-q", "--snapshot-update", *nodes, env={"SHOP": "accepted"})
    assert accepted.code == 0, accepted
    project.write({"tests/test_shop.py": test_source(situations, old_names=False)})
    for name in ("no_snapshot", "no_snapshot_still_failing", "no_snapshot_stopped"):
        (root / "snapshots/tests/test_shop" / f"test_{name}.yaml").unlink()


def _keep_failures(project: Project) -> None:
    """Write the snapshots as ``make-test`` does: what the test shows while the bug is there."""
    report = project.root / "report.jsonl"
    shown = project.pytest("-q", env={"SHOP": "recorded", "STEPFORK_REPORT": str(report)})
    assert report.exists(), shown
    for line in report.read_text("utf-8").splitlines():
        seen = json.loads(line)
        if seen["verdict"] is not None:
            state = "accepted" if seen["finding"] == "none" else "recorded failure"
            _snapshot.write(Path(seen["snapshot"]), _snapshot.to_text({**seen["document"], "state": state}))
    report.unlink()


class Seen(NamedTuple):
    """One run of the whole project."""

    code: int
    out: str
    outcomes: dict[str, str]
    """By test: passed, failed, ..."""
    said: dict[str, str]
    """By test: the failure's text."""
    before: dict[str, bytes]
    after: dict[str, bytes]

    def snapshot(self, name: str) -> tuple[bytes | None, bytes | None]:
        """Return the bytes of a test's snapshot before and after."""
        file = f"snapshots/tests/test_shop/test_{name}.yaml"
        return self.before.get(file), self.after.get(file)


def run_copy(built: Path, root: Path, *arguments: str, env: Mapping[str, str]) -> Seen:
    """Run the tests in a copy of the project, as the agents behave now; ``seen_at`` tells the same later."""
    shutil.copytree(built, root, dirs_exist_ok=True)
    project = Project(root, {})
    before = project.files()
    xml = root.with_suffix(".xml")
    result = project.pytest("-q", f"--junitxml={xml}", *arguments, env={"SHOP": "now", **env})
    assert xml.exists(), result
    seen = Seen(result.code, result.out, *_read_xml(xml), before, project.files())
    root.with_suffix(".pickle").write_bytes(pickle.dumps(seen))
    return seen


def seen_at(root: Path) -> Seen:
    """Return what ``run_copy`` saw there."""
    seen: Seen = pickle.loads(root.with_suffix(".pickle").read_bytes())
    return seen


def _read_xml(xml: Path) -> tuple[dict[str, str], dict[str, str]]:
    outcomes, said = {}, {}
    for case in ElementTree.parse(xml).iter("testcase"):
        name = re.sub(r"^test_", "", case.get("name", ""))
        child = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        outcomes[name] = {"failure": "failed"}.get(child.tag, child.tag) if child is not None else "passed"
        said[name] = (child.text or "") if child is not None else ""
    return outcomes, said
