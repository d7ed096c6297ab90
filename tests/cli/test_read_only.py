"""Commands that only read leave a database as it was: no register, no write-ahead log, not a byte."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project

LOOKS = ("status", "status invoices", "doctor", "explain invoices 1", "gates", "migrate --sql", "adopt invoices")


def files(folder: Path) -> dict[str, tuple[str, int]]:
    """Return every file of a database with its content and modification time."""
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.glob("work.db*")
    }


def catalog(project: Project) -> list[dict[str, Any]]:
    """Return the content of a PostgreSQL database, with every row of the table and the transaction that wrote it."""
    return [
        *project.sql("SELECT relname::text AS name, relfilenode::text, xmin::text FROM pg_class ORDER BY oid"),
        *project.sql("SELECT nspname::text AS name FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1"),
        *project.sql("SELECT proname::text AS name FROM pg_proc ORDER BY oid"),
        *project.sql("SELECT xmin::text, ctid::text, invoices::text FROM invoices ORDER BY id"),
    ]


def rewritten(project: Project, journal: str) -> None:
    """Return the file in this journal mode, as its owner's own program left it."""
    connection = sqlite3.connect(project.folder / "work.db")
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("words", LOOKS)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_reading_leaves_a_file_unchanged(lite: Project, words: str, journal: str) -> None:
    """The same bytes, modification time and journal mode, and no file beside it."""
    lite.insert("a")
    rewritten(lite, journal)
    before = files(lite.folder)
    assert list(before) == ["work.db"]
    result = lite.run(*words.split())
    assert result.exit_code == 0, result.output
    assert files(lite.folder) == before


@pytest.mark.parametrize("words", LOOKS)
def test_reading_does_not_empty_a_log_left_by_a_crash(lite: Project, words: str) -> None:
    """The content of the write-ahead log is read, and stays there."""
    rewritten(lite, "wal")
    writer = sqlite3.connect(lite.folder / "work.db")
    writer.execute("INSERT INTO invoices (url) VALUES ('a')")
    writer.commit()  # the log is emptied when the last connection ends, and this one does not
    before = files(lite.folder)
    result = lite.run(*words.split())
    assert result.exit_code == 0, result.output
    after = files(lite.folder)
    assert {name: after[name] for name in ("work.db", "work.db-wal")} == {
        name: before[name] for name in ("work.db", "work.db-wal")
    }
    writer.close()


@pytest.mark.parametrize("words", LOOKS)
def test_reading_leaves_a_server_unchanged(tmp_path: Path, pg_url: str, words: str) -> None:
    """The catalog is the same, and so is every row."""
    project = Project(tmp_path, pg_url)
    project.insert("a")
    before = catalog(project)
    result = project.run(*words.split())
    assert result.exit_code == 0, result.output
    assert catalog(project) == before


def test_no_read_creates_a_file(lite: Project) -> None:
    """A missing database is not created by asking for its SQL."""
    (lite.folder / "work.db").unlink()
    for words in LOOKS:
        lite.run(*words.split())
    assert not files(lite.folder)
    assert "CREATE TABLE tabellion_attempts" in lite.run("migrate", "--sql").output


def test_status_without_a_register_counts_the_table(project: Project) -> None:
    """The rows exist before any worker ran; the output says what is missing, and how to get it."""
    project.insert("a", "b")
    project.sql("UPDATE invoices SET status = 'reading' WHERE url = 'b'")
    [picture] = project.json("status")
    [queue] = picture["queues"]
    assert (picture["up"], queue["ready"], queue["running"], queue["foreign"]) == (True, 1, 1, 1)
    assert "no register" in picture["register"]
    assert "no register" in " ".join(project.run("status", "invoices").output.split())


def test_explain_without_a_register_says_so(project: Project) -> None:
    """A waiting row waits because no worker has run here yet."""
    project.insert("a")
    found = project.json("explain", "invoices", "1")
    assert found["state"] == "ready"
    assert any("no register" in sentence for sentence in found["sentences"])
    assert found["history"] == []
