"""doctor and adopt: from a table to a working queue."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tabellion import Queue
from tests.cli.project import Project
from tests.pipelines.registries.test_tables import handmade


def test_the_doctor_names_the_missing_index_and_its_fix_works(project: Project) -> None:
    """The DDL it prints makes the warning go away, and it changes nothing itself."""
    findings = project.json("doctor")
    [index] = [one for one in findings if "no index covers" in one["what"]]
    assert project.sql(_tables(project)) == [{"n": 0}]
    project.sql(index["fix"].replace("CONCURRENTLY ", ""))
    assert not [one for one in project.json("doctor") if "no index covers" in one["what"]]


def test_the_doctor_finds_the_indexes_of_the_document_service(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It created them itself: one serves the queues of all models."""
    monkeypatch.setenv("GEMINI_API_KEY", "canary")
    (project.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{project.url}"\n')
    assert project.run("migrate", "--with", "documents").exit_code == 0
    findings = project.json("doctor", "--with", "documents")
    assert {"prod: documents", "prod: documents_gemini", "prod: webhooks"} <= {one["where"] for one in findings}
    assert not [one for one in findings if "no index covers" in one["what"]]


def _tables(project: Project) -> str:
    if project.url.startswith("sqlite"):
        return "SELECT count(*) AS n FROM sqlite_master WHERE name LIKE 'tabellion%'"
    return "SELECT count(*) AS n FROM pg_tables WHERE tablename LIKE 'tabellion%'"


def test_the_doctor_names_the_collision_of_seed_000(lite: Project) -> None:
    """Status 4 for both OCR_PROCESSING and ERREUR: reported with exit code 3."""
    (lite.folder / "queues.py").write_text(
        "from tabellion import Queue\n"
        "ocr = Queue('extraction_queue', name='ocr', status='status_id', ready=3, running=4, done=5, failed=4)\n"
    )
    result = lite.run("doctor")
    assert result.exit_code == 3
    assert "running and failed match the same rows: both are status_id = 4" in " ".join(result.output.split())


@pytest.mark.parametrize("migrated", [True, False], ids=["register", "no register"])
def test_the_doctor_names_the_states_that_the_table_refuses(project: Project, migrated: bool) -> None:
    """A trigger that refuses is an error with its own message and exit code 3, and the row stays as it is."""
    project.insert("x")
    if migrated:
        project.run("migrate")
    if project.url.startswith("sqlite"):
        project.sql(
            """CREATE TRIGGER guard BEFORE UPDATE ON invoices WHEN NEW.status = 'broken'
BEGIN SELECT RAISE(ABORT, 'nothing breaks here'); END"""
        )
    else:
        project.sql(
            """CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF NEW.status = 'broken' THEN RAISE EXCEPTION 'nothing breaks here'; END IF; RETURN NEW; END $$""",
            "CREATE TRIGGER guard BEFORE UPDATE ON invoices FOR EACH ROW EXECUTE FUNCTION guard()",
        )
    before = project.sql("SELECT * FROM invoices")
    result = project.run("doctor")
    assert result.exit_code == 3
    assert "failed says status = 'broken'" in result.output
    assert "nothing breaks here" in result.output
    assert "is suitable" not in result.output
    assert project.sql("SELECT * FROM invoices") == before


def test_the_doctor_reports_rows_running_outside_the_register(project: Project) -> None:
    """Rows left running by other workers are counted."""
    project.insert("x")
    project.sql("UPDATE invoices SET status = 'reading'")
    project.run("migrate")
    assert any("1 row is running with no claim" in one["what"] for one in project.json("doctor"))


def test_the_doctor_reports_a_database_that_does_not_answer(lite: Project) -> None:
    """Exit code 4 and the address, without the password."""
    (lite.folder / "tabellion.toml").write_text(
        f'queues = "{lite.folder}/queues.py"\n[environments]\nprod = "postgresql://me:hunter2@127.0.0.1:1/x"\n'
    )
    result = lite.run("doctor")
    assert result.exit_code == 4
    assert "postgresql://127.0.0.1:1/x" in result.output
    assert "hunter2" not in result.output
    assert "has secrets (environments.prod) and every user of this machine may read" in result.output


def test_adopt_writes_a_declaration_that_works(project: Project, tmp_path: Path) -> None:
    """Status, states and mirrors are found; the file it writes is a queue the engine accepts."""
    project.insert("x")
    file = tmp_path / "adopted.py"
    result = project.run(
        "adopt", "invoices", "--running", "reading", "--done", "read", "--failed", "broken", "--write", str(file)
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    spec = importlib.util.spec_from_file_location("adopted", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    queue = module.invoices
    assert isinstance(queue, Queue)
    assert queue.function is None  # a handler that was not written must not fail a whole table
    assert queue.states["ready"] == {"status": "new"}
    assert queue.mirrors == {"worker": "worker_id", "started_at": "started_at", "error": "error_message"}
    assert project.run("adopt", "invoices", "--write", str(file)).exit_code == 2


def test_adopt_asks_for_what_it_cannot_guess(lite: Project) -> None:
    """Everything at once, with the values it saw."""
    lite.sql(
        "CREATE TABLE codes (id INTEGER PRIMARY KEY, status INTEGER)", "INSERT INTO codes (status) VALUES (7), (7), (9)"
    )
    result = lite.run("adopt", "codes")
    assert result.exit_code == 3
    text = str(result.exception)
    assert "--ready VALUE" in text
    assert "--failed VALUE" in text
    assert "7: 2, 9: 1" in text


def test_adopt_reads_the_names_behind_a_status_id(lite: Project) -> None:
    """A status column that references a table of names is understood."""
    lite.sql(
        "CREATE TABLE statuses (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO statuses VALUES (1, 'EN_ATTENTE'), (2, 'EN_TRAITEMENT'), (3, 'COMPLETE'), (4, 'ERREUR')",
        "CREATE TABLE extraction_queue (id INTEGER PRIMARY KEY, status_id INTEGER REFERENCES statuses (id))",
    )
    found = lite.json("adopt", "extraction_queue")
    assert found["states"] == {"ready": 1, "running": 2, "done": 3, "failed": 4}


def test_adopt_ends_with_3_where_the_table_refuses(lite: Project) -> None:
    """The declaration is printed anyway; the problems go to standard error."""
    lite.sql(
        "CREATE TABLE short (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'new' CHECK (length(status) < 4))",
        "INSERT INTO short (status) VALUES ('new')",
    )
    result = lite.run("adopt", "short", "--done", "ok", "--failed", "bad")
    assert result.exit_code == 3
    assert "short = Queue(" in result.stdout
    assert "length(status)" in result.stderr
    assert lite.run("adopt", "short", "--running", "on", "--done", "ok", "--failed", "bad").exit_code == 0


def test_a_missing_table_of_a_pipeline_is_reported_with_the_command_that_creates_it(lite: Project) -> None:
    """An error where the pipeline has no tables; a note where a worker adds ours to tables made by hand."""
    (lite.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{lite.url}"\n')

    def findings(where: str) -> list[tuple[str, str, str]]:
        found = json.loads(lite.run("doctor", "--with", "registries", "--json").stdout)
        return [(one["level"], one["what"], one["fix"]) for one in found if one["where"] == where]

    missing = "there is no table 'search_sessions'"
    assert findings("prod: companies") == [("error", missing, "tabellion migrate --with registries")]
    lite.sql(*handmade("sqlite"))
    [(level, what, fix)] = findings("prod: webhooks")
    assert (level, what) == ("note", "there is no table 'tabellion_webhook_deliveries'")
    assert fix == "a worker creates it, or `tabellion migrate --with registries`"
    assert lite.run("doctor", "--with", "registries").exit_code == 0
