"""The page about MCP does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import test_docs
from adapters.mcp_shop import IS_NEW
from project import Project


@pytest.mark.skipif(not IS_NEW, reason="the page has the newer generation of the SDK")
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Its agent fails, is recorded untouched, and becomes a test that needs no server."""
    page = (test_docs.CHECKOUT / "docs" / "mcp.md").read_text(encoding="utf-8")
    languages = test_docs.run_document(page, Project(tmp_path / "project"))
    assert languages == ["python", "python", "console"]
