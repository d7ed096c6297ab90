"""Pipelines are found by their names."""

from __future__ import annotations

import pytest

from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import find_pipelines, installed_pipelines


def test_an_unknown_pipeline_is_reported() -> None:
    """With the known ones."""
    assert "documents" in installed_pipelines()
    with pytest.raises(ConfigurationError, match="unknown pipeline 'invoices'; known: 'batches', 'documents'"):
        find_pipelines(["invoices"])


def test_naming_a_pipeline_twice_is_harmless() -> None:
    """In the configuration as well as on the command line."""
    assert [one.name for one in find_pipelines(["documents", "documents"])] == ["documents"]
