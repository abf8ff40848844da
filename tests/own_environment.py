"""Each test starts with the settings of nobody, and keeps its runs to itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepfork import _settings


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away what would reach into a test from outside."""
    for name in [name for name in os.environ if name.startswith("STEPFORK_") or name == "CI"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STEPFORK_DIR", str(tmp_path.with_name(f"{tmp_path.name}-stepfork")))
    monkeypatch.setattr(_settings, "_configured", {})
