"""Queues must be named: no table of the document service is created by accident."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tabellion.cli import exit_code
from tabellion.cli.app import app
from tabellion.cli.load import WHICH
from tabellion.errors import TabellionError
from tests.cli.project import Project

FORGOTTEN = (
    "worker", "worker --until-idle", "status", "doctor", "explain documents 1", "retry documents --all",
    "cancel documents 1", "pause documents", "resume documents", "limit documents 3",
)  # fmt: skip
OF_THE_SERVICE = (
    "keys create --role viewer", "keys list", "users add anna --role reviewer", "users list", "audit verify",
    "webhooks add https://erp.example.com/hook", "webhooks list", "export", "--with documents worker",
    "worker --with documents",
)  # fmt: skip


@pytest.fixture
def theirs(project: Project) -> Project:
    """A project whose configuration names its database and no queues."""
    (project.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{project.url}"\n')
    return project


def relations(project: Project) -> set[str]:
    """Every table, index and the like."""
    if project.url.startswith("sqlite"):
        return {row["name"] for row in project.sql("SELECT name FROM sqlite_master")}
    return {
        row["name"]
        for row in project.sql(
            """SELECT n.nspname || '.' || c.relname AS name
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"""
        )
    }


@pytest.mark.parametrize("words", FORGOTTEN)
def test_without_queues_a_command_asks_for_them(theirs: Project, words: str) -> None:
    """Exit code 3, with both places where they can be named; nothing is created."""
    before = relations(theirs)
    result = theirs.run(*words.split())
    assert (result.exit_code, str(result.exception)) == (3, WHICH)
    assert "--queues" in WHICH
    assert "queues = " in WHICH
    assert relations(theirs) == before


@pytest.mark.parametrize("words", OF_THE_SERVICE)
def test_no_command_of_the_service_creates_its_tables(theirs: Project, words: str) -> None:
    """Exit code 4, with the two commands that do; nothing is created."""
    before = relations(theirs)
    result = theirs.run(*words.split())
    assert result.exit_code == 4, result.output
    assert "`tabellion up`" in str(result.exception)
    assert "`tabellion migrate --with documents`" in str(result.exception)
    assert relations(theirs) == before


def test_migrate_alone_creates_the_register_and_nothing_else(theirs: Project) -> None:
    """With or without queues."""
    before = relations(theirs)
    assert theirs.run("migrate").exit_code == 0
    created = {name.removeprefix("public.") for name in relations(theirs) - before}
    assert "tabellion_attempts" in created
    assert not [name for name in created if "documents" in name or "users" in name]


def test_with_documents_names_the_queues_of_the_service(theirs: Project) -> None:
    """Before or after the command, or in the configuration, beside own queues or alone."""
    assert theirs.run("migrate", "--with", "documents").exit_code == 0

    def queues(result: Result) -> set[str]:
        assert result.exit_code == 0, result.output
        return {word for word in ("documents", "webhooks", "invoices") if f" {word} " in result.output}

    assert queues(theirs.run("status", "--with", "documents")) == {"documents", "webhooks"}
    assert queues(theirs.run("--with=documents", "status")) == {"documents", "webhooks"}
    file = theirs.folder / "queues.py"
    assert queues(theirs.run("status", "--queues", str(file))) == {"invoices"}
    assert queues(theirs.run("status", "--with", "documents", "--queues", str(file))) == {
        "documents", "webhooks", "invoices",
    }  # fmt: skip
    (theirs.folder / "tabellion.toml").write_text(f'pipelines = ["documents"]\n[environments]\nprod = "{theirs.url}"\n')
    assert queues(theirs.run("status")) == {"documents", "webhooks"}


def test_an_unknown_pipeline_is_rejected(theirs: Project) -> None:
    """With the known ones."""
    result = theirs.run("status", "--with", "dokuments")
    assert result.exit_code == 3
    assert "unknown pipeline 'dokuments'; known: 'batches', 'documents'" in str(result.exception)


def test_a_worker_beside_the_service_works_its_documents(theirs: Project) -> None:
    """A fleet starts it with `tabellion worker --with documents`."""
    assert theirs.run("migrate", "--with", "documents").exit_code == 0
    process = theirs.start("worker", "--with", "documents", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_the_data_folder_belongs_to_the_service(tmp_path: Path) -> None:
    """Where no database is configured its commands need not name the service."""
    kept = {name: value for name, value in os.environ.items() if "DATABASE_URL" not in name}

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "tabellion", *words], capture_output=True, text=True, cwd=tmp_path, check=False,
            env=kept,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    assert run("migrate", "--with", "documents", "--data", "here")[0] == 0
    code, message = run("status", "--data", "here")
    assert (code, " documents " in message) == (0, True)


def test_a_module_named_documents_is_a_module(tmp_path: Path, sqlite_url: str) -> None:
    """`--queues` never means the service; without such a module, the error names the right option."""
    project = Project(tmp_path, sqlite_url)
    result = CliRunner().invoke(app, ["--config", str(tmp_path / "tabellion.toml"), "--queues", "documents", "status"])
    assert isinstance(result.exception, TabellionError)
    assert exit_code(result.exception) == 3
    assert "--with documents" in str(result.exception)
    (tmp_path / "documents.py").write_text((tmp_path / "queues.py").read_text())
    assert " invoices " in project.run("--queues", str(tmp_path / "documents.py"), "status").output
