"""The page about LangGraph does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.provider import provider
from adapters.replies import asks, says
from project import MINIMAL, Project
from test_docs import CHECKOUT, run_document


@pytest.mark.scenario
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Its agent fails, is recorded untouched, and becomes a test."""
    page = (CHECKOUT / "docs" / "langgraph.md").read_text(encoding="utf-8")
    with provider([asks(("find_order", {"order_id": "A-17"})), says('{"total": 120}')]) as server:
        asked = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "sk-none"}
        environment = f"import os\n\nos.environ.update({asked})\n"
        project = Project(tmp_path / "project", {**MINIMAL, "sitecustomize.py": environment})
        assert run_document(page, project) == ["python", "console", "text"]
        assert len(server.asked) == 2
