"""Roles with few rights: reported before anything is half created, with the command that prints the grants."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.cli.project import Project

SCHEMA = 'queues = "{folder}/queues.py"\n[environments]\nprod = "{url}"\n'


class Guest:
    """A project whose database is used by a role that may only connect."""

    def __init__(self, owner: Project, role: str) -> None:
        self.owner, self.role = owner, role
        self.url = owner.url.replace("postgres@", f"{self.role}@")
        (owner.folder / "tabellion.toml").write_text(SCHEMA.format(folder=owner.folder, url=self.url))

    def grant(self, *statements: str) -> None:
        """Grant this, as the owner."""
        for text in statements:
            self.owner.sql(text.format(role=self.role))

    def script(self, *words: str) -> str:
        """Return what `migrate --sql` prints."""
        result = self.owner.run("migrate", "--sql", *words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def execute(self, script: str) -> None:
        """Run it, as the owner."""

        async def run() -> None:
            connection = await asyncpg.connect(self.owner.url)
            try:
                await connection.execute(script)
            finally:
                await connection.close()

        asyncio.run(run())

    def doctor(self) -> list[dict[str, Any]]:
        """Return the doctor's findings."""
        import json

        return [one for one in json.loads(self.owner.run("doctor", "--json").stdout) if one["level"] == "error"]


@pytest.fixture
def guest(tmp_path: Path, pg_url: str, role: str) -> Guest:
    """A role without any rights, beside the table's owner."""
    return Guest(Project(tmp_path, pg_url), role)


def registered(guest: Guest) -> int:
    """Return how many of our tables there are."""
    rows = guest.owner.sql("SELECT count(*) AS n FROM pg_class WHERE relname LIKE 'tabellion%' AND relkind = 'r'")
    return int(rows[0]["n"])


def test_a_worker_that_may_not_create_the_register_says_who_can(guest: Guest) -> None:
    """Exit code 4 at once, with the command that prints what is missing; nothing is half created."""
    guest.grant("GRANT SELECT, UPDATE ON invoices TO {role}")
    process = guest.owner.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 4, errors
    assert f"tabellion migrate --sql --grant {guest.role}" in errors
    assert "Traceback" not in errors
    assert registered(guest) == 0
    [finding] = guest.doctor()
    assert f"role {guest.role} may not create the register in schema public" in finding["what"]
    assert f"tabellion migrate --sql --grant {guest.role}" in finding["fix"]


def test_a_role_that_may_not_change_the_table_is_reported_before_the_register_exists(guest: Guest) -> None:
    """By the doctor and by a starting worker, which then creates no register."""
    guest.grant("GRANT CREATE ON SCHEMA public TO {role}", "GRANT SELECT ON invoices TO {role}")
    [finding] = guest.doctor()
    assert f"role {guest.role} may not UPDATE invoices" in finding["what"]
    assert finding["fix"] == f'GRANT SELECT, UPDATE ON "invoices" TO "{guest.role}";'
    process = guest.owner.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 4, errors
    assert finding["fix"] in errors
    assert registered(guest) == 0


def test_rights_on_the_needed_columns_are_enough(guest: Guest) -> None:
    """States, mirrors and results; the whole table need not be granted."""
    guest.grant(
        "GRANT CREATE ON SCHEMA public TO {role}",
        "GRANT SELECT, UPDATE (status, worker_id, started_at, error_message, total) ON invoices TO {role}",
    )
    guest.owner.insert("x")
    assert guest.doctor() == []
    guest.owner.work()
    assert guest.owner.sql("SELECT status FROM invoices") == [{"status": "read"}]


def test_the_printed_sql_is_all_that_a_worker_needs(guest: Guest) -> None:
    """The register, its grants and those on the queues' tables: once the owner runs it, the role works."""
    script = guest.script("--grant", guest.role)
    assert registered(guest) == 0
    guest.execute(script)
    guest.owner.insert("x", "empty")
    guest.owner.work()
    assert [row["status"] for row in guest.owner.sql("SELECT status FROM invoices ORDER BY id")] == ["read", "broken"]
    assert guest.doctor() == []
    assert guest.owner.run("pause", "invoices").exit_code == 0
    again = guest.script("--grant", guest.role)
    assert "CREATE" not in again
    assert f'TO "{guest.role}"' in again


def test_the_document_service_gets_its_grants_too(guest: Guest) -> None:
    """`--with documents`: its tables and the grants they need."""
    guest.execute(guest.script("--with", "documents", "--grant", guest.role))
    assert guest.owner.run("keys", "create", "--role", "viewer").exit_code == 0
    assert guest.owner.run("users", "add", "anna", "--role", "reviewer").exit_code == 0
    process = guest.owner.start("worker", "--with", "documents", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_a_register_without_rights_is_reported(guest: Guest) -> None:
    """Another role created it: the rights missing on each of its tables are listed."""
    (guest.owner.folder / "tabellion.toml").write_text(SCHEMA.format(folder=guest.owner.folder, url=guest.owner.url))
    assert guest.owner.run("migrate").exit_code == 0
    (guest.owner.folder / "tabellion.toml").write_text(SCHEMA.format(folder=guest.owner.folder, url=guest.url))
    guest.grant("GRANT SELECT, UPDATE ON invoices TO {role}", "GRANT SELECT ON tabellion_schema TO {role}")
    [finding] = guest.doctor()
    assert f"role {guest.role} may not use the register: " in finding["what"]
    assert "INSERT" in finding["what"]
    process = guest.owner.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, f"--grant {guest.role}" in errors) == (4, True)


def test_a_schema_that_may_not_be_used(guest: Guest) -> None:
    """Reported with its grant, instead of as a missing table."""
    guest.owner.sql("CREATE SCHEMA closed")
    guest.owner.sql("ALTER TABLE invoices SET SCHEMA closed")
    file = guest.owner.folder / "queues.py"
    file.write_text(file.read_text().replace('"invoices", ready', '"closed.invoices", name="invoices", ready'))
    guest.grant("GRANT CREATE ON SCHEMA public TO {role}")
    assert f'GRANT USAGE ON SCHEMA "closed" TO "{guest.role}";' in guest.doctor()[0]["fix"]
    guest.execute(guest.script("--grant", guest.role))
    assert guest.doctor() == []


def test_the_sql_is_printed_though_the_server_is_down(lite: Project) -> None:
    """All of it, and standard error says that the server was not asked."""
    (lite.folder / "tabellion.toml").write_text(
        SCHEMA.format(folder=lite.folder, url="postgresql://127.0.0.1:1/nowhere")
    )
    done = subprocess.run(
        [
            sys.executable, "-m", "tabellion", "--config", str(lite.folder / "tabellion.toml"), "migrate", "--sql",
            "--grant", "app",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "CREATE TABLE tabellion_attempts" in done.stdout
    assert 'GRANT SELECT, UPDATE ON "invoices" TO "app";' in done.stdout
    assert "could not be reached" in done.stderr


def test_grants_are_for_servers(lite: Project) -> None:
    """SQLite has no roles; and grants are printed, never executed."""
    assert lite.run("migrate", "--sql", "--grant", "app").exit_code == 2
    assert lite.run("migrate", "--grant", "app").exit_code == 2
