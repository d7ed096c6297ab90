"""`tabellion migrate`: the register everywhere, the document service's tables on request."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from pathlib import Path

from typer.testing import CliRunner

from tabellion import Store
from tabellion.cli.app import app
from tests.cli.project import Project

OURS = {
    "tabellion_documents", "tabellion_review_items", "tabellion_webhook_endpoints", "tabellion_webhook_deliveries",
    "tabellion_api_keys",
}  # fmt: skip


def tables(file: Path) -> set[str]:
    """The tables of a SQLite file."""
    connection = sqlite3.connect(file)
    try:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.close()


def test_a_project_with_its_own_queues_gets_the_register_only(lite: Project) -> None:
    """No table of a service that it does not use."""
    assert lite.run("migrate").exit_code == 0
    found = tables(lite.folder / "work.db")
    assert "tabellion_attempts" in found
    assert not OURS & found


def test_the_document_service_gets_its_tables_when_named(tmp_path: Path, url: str) -> None:
    """Created at once, or as SQL that does the same; a second run does nothing."""
    file = tmp_path / "documents.toml"
    file.write_text(f'[environments]\nprod = "{url}"\n')

    def run(*words: str) -> str:
        result = CliRunner().invoke(app, ["--config", str(file), "migrate", "--with", "documents", *words])
        assert result.exit_code == 0, result.output
        return str(result.output)

    async def there() -> bool:
        async with Store(url) as store:
            return all([await store.table(name) is not None for name in OURS])

    script = run("--sql")
    assert not asyncio.run(there())
    assert all(f"CREATE TABLE {name}" in script or f"CREATE TABLE IF NOT EXISTS {name}" in script for name in OURS)
    if url.startswith("sqlite"):
        connection = sqlite3.connect(tmp_path / "by-hand.db")
        connection.executescript(script)
        connection.close()
        assert tables(tmp_path / "by-hand.db") >= OURS
    assert re.search(r"prod: the tables of documents are at version \d+ \(created\)", run())
    assert asyncio.run(there())
    assert (again := run()).count("(was up to date)") == len(again.splitlines())
    versions = json.loads(run("--json"))[0]["schemas"]["documents"]
    assert versions["before"] == versions["version"] > 0
    assert "CREATE" not in run("--sql")


def test_an_unreachable_environment_does_not_stop_the_others(lite: Project) -> None:
    """It is reported; exit code 6 says that some failed, and 4 that none could be migrated."""
    dead = 'dead = "postgresql://127.0.0.1:1/x"\n'
    file = lite.folder / "tabellion.toml"
    file.write_text(file.read_text().replace("[environments]\n", f"[environments]\n{dead}"))
    result = lite.run("migrate", "--with", "registries")
    assert result.exit_code == 6
    assert "dead: not migrated: " in result.stderr
    assert "prod: the register is at version" in result.stdout
    assert "search_sessions" in tables(lite.folder / "work.db")
    first, second = json.loads(lite.run("migrate", "--json").stdout)
    assert (first["environment"], "error" in first, "error" in second) == ("dead", True, False)
    file.write_text(f"[environments]\n{dead}{dead.replace('dead', 'gone')}")
    assert lite.run("migrate").exit_code == 4
