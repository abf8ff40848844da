"""A pytest plug-in for ``make-test``: runs the new test as often as asked, in this one process.

Loaded with ``-p stepfork._pytest.proof``. What the project's own options would add to a run, workers
and repetitions, would only hide what one test does.
"""

from __future__ import annotations

import os

import pytest
from _pytest.runner import runtestprotocol

TIMES = "STEPFORK_PROOF_TIMES"
"""In the environment: how often each test runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Keep the test in this process, whatever xdist was told."""
    if hasattr(config.option, "numprocesses"):
        config.option.numprocesses = None
        config.option.tx = []
        config.option.dist = "no"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run the test as often as asked, each time with fixtures of its own."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(int(os.environ.get(TIMES, "1"))):
        runtestprotocol(item, nextitem=None)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
