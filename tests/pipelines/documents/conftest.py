"""The document pipeline of one test: its folders, its settings and a store on each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.pipelines.documents.settings import Settings
from tests.pipelines.documents.papers import settings_in


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Files and outputs below the test's folder, with the shipped types and the local reader."""
    return settings_in(tmp_path, retry_base=0.1)
