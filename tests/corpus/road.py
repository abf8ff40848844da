"""The road of real runs: recorded, marked as failed, made into tests, replayed, fixed, accepted, broken."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from corpus.tau.policy import Action
from project import Project, Result
from stepfork._recording import read_run

HERE = Path(__file__).parent
READING = ("get_", "find_", "search_", "list_", "calculate", "think")
"""How the names of tools begin that change nothing."""
BATCH = 6
WORKERS = 2


class Case(NamedTuple):
    """One recorded run of the corpus."""

    name: str
    source: Path
    failed: bool

    @property
    def node(self) -> str:
        """The test that is made of it."""
        return f"tests/test_{self.name}.py::test_{self.name}"

    @property
    def recorded(self) -> dict[str, Any]:
        """The file's content."""
        content: dict[str, Any] = json.loads(self.source.read_text("utf-8"))
        return content


class Made(NamedTuple):
    """How one command of a batch ended."""

    code: int
    out: str


def real_runs(corpus: Path) -> list[Case]:
    """Return the runs with a transcript, by file name; those with reward 0 failed."""
    cases = []
    for source in sorted([*corpus.glob("taubench-airline/*.json"), *corpus.glob("taubench-retail/*.json")]):
        stem, _, reward = source.stem.rpartition("_reward")
        cases.append(Case(f"{source.parent.name.removeprefix('taubench-')}_{stem}", source, reward == "0"))
    return cases


def crashes(corpus: Path) -> list[Case]:
    """Return the runs that crashed."""
    return [Case(source.stem, source, True) for source in sorted(corpus.glob("taubench-crashes/*.json"))]


def wrong_writes(corpus: Path, cases: Iterable[Case]) -> dict[str, tuple[Action, Action | None]]:
    """Return, by the name of a run, the write call that no reference action is, and the one that is."""
    by_source = {case.source: case for case in cases}
    steps = json.loads((corpus / "taubench-derived-failure-steps.json").read_text("utf-8"))
    found = {}
    for step in sorted(steps, key=lambda step: str(step["file"])):
        case = by_source.get(corpus / step["file"])
        if case is not None and step["label"] == "write call not in the reference actions":
            function = case.recorded["traj"][step["message_index"]]["tool_calls"][0]["function"]
            wrong = Action(function["name"], json.loads(function["arguments"]))
            found[case.name] = (wrong, _reference(case, wrong))
    return found


def _reference(case: Case, wrong: Action) -> Action | None:
    """Return the reference's write that is most like this one; None: the reference changes nothing."""
    actions = [Action(item["name"], item["kwargs"]) for item in case.recorded["info"]["task"]["actions"]]
    writes = [action for action in actions if not action.name.startswith(READING)]

    def likeness(action: Action) -> tuple[bool, int]:
        same = sum(wrong.arguments.get(name) == value for name, value in action.arguments.items())
        return action.name == wrong.name, same

    return max(writes, key=likeness, default=None)


class Road:
    """A project that holds the agent, and the tests that are made of its runs."""

    def __init__(self, project: Project, cases: Sequence[Case]) -> None:
        self.project = project
        self.cases = cases
        shutil.copytree(HERE / "tau", project.root / "tau", ignore=shutil.ignore_patterns("__pycache__"))
        self.executed_log = project.root / "tau" / "executed.log"

    def record(self, *, flights: int = 0) -> dict[str, Path]:
        """Run the agent on every task; return the journals by the name of the run.

        Some at a time, each time into another folder: of runs that passed, or failed alike, so many are kept.
        """
        for start in range(0, len(self.cases), BATCH):
            sources = [str(case.source) for case in self.cases[start : start + BATCH]]
            env = {"STEPFORK_DIR": f".stepfork/{start}", "TAU_FLIGHTS": str(flights)}
            _checked(self.project.run("python", "-m", "tau.record", *sources, env=env))
        journals = sorted((self.project.root / ".stepfork").glob("*/runs/*.jsonl"))
        named = {}
        for journal in journals:
            given = read_run(journal).root.input
            named[str(given.get("run") or f"task{given['task_id']:02}_crash")] = journal
        if len(named) != len(journals):
            raise AssertionError(f"{len(journals)} journals of {len(named)} runs")
        return named

    def mark_failed(self, journals: dict[str, Path]) -> None:
        """Mark the runs as failed from outside whose reward was 0."""
        wrong = [journals[case.name] for case in self.cases if case.failed]
        for made in self.stepfork([["fail", str(journal), "--reason", "reward 0"] for journal in wrong]):
            assert made.code == 0, made.out

    def make_tests(self, journals: dict[str, Path]) -> dict[str, Made]:
        """Make a test of every run, in a few processes side by side."""
        names = sorted(journals)
        commands = [["make-test", str(journals[name]), "--name", name, "--json"] for name in names]
        shares = [commands[first::WORKERS] for first in range(WORKERS)]
        with ThreadPoolExecutor(WORKERS) as pool:
            made = list(pool.map(self.stepfork, shares))
        return {
            names[first + WORKERS * n]: one for first in range(WORKERS) for n, one in enumerate(made[first])
        }

    def stepfork(self, commands: Sequence[Sequence[str]]) -> list[Made]:
        """Run many commands in one process."""
        batch = str(HERE / "batch.py")
        done = _checked(
            self.project.run("python", "-P", batch, stdin=json.dumps(list(commands)), timeout=3600)
        )
        return [Made(*json.loads(line)) for line in done.out.splitlines()]

    def recordings(self) -> dict[str, Path]:
        """Return the recordings of the tests by the name of the run."""
        return {case.name: self.project.root / f"tests/recordings/{case.name}.jsonl" for case in self.cases}

    def check_replays(
        self, entry: str, recordings: dict[str, Path], hash_seed: int
    ) -> dict[str, dict[str, Any]]:
        """Replay outside pytest, in a fresh process; return for each run what was the same as recorded."""
        sources = {case.name: case.source for case in self.cases if case.recorded["traj"]}
        pairs = [f"{path}={sources.get(name, '')}" for name, path in recordings.items()]
        script = str(HERE / "check_replays.py")
        env = {"PYTHONHASHSEED": str(hash_seed)}
        done = _checked(self.project.run("python", "-P", script, entry, *pairs, env=env, timeout=600))
        return dict(zip(recordings, map(json.loads, done.out.splitlines()), strict=True))

    def pytest(self, *arguments: str) -> Session:
        """Run the project's tests in a fresh process."""
        report = self.project.root.with_name("report.jsonl")
        report.unlink(missing_ok=True)
        env = {"STEPFORK_REPORT": str(report)}
        done = self.project.run(
            "pytest", "-p", "no:cacheprovider", "-q", "-rfp", *arguments, env=env, timeout=1200
        )
        lines = report.read_text("utf-8").splitlines() if report.exists() else []
        rows = [json.loads(line) for line in lines]
        return Session(done, {row["test"].rpartition("::test_")[2]: row for row in rows})

    def put_right(self, instead: dict[str, tuple[Action, Action | None]]) -> None:
        """Fix the agent: between model and tools, the right action takes the place of the wrong one."""
        self.project.replace("tau/policy.py", "= {}", f"= {instead!r}")

    def put_wrong_again(self) -> None:
        """Take the fix out."""
        shutil.copyfile(HERE / "tau" / "policy.py", self.project.root / "tau" / "policy.py")

    def executed(self) -> bytes:
        """Return the note of every body of a model or tool that ever ran."""
        return self.executed_log.read_bytes()

    def evidence(self) -> dict[str, bytes]:
        """Return the tests, recordings and snapshots, byte for byte."""
        return {**self.project.files("tests"), **self.project.files("snapshots")}


class Session(NamedTuple):
    """One pytest process."""

    result: Result
    rows: dict[str, dict[str, Any]]
    """By the name of the run, what was found; see ``_pytest_session.machine_report``."""

    def passed(self) -> set[str]:
        """Return the names of the runs whose test is green."""
        return {name for name, row in self.rows.items() if row["outcome"] == "passed"}

    def still_failing(self) -> set[str]:
        """Return the names of the runs whose test is red with StillFailing, as the terminal shows it."""
        return set(re.findall(r"^FAILED \S+::test_(\w+) - .*\bStillFailing\b", self.result.out, re.MULTILINE))

    def verdicts(self) -> dict[str, str]:
        """Return the row of the verdict's table for each run."""
        return {name: str(row["verdict"]) for name, row in self.rows.items()}


def is_exact(row: dict[str, Any]) -> bool:
    """Whether a replay made the recorded calls, in order, each with its input and outcome, and no other."""
    same_number = row["exact"] == row["calls"] == row["made"]
    return same_number and row["same_order"] and not (row["stopped"] or row["stale"] or row["unused"])


def _checked(result: Result) -> Result:
    if result.code != 0:
        raise AssertionError(str(result))
    return result


def table(figures: dict[str, object]) -> str:
    """Return figures as lines, the names in one column."""
    width = max(map(len, figures))
    return os.linesep.join(f"{name:<{width}}  {value}" for name, value in figures.items())
