"""The page about LiteLLM does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import test_docs
from adapters.provider import provider
from adapters.replies import says
from project import Project


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent fails, is recorded untouched, and becomes a test that asks nobody."""
    page = (test_docs.CHECKOUT / "docs" / "litellm.md").read_text(encoding="utf-8")
    project = Project(tmp_path / "project")
    with provider([says('{"total": 120}')]) as server:
        monkeypatch.setitem(test_docs.READER, "ANTHROPIC_API_BASE", server.url)
        monkeypatch.setitem(test_docs.READER, "ANTHROPIC_API_KEY", "sk-none")
        monkeypatch.setitem(test_docs.READER, "LITELLM_LOCAL_MODEL_COST_MAP", "True")
        assert test_docs.run_document(page, project) == ["python", "console"]
        assert len(server.asked) == 1
