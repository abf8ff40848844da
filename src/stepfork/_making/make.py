"""Turns a run into a test: writes the files, proves them, and takes them back where the proof fails."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from stepfork._events import Event, FactsFound, RunMarked, encode_line, redacted
from stepfork._making.entry import Reach, find_entry
from stepfork._making.filing import Filing
from stepfork._making.leftover import Look, check_nothing_left
from stepfork._making.place import Place
from stepfork._making.proof import Prover, Verdict
from stepfork._making.resemblance import cut_off_in
from stepfork._making.scrub import Personal, in_words, look_for_personal_data
from stepfork._making.source import added_to, new_file
from stepfork._making.transcribe import show_placeholders, transcribe
from stepfork._making.variables import Variables, secret_variables, variables_kept
from stepfork._making.weight import what_weighs
from stepfork._making.wishes import Wishes, check_wishes, notes_on_paths
from stepfork._open_run import make_redactor
from stepfork._paths import blobs_dir
from stepfork._recording import read_run
from stepfork._run_files import keep
from stepfork._settings import settings
from stepfork._verdict import snapshot as _snapshot
from stepfork.errors import NotReproduced, RecordingDamaged, UnsafeName

if TYPE_CHECKING:
    from stepfork._calls import Run

Say = Callable[[str], None]

_IMPORTS = ("import sys", "from pathlib import Path")
"""What a conftest.py needs to put a folder on the path."""


@dataclass(frozen=True)
class Made:
    """What was made and what the proof showed."""

    name: str
    test_file: Path
    recording: Path
    snapshot: Path
    files: list[Path]
    verdict: str
    """The row of the verdict table; ``still failing`` for a test of a failed run."""
    reason: str
    """What the red test says: the failure as it was seen in the replay."""
    stopped: list[str]
    """The addresses at which a test of a killed run ends."""
    how_far: str
    """How far a replay that is green goes, in words."""
    notes: list[str]
    personal: dict[str, int]
    """How many different pieces of personal data came to the agent, by kind."""
    personal_in_code: dict[str, int]
    """How many its code itself says; they are never replaced."""
    is_scrubbed: bool
    """They were replaced."""
    environment: list[str]
    """The secret variables that a replay needs."""


def make_test(journal: Path, run: Run, root: Path, wishes: Wishes, say: Say) -> Made:
    """Make a test of ``run`` in the project at ``root`` and prove it.

    Raises FailingRun, CriterionMet and OptionError for wishes that do not fit, EntryNotFound,
    NotRedacted, and NotReproduced; then, as after an interrupt, every file is as it was.
    """
    check_wishes(run, wishes)
    with _readable(journal):
        personal = look_for_personal_data(journal)
    if wishes.scrub:
        run = structs.replace(run, name=personal.text(run.name))
    place = Place.of(run, root, wishes)
    say("looking for the agent")
    reach = find_entry(run, root, wishes.entry)
    filing = Filing()
    with filing.taken_back_on_failure():
        made = _Maker(journal, run, root, wishes, reach, place, filing, say, personal).make()
    with contextlib.suppress(OSError):  # in a folder that cannot be written nothing is removed either
        keep(journal)
    return made


@contextlib.contextmanager
def _readable(journal: Path) -> Iterator[None]:
    try:
        yield
    except UnsafeName:
        raise
    except (OSError, ValueError) as error:
        raise RecordingDamaged(
            f"cannot be read: {journal}",
            detail=[("why", str(error))],
            ways_on=["export the run again where it was recorded: stepfork export RUN"],
            path=str(journal),
        ) from None


@dataclass
class _Maker:
    journal: Path
    run: Run
    root: Path
    wishes: Wishes
    reach: Reach
    place: Place
    filing: Filing
    say: Say
    personal: Personal
    notes: list[str] = field(default_factory=list)
    environment: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.had = self.run
        """The run as it was recorded; afterwards ``run`` is what is kept of it."""

    def make(self) -> Made:
        self._write_recording()
        self._write_test()
        self._check_nothing_left()
        try:
            verdict = self._prove()
        except NotReproduced as error:
            raise self._doubting_scrub(error) from None
        self._check_nothing_left()
        self._see_to_git()
        self._note_what_to_know()
        return Made(
            self.place.name,
            self.place.test_file,
            self.place.recording,
            self.place.snapshot,
            self.filing.files,
            verdict["verdict"],
            verdict["reason"],
            verdict["stopped"],
            _how_far(self.run, verdict["stopped"]),
            self.notes,
            self.personal.outside,
            self.personal.own,
            self.wishes.scrub,
            self.environment,
        )

    def _prove(self) -> Verdict:
        prover = self._prove_once(
            Prover(
                self.run,
                self.place.name,
                self.place.test_file,
                self.root,
                self.reach,
                without=secret_variables(),
            )
        )
        self.say("proving it twice in one process")
        verdict = prover.twice()
        self._write_snapshot(verdict)
        if self.run.failure is None:
            self.say("proving that it is green")
            verdict = prover.green()
        return verdict

    def _doubting_scrub(self, error: NotReproduced) -> NotReproduced:
        """Return the error; where data was replaced, with that among what may be to blame."""
        if not (self.wishes.scrub and self.personal.outside):
            return error
        replaced = f"{in_words(self.personal.outside)} replaced: the agent may depend on what they were"
        return NotReproduced(
            error.what,
            detail=[*error.detail, ("--scrub", replaced)],
            ways_on=["make the test without --scrub, and see whether it comes back then", *error.ways_on],
            **error.facts,
        )

    def _write_recording(self) -> None:
        chosen = settings(self.root)
        redactor = make_redactor(chosen)
        show_placeholders(self.journal, redactor)
        scrub = self.personal if self.wishes.scrub else None
        with _readable(self.journal):
            transcript = transcribe(
                self.journal,
                redactor,
                main_module=self.reach.main_module,
                blob_bytes=chosen.blob_bytes,
                variables=variables_kept(self.run),
                scrub=scrub,
            )
        lines = transcript.lines
        if self.wishes.criterion:
            event = redacted(self._criterion_event(), redactor.redact)
            lines += encode_line(event if scrub is None else scrub.scrubbed(event))
        recording = self.place.recording
        self.filing.put(recording, lines)
        for name, data in transcript.blobs.items():
            self.filing.put(blobs_dir(recording) / name, data)
        self.run = read_run(recording)
        if redactor.found:
            self.notes.append(f"secrets were found and replaced: {', '.join(sorted(redactor.found))}")
        heavy = what_weighs(transcript)
        if heavy:
            self.notes.append(heavy)

    def _criterion_event(self) -> Event:
        failure = self.run.failure
        return RunMarked(
            failure.message if failure else "misses its criterion",
            failure.address if failure else None,
            self.wishes.criterion,
        )

    def _write_test(self) -> None:
        place, path = self.place, self.place.test_file
        if place.is_added:
            data = added_to(
                path.read_bytes(), self.run, place.name, self.reach, xfail=self.wishes.xfail, path=path
            )
        else:
            data = new_file(self.run, place.name, self.reach, xfail=self.wishes.xfail).encode()
        self.filing.put(path, data)

    def _prove_once(self, prover: Prover) -> Prover:
        self.say("proving it in a fresh process")
        seen = prover.once()
        if seen.lacks_import and self.reach.source_root is not None:
            self._write_conftest(self.reach.source_root)
            seen = prover.once()
        if seen.lacks_import and "PYTHONPATH" in os.environ:
            prover = replace(prover, reach=replace(self.reach, needs_path=True))
            seen = prover.once()
        variables = Variables(self.had, self.place.recording, self.filing)
        prover, seen = variables.proved(prover, seen)
        self.environment = variables.needed
        self.notes += variables.notes
        constants = prover.checked(seen)[0]["constants"]
        if constants:
            recording = self.place.recording
            self.filing.put(recording, recording.read_bytes() + encode_line(FactsFound(constants)))
        if prover.reach.needs_path:
            self.notes.append(
                f"only PYTHONPATH={os.environ['PYTHONPATH']} lets the test import the agent: set it for "
                "pytest, name the folder in pytest's setting pythonpath, or install it: pip install -e ."
            )
        return prover

    def _check_nothing_left(self) -> None:
        for_people = (self.place.snapshot, self.place.test_file)
        folders = (self.place.recording.parent, blobs_dir(self.place.recording))
        looks = [
            Look(path, self.filing.added(path), is_text=path in for_people)
            for path in self.filing.files
            if path in for_people or path.parent in folders
        ]
        check_nothing_left(looks, os.environ, self.personal if self.wishes.scrub else None)

    def _write_conftest(self, folder: Path) -> None:
        """Let a bare pytest import the agent: it puts only the test's own folder on the path.

        The file stands beside the test: pytest loads it from there wherever it is started.
        """
        conftest = self.place.test_file.parent / "conftest.py"
        parts = Path(os.path.relpath(folder, conftest.parent)).parts
        above = parts.count(os.pardir)
        inside = "/".join(parts[above:])
        expression = f"Path(__file__).parents[{above}]" + (f' / "{inside}"' if inside else "")
        line = f"sys.path.insert(0, str({expression}))\n"
        there = conftest.read_text("utf-8").rstrip() if conftest.exists() else ""
        there = there or '"""Lets pytest import the agent from this project."""'
        missing = [each for each in _IMPORTS if each not in there.splitlines()]
        text = "\n\n".join([there, *(["\n".join(missing)] if missing else []), line])
        self.filing.put(conftest, text.encode("utf-8"))
        where = Path(os.path.relpath(folder, self.root)).as_posix()
        named = conftest.relative_to(self.root).as_posix()
        self.notes.append(f"{named} now puts {'the project folder' if where == '.' else where} on sys.path")

    def _write_snapshot(self, verdict: Verdict) -> None:
        state = "accepted" if self.run.failure is None else "recorded failure"
        text = _snapshot.to_text({**verdict["document"], "state": state})
        self.filing.put(self.place.snapshot, text.encode("utf-8"))

    def _see_to_git(self) -> None:
        if not (self.root / ".git").exists():
            return
        attributes = self.root / ".gitattributes"
        folder = self.place.recording.parent.relative_to(self.root).as_posix()
        line = f"{folder}/** linguist-generated -text"
        text = attributes.read_text("utf-8") if attributes.exists() else ""
        if line not in text.splitlines():
            self.filing.put(
                attributes, f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n".encode()
            )
        ignored = _ignored_by_git(self.root, self.filing.files)
        if ignored:
            self.notes.append(f"git ignores what has to be committed: {', '.join(ignored)}; see .gitignore")

    def _note_what_to_know(self) -> None:
        failure = self.run.failure
        if personal := self._personal_in_words():
            self.notes.append(personal)
        self.notes += notes_on_paths(self.wishes.criterion, self.run)
        if failure is not None and failure.kind == "marked" and not self.run.criterion:
            self.notes.append(
                "any change of the result or of the tool calls will count as a fix, "
                "a changed prompt alone will not; --expect, --never or --times say what is right"
            )
        entry = self.run.entry
        is_program = entry is not None and not entry.qualname
        if is_program and all(call.kind != "step" for call in self.run.walk() if call is not self.run.root):
            self.notes.append(
                "what the program prints is not compared: mark the function whose result matters with "
                "@stepfork.step, or say with --never or --times what is right"
            )
        for name in self.reach.missing:
            self.notes.append(
                f"{name} was not recorded, and the test hands in None: "
                "put in what the agent's own code needs of it"
            )

    def _personal_in_words(self) -> str:
        outside, own = in_words(self.personal.outside), in_words(self.personal.own)
        scrub = self.wishes.scrub
        told = f"{outside}; {'replaced' if scrub else '--scrub replaces them'}" if outside else ""
        left = f"{own} of the agent's own code, which stays" if own and (scrub or outside) else ""
        words = "; ".join(filter(None, [told, left]))
        return f"personal data: {words}" if words else ""


def _how_far(run: Run, stopped: list[str]) -> str:
    if stopped:
        return f"up to {stopped[0]}, which was under way when the process ended"
    call = cut_off_in(run)
    if call is None:
        return "to its end"
    if run.ended:
        return f"up to {call.address}, where it was interrupted"
    return f"and goes on past {call.address}, where it was killed"


def _ignored_by_git(root: Path, files: list[Path]) -> list[str]:
    names = [path.relative_to(root).as_posix() for path in files if path.is_relative_to(root)]
    try:
        done = subprocess.run(
            ["git", "check-ignore", "--stdin", "-z"],
            cwd=root,
            input="\0".join(names),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return []
    return [name for name in done.stdout.split("\0") if name]
