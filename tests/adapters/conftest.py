"""What the tests of adapters get: scenarios, and a closing line that counts them for each target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import pytest

from adapters.replies import Script
from adapters.scenario import Scenario
from own_environment import own_environment as own_environment

HERE = Path(__file__).parent


class Start(Protocol):
    """Makes the scenario of an agent and of what its provider says."""

    def __call__(self, agent: str, script: Script, **options: Any) -> Scenario: ...


@pytest.fixture
def scenario(tmp_path: Path) -> Start:
    """Makes a scenario in a folder of its own; a test that asks for it counts as one."""

    def start(agent: str, script: Script, **options: Any) -> Scenario:
        return Scenario(tmp_path, agent, script, **options)

    return start


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note which tests are scenarios, and of what: of the library that their folder is named after."""
    for item in items:
        is_scenario = "scenario" in getattr(item, "fixturenames", ()) or item.get_closest_marker("scenario")
        if is_scenario:
            item.user_properties.append(("scenario", item.path.relative_to(HERE).parts[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say for each target how many of its scenarios passed, of those tried."""
    tried, passed = Counter[str](), Counter[str]()
    outcomes: dict[str, set[str]] = {}
    targets: dict[str, str] = {}
    for report in _reports(terminalreporter):
        outcomes.setdefault(report.nodeid, set()).add(report.outcome)
        targets.update(
            (report.nodeid, str(value)) for name, value in report.user_properties if name == "scenario"
        )
    for test, target in targets.items():
        tried[target] += 1
        passed[target] += outcomes[test] == {"passed"}
    for target in sorted(tried):
        terminalreporter.write_line(f"{_versioned(target)}: {passed[target]} of {tried[target]} scenarios")


def _reports(terminalreporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    reports: Iterable[list[object]] = terminalreporter.stats.values()
    for group in reports:
        yield from (report for report in group if isinstance(report, pytest.TestReport))


def _versioned(target: str) -> str:
    try:
        return f"{target} {metadata.version(target)}"
    except metadata.PackageNotFoundError:
        return target
