"""The tables of the document service beside the owner's own, and those of earlier versions."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import asyncpg
import pytest

from tabellion import Store
from tabellion.accounts import tables as accounts
from tabellion.delivery import endpoints
from tabellion.engine import sql
from tabellion.errors import StoreError
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.former_tables import _statements
from tests.cli.project import Project

SCHEMAS = (tables.SCHEMA, endpoints.SCHEMA, accounts.SCHEMA)
SERVICE = [name for one in SCHEMAS for name in (one.version_table, *one.tables)]
THEIRS = ("documents", "users", "sessions", "api_keys")


@pytest.fixture
def theirs(project: Project) -> Project:
    """A project with its own tables, named like ours used to be."""
    (project.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{project.url}"\n')
    return project


def former(project: Project, version: int, *without: str) -> None:
    """Create the tables as an earlier version did, without the prefix, and without some."""
    dialect = Store(project.url).dialect
    clock = sql.CLOCK[dialect]
    steps = [tables.SCHEMA.statements(dialect, tables.SCHEMA.current)[0], *_statements(dialect, version)]
    steps = [text for text in steps if not any(word in text for word in without)]
    steps += [
        f"INSERT INTO tabellion_documents_schema (version, applied_at) VALUES ({number}, {clock})"
        for number in range(1, version + 1)
    ]
    assert project.run("migrate").exit_code == 0
    for text in steps:
        if "DO $$" in text:
            continue
        project.sql(text.replace("tabellion_", ""))
    project.sql(
        f"""INSERT INTO documents (id, status, type_key, sha256, bytes, name, media, blob, key, created_at)
VALUES ('d1', 'queued', 'k', 'abc', 1, 'a.pdf', 'application/pdf', 'b', 'k1', {clock})"""
    )


def names(project: Project) -> set[str]:
    """Every table, index, trigger and function of this database's owner."""
    if project.url.startswith("sqlite"):
        found = project.sql("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'")
    else:
        found = project.sql(
            """SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"""
        )
    return {row["name"] for row in found}


def test_tables_of_the_owner_with_such_names_are_left_alone(theirs: Project) -> None:
    """Ours are created beside them under unique names; theirs keep their columns and rows."""
    for name in THEIRS:
        theirs.sql(f"CREATE TABLE {name} (mine integer)", f"INSERT INTO {name} VALUES (7)")
    before = names(theirs)
    assert theirs.run("migrate", "--with", "documents").exit_code == 0
    created = names(theirs) - before
    assert set(SERVICE) <= created
    assert not [name for name in created if not name.startswith("tabellion_")]
    for name in THEIRS:
        assert theirs.sql(f"SELECT * FROM {name}") == [{"mine": 7}]
    assert theirs.run("keys", "create", "--role", "viewer").exit_code == 0
    assert theirs.run("users", "add", "anna", "--role", "reviewer").exit_code == 0
    assert theirs.run("status", "--with", "documents").exit_code == 0


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_tables_of_an_earlier_version_are_renamed_completely(theirs: Project, version: int) -> None:
    """Rows, indexes, triggers and functions; the names equal those of a new installation."""
    former(theirs, version)
    refused = theirs.run("keys", "list")
    assert refused.exit_code == 4
    assert "have the names of an earlier version" in str(refused.exception)
    assert theirs.run("migrate", "--with", "documents").exit_code == 0
    assert theirs.sql("SELECT id, name FROM tabellion_documents") == [{"id": "d1", "name": "a.pdf"}]
    assert theirs.sql("SELECT max(version) AS n FROM tabellion_documents_schema") == [{"n": tables.SCHEMA.current}]
    renamed = names(theirs)
    fresh = Project(theirs.folder, fresh_url(theirs))
    assert fresh.run("migrate").exit_code == 0
    (fresh.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{fresh.url}"\n')
    assert fresh.run("migrate", "--with", "documents").exit_code == 0
    constraints = re.compile(r"(_pkey|_key|_n_not_null|_idx)$|not_null")
    assert {one for one in renamed if not constraints.search(one)} == {
        one for one in names(fresh) if not constraints.search(one)
    }


def fresh_url(project: Project) -> str:
    """Another, empty database of the same kind."""
    if project.url.startswith("sqlite"):
        return f"sqlite:///{project.folder}/fresh.db"
    name = f"fresh_{project.url.rpartition('/')[2]}"
    project.sql(f"CREATE DATABASE {name}")
    return f"{project.url.rpartition('/')[0]}/{name}"


def test_renamed_triggers_still_guard_the_trail(theirs: Project) -> None:
    """The triggers of the audit log exist, with the same message."""
    former(theirs, tables.SCHEMA.current)
    assert theirs.run("migrate", "--with", "documents").exit_code == 0
    assert theirs.run("keys", "create", "--role", "viewer").exit_code == 0
    with pytest.raises((StoreError, sqlite3.Error, asyncpg.PostgresError), match="append-only"):
        theirs.sql("UPDATE tabellion_audit_log SET actor = 'x'")
    assert theirs.run("audit", "verify").exit_code == 0


def test_a_table_of_the_owner_among_them_is_not_renamed(theirs: Project) -> None:
    """An earlier version adopted an existing `sessions`: it is the owner's again, ours is created."""
    theirs.sql("CREATE TABLE sessions (mine integer)", "INSERT INTO sessions VALUES (7)")
    former(theirs, tables.SCHEMA.current, "tabellion_sessions")
    assert theirs.run("migrate", "--with", "documents").exit_code == 0
    assert theirs.sql("SELECT * FROM sessions") == [{"mine": 7}]
    assert theirs.sql("SELECT count(*) AS n FROM tabellion_sessions") == [{"n": 0}]


def test_the_migration_sql_is_printed(theirs: Project) -> None:
    """For someone who may run it; nothing is changed."""
    former(theirs, tables.SCHEMA.current)
    before = names(theirs)
    script: Any = theirs.run("migrate", "--with", "documents", "--sql").output
    assert "ALTER TABLE documents RENAME TO tabellion_documents;" in script
    assert names(theirs) == before
