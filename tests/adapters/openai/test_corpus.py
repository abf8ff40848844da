"""Real traffic of providers: served to the real SDKs, recorded, and replayed with nobody to ask."""

from __future__ import annotations

import os

import pytest

from adapters.corpus_cases import CASES, FOLDER
from adapters.wire_cases import models_in, results


@pytest.fixture(scope="module")
def there() -> None:
    """Skip where the traffic is not at hand."""
    if not FOLDER.is_dir():
        reason = "the corpus of real runs is not beside this checkout"
        if os.environ.get("STEPFORK_REQUIRE_CORPUS") == "1":
            pytest.fail(f"{reason}: {FOLDER}")
        pytest.skip(reason)


@pytest.mark.usefixtures("there")
def test_real_traffic_is_replayed_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    """Every recorded answer of a model comes to the same objects and errors without its provider."""
    told = results("adapters.corpus_cases")
    differing = {
        name: each["now"]
        for name, each in told.items()
        if each["now"] != {"saw": each["then"]["saw"], "attempts": []}
        or len(models_in(each["recording"])) != 1
    }
    with capsys.disabled():
        print(f"\nanswers of real providers: {len(told) - len(differing)} of {len(CASES)} exact")
    assert CASES
    assert differing == {}
