"""A project on each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project


@pytest.fixture
def project(tmp_path: Path, url: str) -> Project:
    """A user's project, once on SQLite and once on PostgreSQL."""
    return Project(tmp_path, url)


@pytest.fixture
def documents(request: pytest.FixtureRequest) -> None:
    """The tables of the document service in the project's database."""
    for name in {"project", "lite"} & set(request.fixturenames):
        assert request.getfixturevalue(name).run("migrate", "--with", "documents").exit_code == 0


@pytest.fixture
def lite(tmp_path: Path, sqlite_url: str) -> Project:
    """A user's project on SQLite."""
    return Project(tmp_path, sqlite_url)
