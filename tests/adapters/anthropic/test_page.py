"""The page about the Anthropic SDK does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import test_docs
from adapters.provider import provider
from adapters.replies import asks, says
from project import Project


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent fails, is recorded untouched, and becomes a test that asks nobody."""
    page = (test_docs.CHECKOUT / "docs" / "anthropic.md").read_text(encoding="utf-8")
    project = Project(tmp_path / "project")
    with provider([asks(("find_order", {"order_id": "A-17"})), says('{"total": 120}')]) as server:
        monkeypatch.setitem(test_docs.READER, "ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setitem(test_docs.READER, "ANTHROPIC_API_KEY", "sk-none")
        assert test_docs.run_document(page, project) == ["python", "console"]
        assert len(server.asked) == 2
