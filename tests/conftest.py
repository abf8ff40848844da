"""What every test gets: an environment of its own, and a scratch project if it asks for one."""

from __future__ import annotations

import compileall
import os
import signal
from pathlib import Path

import hypothesis
import pytest

import stepfork
from own_environment import own_environment as own_environment
from project import Project

# Shared machines are slow at times; what a property costs is judged by the benchmarks.
hypothesis.settings.register_profile("quick", deadline=None, print_blob=True, max_examples=25)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True)
hypothesis.settings.load_profile("thorough")

CHECKOUT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("STEPFORK_CORPUS") or CHECKOUT.parent / "shared" / "corpus")
CORPUS_REQUIRED = os.environ.get("STEPFORK_REQUIRE_CORPUS") == "1"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the package once: scratch projects write no bytecode, so each process would do it.

    What a shell runs in the background ignores Ctrl-C, and so would all that the tests start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(session.config, "workerinput"):
        compileall.compile_dir(Path(stepfork.__file__).parent, quiet=2)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A scratch project with nothing in it but a pyproject.toml."""
    return Project(tmp_path / "project")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real runs, beside the checkout or where STEPFORK_CORPUS says."""
    if CORPUS.is_dir():
        return CORPUS
    reason = "the corpus of real runs is not beside this checkout"
    if CORPUS_REQUIRED:
        pytest.fail(f"{reason}: {CORPUS}")
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests of real input found."""
    for report in terminalreporter.getreports("passed"):
        for name, text in getattr(report, "user_properties", ()):
            if name == "figures" and report.when == "call":
                terminalreporter.write_sep("-", report.nodeid.rpartition("::")[2])
                terminalreporter.write_line(text)
