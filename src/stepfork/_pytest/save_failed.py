"""``--stepfork-save-failed``: agents are recorded, and of their runs those of failing tests are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepfork._ending import RunsOfTest, begin_test, end_test

if TYPE_CHECKING:
    from collections.abc import Iterator


class SavesFailed:
    """Decides about the runs of each test when it is over, its fixtures included."""

    def __init__(self) -> None:
        self._runs = RunsOfTest("")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Hold the runs back until it is known what came of the test."""
        self._runs = begin_test(item.nodeid)
        try:
            return (yield)
        except BaseException:  # an interrupted test is no passed one
            self._runs.has_failed = True
            raise
        finally:
            end_test()
            self._runs.decide()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
        """Say below a failure which runs it keeps."""
        report: pytest.TestReport = yield  # type: ignore[assignment]
        if report.failed:
            self._runs.has_failed = True
            kept = "\n".join(f"stepfork make-test {run_id}" for run_id in self._runs.ids())
            if kept:
                report.sections.append(("runs kept by --stepfork-save-failed", kept))
        return report  # type: ignore[return-value]
