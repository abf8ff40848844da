"""Turns a run into a test: writes the files, proves them, and takes them back where the proof fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stepfork import _snapshot
from stepfork._calls import Criterion, Plain, Run
from stepfork._document import document, walk
from stepfork._entry import Reach, find_entry
from stepfork._events import (
    CallEnded,
    CallStarted,
    Event,
    FactsFound,
    ItemYielded,
    RunEnded,
    RunMarked,
    decode_line,
    encode_line,
)
from stepfork._journal import blobs_of
from stepfork._judge import judge_criterion
from stepfork._paths import snapshot_path
from stepfork._proof import Seen, run_pytest
from stepfork._record import make_redactor
from stepfork._recording import read_run
from stepfork._replay import facts_of
from stepfork._settings import settings
from stepfork._test_source import added_to, check_name, new_file, test_name
from stepfork.errors import CriterionMet, FailingRun, NotReproduced, OptionError

LARGE_RECORDING = 5 * 2**20
"""Bytes above which it is said what weighs."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wishes:
    """The options of ``make-test``."""

    name: str | None = None
    into: Path | None = None
    entry: str | None = None
    xfail: bool = False
    criterion: Criterion = field(default_factory=Criterion)


@dataclass(frozen=True)
class Made:
    """What was made and what the proof showed."""

    name: str
    test_file: Path
    recording: Path
    snapshot: Path
    files: list[Path]
    verdict: str
    reason: str
    """What the red test says: the failure as it was seen in the replay."""
    notes: list[str]


def make_test(journal: Path, run: Run, root: Path, wishes: Wishes, say: Say) -> Made:
    """Make a test of ``run`` in the project at ``root`` and prove it.

    Raises FailingRun, CriterionMet and OptionError for wishes that do not fit, EntryNotFound, and
    NotReproduced; then nothing is left behind.
    """
    _check_wishes(run, wishes)
    say("looking for the agent")
    reach = find_entry(run, root, wishes.entry)
    maker = _Maker(journal, run, root, wishes, reach, say)
    with maker.taken_back_on_failure():
        return maker.make()


def _check_wishes(run: Run, wishes: Wishes) -> None:
    if run.incomplete:
        raise FailingRun(
            f"the run {run.id} is incomplete: stepfork itself failed while it was recorded",
            ways_on=["look at the warning that the agent's process printed, and record the run again"],
        )
    if not wishes.criterion:
        return
    if run.failure is not None and run.failure.kind == "raised":
        raise FailingRun(
            f"the run {run.id} raised: that is its failure, and it takes no criterion",
            ways_on=["leave out --expect, --never and --times"],
        )
    judgement = judge_criterion(wishes.criterion, run)
    if judgement.finding != "shown":
        raise CriterionMet(
            f"the recorded run {run.id} meets this criterion already: the test would never be red",
            ways_on=["say what should have been different from what the run did"],
        )


class _Maker:
    def __init__(self, journal: Path, run: Run, root: Path, wishes: Wishes, reach: Reach, say: Say) -> None:
        self.journal = journal
        self.run = run
        self.root = root
        self.wishes = wishes
        self.reach = reach
        self.say = say
        self.notes: list[str] = []
        self.files: list[Path] = []
        self._before: dict[Path, bytes | None] = {}
        self.test_dir = (root / wishes.into).parent if wishes.into else root / "tests"
        self.name = check_name(wishes.name) if wishes.name else self._free_name()
        self.test_file = root / wishes.into if wishes.into else self.test_dir / f"test_{self.name}.py"
        self.recording = self.test_dir / "recordings" / f"{self.name}.jsonl"
        self.snapshot = snapshot_path(self.test_file, f"test_{self.name}")
        for path in (self.recording, *([] if wishes.into else [self.test_file])):
            if path.exists():
                raise OptionError(f"{path} exists already", ways_on=["give another name: --name NAME"])

    def _free_name(self) -> str:
        first = name = test_name(self.run)
        number = 2
        while self._is_taken(name):
            name, number = f"{first}_{number}", number + 1
        return name

    def _is_taken(self, name: str) -> bool:
        return (self.test_dir / f"test_{name}.py").exists() or (self.test_dir / "recordings" / f"{name}.jsonl").exists()

    @contextlib.contextmanager
    def taken_back_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for path, before in self._before.items():
                if before is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(before)
            for folder in {path.parent for path in self._before}:
                _remove_empty(folder, self.root)
            raise

    def make(self) -> Made:
        self._write_recording()
        self._write_test()
        self._write_conftest()
        first = self._prove_once()
        constants = first.get("constants") or []
        if constants:
            self._append(FactsFound(constants))
        again = self._prove_twice()
        self._write_snapshot(again)
        if not self._is_failing:
            self._prove_green()
        self._see_to_git()
        return Made(
            self.name, self.test_file, self.recording, self.snapshot, self.files, again["verdict"], again["reason"], self.notes
        )

    @property
    def _is_failing(self) -> bool:
        return self.run.failure is not None

    # -- files

    def _put(self, path: Path, data: bytes) -> None:
        if path not in self._before:
            self._before[path] = path.read_bytes() if path.exists() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if path not in self.files:
            self.files.append(path)

    def _write_recording(self) -> None:
        redactor = make_redactor(settings(self.root))
        *lines, _torn = self.journal.read_bytes().split(b"\n")
        kept: list[bytes] = []
        for line in lines:
            event = decode_line(self._with_module(line))
            if redactor.scan(line):
                event = _cleaned(event, redactor.redact)
            if not isinstance(event, RunEnded) or self.run.ended:
                kept.append(encode_line(event))
        if self.wishes.criterion:
            reason = self.run.failure.message if self.run.failure else "misses its criterion"
            call = self.run.failure.address if self.run.failure else None
            kept.append(encode_line(RunMarked(reason, call, self.wishes.criterion)))
        self._put(self.recording, b"".join(kept))
        self._copy_blobs()
        self.run = read_run(self.recording)
        size = self.recording.stat().st_size
        if size > LARGE_RECORDING:
            self.notes.append(_what_weighs(self.run, size))

    def _copy_blobs(self) -> None:
        source = blobs_of(self.journal)
        if source.is_dir():
            for blob in sorted(source.glob("*.json")):
                self._put(blobs_of(self.recording) / blob.name, blob.read_bytes())

    def _with_module(self, line: bytes) -> bytes:
        """Rewrite references to ``__main__``: in a test the agent's file has a module's name."""
        if b'"__main__' not in line:
            return line
        return line.replace(b'"__main__:', f'"{self.reach.module}:'.encode()).replace(
            b'"module":"__main__"', f'"module":"{self.reach.module}"'.encode()
        )

    def _append(self, event: Event) -> None:
        self._put(self.recording, self.recording.read_bytes() + encode_line(event))

    def _write_test(self) -> None:
        if self.wishes.into and self.test_file.exists():
            source = self.test_file.read_text("utf-8")
            text = added_to(source, self.run, self.name, self.reach, xfail=self.wishes.xfail, path=self.test_file)
        else:
            text = new_file(self.run, self.name, self.reach, xfail=self.wishes.xfail)
        self._put(self.test_file, text.encode("utf-8"))

    def _write_conftest(self) -> None:
        """Let a bare pytest import the agent where nothing else does: it puts only the test's folder on the path."""
        folder = self.reach.source_root
        if folder is None or self._pytest_finds_agent():
            return
        conftest = self.root / "conftest.py"
        where = os.path.relpath(folder, self.root)
        expression = "Path(__file__).parent" + ("" if where == "." else f' / "{Path(where).as_posix()}"')
        text = (
            '"""Lets pytest import the agent from this project."""\n\n'
            f"import sys\nfrom pathlib import Path\n\nsys.path.insert(0, str({expression}))\n"
        )
        if conftest.exists():
            text = f"{conftest.read_text('utf-8').rstrip()}\n\n\n" + text.split("\n\n", 1)[1]
        self._put(conftest, text.encode("utf-8"))
        self.notes.append(f"conftest.py now puts {where if where != '.' else 'the project folder'} on sys.path")

    def _pytest_finds_agent(self) -> bool:
        seen = run_pytest(self.test_file, self.name, self.root)
        return bool(seen.verdicts)

    def _see_to_git(self) -> None:
        if not (self.root / ".git").exists():
            return
        attributes = self.root / ".gitattributes"
        folder = self.recording.parent.relative_to(self.root).as_posix()
        line = f"{folder}/** linguist-generated -text\n"
        text = attributes.read_text("utf-8") if attributes.exists() else ""
        if line not in text:
            self._put(attributes, (text + ("\n" if text and not text.endswith("\n") else "") + line).encode("utf-8"))

    # -- proof

    def _prove_once(self) -> dict[str, Any]:
        self.say("proving it in a fresh process")
        return self._checked(run_pytest(self.test_file, self.name, self.root), 1)[0]

    def _prove_twice(self) -> dict[str, Any]:
        self.say("proving it twice in one process")
        first, second = self._checked(run_pytest(self.test_file, self.name, self.root, times=2), 2)
        if first["document"] != second["document"]:
            raise self._not_reproduced(
                f"two replays in one process differ: {_first_difference(first['document'], second['document'])}",
                "a cache, a counter or a clock in the agent's modules survives from one run to the next",
            )
        return first

    def _prove_green(self) -> None:
        self.say("proving that it is green")
        seen = run_pytest(self.test_file, self.name, self.root)
        if not seen.verdicts or seen.verdicts[0]["outcome"] != "passed":
            raise self._not_reproduced("the test is not green", _tail(seen.output))

    def _checked(self, seen: Seen, times: int) -> list[dict[str, Any]]:
        if len(seen.verdicts) != times or any(verdict["verdict"] is None for verdict in seen.verdicts):
            errors = [verdict.get("error", "") for verdict in seen.verdicts]
            raise self._not_reproduced("pytest could not run the test", "\n".join(errors) or _tail(seen.output))
        for verdict in seen.verdicts:
            self._check(verdict)
        return seen.verdicts

    def _check(self, verdict: Mapping[str, Any]) -> None:
        if self._is_failing:
            if verdict["finding"] == "shown" and not verdict["stale"]:
                return
            raise self._not_reproduced(
                f"the recorded failure did not come back: {self._parted(verdict)}",
                "a clock, a random number, the environment, or a call to the outside that is no @tool",
            )
        if self._recorded_document()["calls"] != verdict["document"]["calls"]:
            raise self._not_reproduced(f"the replay differs from the run: {self._parted(verdict)}", "")

    def _recorded_document(self) -> dict[str, Any]:
        facts, _ = facts_of(self.run)
        clock = (self.run.started, self.run.started + max(self.run.seconds, 1.0))
        return document(self.run, recording=self.name, state="recorded failure", facts=facts, clock=clock)

    def _parted(self, verdict: Mapping[str, Any]) -> str:
        return _first_difference(self._recorded_document(), verdict["document"])

    def _not_reproduced(self, what: str, hint: str) -> NotReproduced:
        return NotReproduced(
            what,
            detail=[("hint", hint)] if hint else [],
            ways_on=[
                f"look at the run: stepfork show {self.run.id}",
                "mark what reaches outside as @stepfork.tool, run the agent again, make the test from the new run",
            ],
            run=self.run.id,
        )

    def _write_snapshot(self, verdict: Mapping[str, Any]) -> None:
        state = "recorded failure" if self._is_failing else "accepted"
        self._put(self.snapshot, _snapshot.to_text({**verdict["document"], "state": state}).encode("utf-8"))


def _first_difference(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the first call at which two documents part, and how."""
    from stepfork._align import align
    from stepfork._report import difference_lines

    alignment = align(dict(recorded), dict(now))
    places = {address: number for number, (address, _) in enumerate(walk(recorded["calls"]))}
    lines = list(difference_lines(alignment, places))
    return "it first parted from the run at\n" + "\n".join(lines[:6]) if lines else "every call was the same"


def _cleaned(event: Event, redact: Callable[[Plain], Plain]) -> Event:
    match event:
        case CallStarted():
            event.input = {name: redact(value) for name, value in event.input.items()}
        case ItemYielded() | CallEnded():
            event.value = redact(event.value)
        case _:
            pass
    return event


def _what_weighs(run: Run, size: int) -> str:
    heaviest = max(run.walk(), key=lambda call: len(msgspec.json.encode(call.input)))
    name, value = max(heaviest.input.items(), key=lambda item: len(msgspec.json.encode(item[1])), default=("", None))
    weight = len(msgspec.json.encode(value))
    return (
        f"the recording takes {size / 2**20:.1f} MB; the argument {name!r} of {heaviest.name} alone {weight / 2**20:.1f} MB: "
        f'@stepfork.{heaviest.kind}(ignore=("{name}",)) leaves it out'
    )


def _tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-15:])


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
