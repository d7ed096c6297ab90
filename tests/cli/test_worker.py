"""`tabellion worker`: works, restarts killed processes with the evidence kept, stops cleanly."""

from __future__ import annotations

import signal
import socket
import subprocess
import uuid
from pathlib import Path

import pytest

from tabellion import Environment, Queue
from tabellion.cli import pipeline_tables
from tabellion.errors import StoreError
from tabellion.pipelines.registries.pipeline import PIPELINE
from tests.cli.project import Project
from tests.pipelines.registries.test_tables import handmade
from tests.servers import Postgres
from tests.waiting import eventually
from tests.workers import ask


def test_a_killed_process_is_restarted_and_its_end_recorded(project: Project) -> None:
    """The job of a killed process runs again at once; the register has the signal and the last note."""
    project.insert("kill", "ok")
    process = project.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [row["status"] for row in project.sql("SELECT status FROM invoices ORDER BY id")] == ["read", "read"]
    [crash] = project.sql("SELECT error FROM tabellion_attempts WHERE outcome = 'crashed'")
    assert "was killed by SIGKILL" in crash["error"]
    assert "page 3 of 9" in crash["error"]


def test_sigterm_releases_and_exits_with_zero(project: Project) -> None:
    """After the grace time a running job is ready again, its attempt not spent, and no process is left."""
    project.insert("slow")
    process = project.start("worker", "--grace", "0.2", "--processes", "2", "--json")
    eventually(lambda: project.sql("SELECT status FROM invoices")[0]["status"] == "reading", within=20)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert project.sql("SELECT status, worker_id FROM invoices") == [{"status": "new", "worker_id": None}]
    [attempt] = project.sql("SELECT outcome FROM tabellion_attempts")
    assert attempt["outcome"] == "released"
    assert '"event": "worker_stopping"' in errors


def ids_of(project: Project) -> set[str]:
    """Return the ids of all workers so far."""
    try:
        return {row["id"] for row in project.sql("SELECT id FROM tabellion_workers")}
    except StoreError:
        return set()  # the register is not there yet


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a worker cleanly."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors


def test_processes_with_one_id_are_numbered(lite: Project) -> None:
    """`worker-1` with two processes is `worker-1-1` and `worker-1-2`."""
    process = lite.start("worker", "--id", "worker-1", "--processes", "2")
    try:
        eventually(lambda: ids_of(lite) == {"worker-1-1", "worker-1-2"}, within=30)
    finally:
        stop(process)


def test_a_name_is_followed_by_a_uuid(lite: Project) -> None:
    """Each process of a named worker has its own; the configuration may give the name."""
    file = lite.folder / "tabellion.toml"
    file.write_text(file.read_text() + '[worker]\nname = "unified-worker"\n')
    process = lite.start("worker", "--processes", "2")
    try:
        eventually(lambda: len(ids_of(lite)) == 2, within=30)
    finally:
        stop(process)
    for one in ids_of(lite):
        assert str(uuid.UUID(one.removeprefix("unified-worker-"))) in one


def test_an_invalid_id_starts_nothing(lite: Project) -> None:
    """Both options at once, or forbidden characters: exit code 3 and the reason."""
    for words, why in (
        (("--id", "a", "--name", "b"), "worker id 'a' and name 'b': use one of them"),
        (("--name", "not one"), "worker name 'not one': use letters, digits and - _ . @ : only"),
    ):
        result = lite.run("worker", *words)
        assert result.exit_code == 3
        assert why in str(result.exception)


def test_an_invalid_declaration_ends_the_worker(lite: Project) -> None:
    """It is reported once, with exit code 3, and the process is not restarted."""
    lite.sql("ALTER TABLE invoices DROP COLUMN error_message")
    process = lite.start("worker")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "has no column 'error_message'" in errors
    assert errors.count("cannot work as declared") == 1


def test_an_environment_without_the_table_is_skipped_by_the_worker(lite: Project, tmp_path: Path) -> None:
    """One line says so with the fix; the other environment is worked."""
    lite.insert("ok")
    file = lite.folder / "tabellion.toml"
    file.write_text(file.read_text() + f'staging = "sqlite:///{tmp_path}/staging.db"\n')
    ask(f"sqlite:///{tmp_path}/staging.db", lambda store: store.open())
    process = lite.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [row["status"] for row in lite.sql("SELECT status FROM invoices")] == ["read"]
    [line] = [line for line in errors.splitlines() if "skipped" in line]
    assert (
        "WARNING tabellion.queue.invoices: invoices in staging is skipped: there is no table 'invoices'; fix:" in line
    )


def test_a_role_without_rights_in_one_environment_stops_no_other(
    postgres18: Postgres, role: str, tmp_path: Path
) -> None:
    """The queue is skipped where the role may not work it; with that environment alone the worker refuses to start."""
    project = Project(tmp_path, postgres18.create_database("worker_of_a_stranger"))
    project.insert("ok")
    (tmp_path / "other").mkdir()
    other = Project(tmp_path / "other", postgres18.create_database("worker_elsewhere"))
    other.sql(f"GRANT ALL ON SCHEMA public TO {role}")
    file = project.folder / "tabellion.toml"
    file.write_text(file.read_text() + f'elsewhere = "{other.url.replace("postgres@", f"{role}@")}"\n')
    alone = project.start("worker", "--environment", "elsewhere")
    assert f"role {role} may not SELECT and UPDATE invoices" in alone.communicate(timeout=60)[1]
    process = project.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [row["status"] for row in project.sql("SELECT status FROM invoices")] == ["read"]
    assert "invoices in elsewhere is skipped" in errors


def test_an_environment_without_its_database_stops_no_other(postgres18: Postgres, tmp_path: Path) -> None:
    """One line says which is skipped and why; if none can be used, the error names each of them."""
    project = Project(tmp_path, postgres18.create_database("worker_of_one_database"))
    project.insert("ok")
    nowhere = postgres18.url.removesuffix("postgres") + "no_such_database"
    add_environment(project, "gone", nowhere, first=True)
    process = project.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [row["status"] for row in project.sql("SELECT status FROM invoices")] == ["read"]
    [line] = [line for line in errors.splitlines() if "gone is skipped" in line]
    assert 'database "no_such_database" does not exist' in line
    add_environment(project, "lost", nowhere)
    process = project.start("worker", "--environment", "gone", "--environment", "lost")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "gone: " in errors
    assert "lost: " in errors


def add_environment(project: Project, name: str, url: str, *, first: bool = False) -> None:
    """One more environment in the project's configuration."""
    file = project.folder / "tabellion.toml"
    text, line = file.read_text(), f'{name} = "{url}"\n'
    file.write_text(text.replace("[environments]\n", f"[environments]\n{line}") if first else text + line)


def test_an_environment_without_its_file_is_skipped(lite: Project, tmp_path: Path) -> None:
    """Even the first one, which has the gates; one line says so, and no file is created."""
    lite.insert("ok")
    add_environment(lite, "gone", f"sqlite:///{tmp_path}/gone.db", first=True)
    process = lite.start("worker", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [row["status"] for row in lite.sql("SELECT status FROM invoices")] == ["read"]
    [line] = [line for line in errors.splitlines() if "gone is skipped" in line]
    assert "there is no database file" in line
    assert not (tmp_path / "gone.db").exists()


def test_an_environment_without_the_tables_of_a_pipeline_is_skipped(lite: Project, tmp_path: Path) -> None:
    """The others are worked, with tables of ours added to those made by hand; nothing is created in the skipped one."""
    (lite.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{lite.url}"\n')
    for text in handmade("sqlite"):
        lite.sql(text)
    (tmp_path / "dev").mkdir()
    dev = Project(tmp_path / "dev", f"sqlite:///{tmp_path}/dev.db")
    add_environment(lite, "dev", dev.url, first=True)
    process = lite.start("worker", "--with", "registries", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    [line] = [line for line in errors.splitlines() if "dev is skipped" in line]
    assert "`tabellion migrate --with registries`" in line
    names = {row["name"] for row in lite.sql("SELECT name FROM sqlite_master")}
    assert {"tabellion_registry_companies", "tabellion_registry_statements"} <= names
    assert [row["name"] for row in dev.sql("SELECT name FROM sqlite_master")] == ["invoices"]


def test_queues_of_your_own_are_worked_where_a_pipeline_has_no_tables(lite: Project, tmp_path: Path) -> None:
    """The pipeline is reported for that environment only; one that has tables nowhere ends the worker."""
    lite.insert("ok")
    alone = lite.run("worker", "--with", "registries", "--until-idle")
    assert alone.exit_code == 4
    assert "`tabellion migrate --with registries`" in str(alone.exception)
    add_environment(lite, "dev", f"sqlite:///{tmp_path}/dev.db")
    assert lite.run("migrate", "--with", "registries", "--environment", "dev").exit_code == 0
    process = lite.start("worker", "--with", "registries", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [row["status"] for row in lite.sql("SELECT status FROM invoices")] == ["read"]
    assert "registries in prod is skipped: the pipeline registries has no tables" in errors


def test_a_role_that_may_not_create_our_tables_stops_no_other_environment(
    postgres18: Postgres, role: str, tmp_path: Path
) -> None:
    """Beside tables made by hand; the line says which command prints the SQL."""
    project = Project(tmp_path, postgres18.create_database("registries_prod"))
    assert project.run("migrate", "--with", "registries").exit_code == 0
    (tmp_path / "dev").mkdir()
    dev = Project(tmp_path / "dev", postgres18.create_database("registries_by_hand"))
    dev.sql(*handmade("postgresql"))
    (tmp_path / "tabellion.toml").write_text(f'[environments]\nprod = "{project.url}"\n')
    add_environment(project, "dev", dev.url.replace("postgres@", f"{role}@"))
    process = project.start("worker", "--with", "registries", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    [line] = [line for line in errors.splitlines() if "dev is skipped" in line]
    assert "tabellion migrate" in line


def test_a_pipeline_is_worked_with_some_of_its_tables(lite: Project, tmp_path: Path) -> None:
    """A queue needs no table of another queue; a queue whose table is in no environment ends the worker at once."""
    (lite.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{lite.url}"\n')
    lite.sql(*(text for text in handmade("sqlite") if "extraction_queue" in text))
    process = lite.start("worker", "--with", "registries", "--until-idle", "--only", "extraction")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "skipped" not in errors
    process = lite.start("worker", "--with", "registries", "--until-idle")
    assert "there is no table 'search_sessions'" in process.communicate(timeout=60)[1]
    assert process.returncode == 3
    add_environment(lite, "dev", f"sqlite:///{tmp_path}/dev.db")
    assert lite.run("migrate", "--with", "registries", "--environment", "dev").exit_code == 0
    process = lite.start("worker", "--with", "registries", "--until-idle")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    skipped = {line.split(" in prod is skipped")[0].split()[-1] for line in errors.splitlines() if "skipped" in line}
    assert skipped == {"companies", "rights", "webhooks"}
    names = {row["name"] for row in lite.sql("SELECT name FROM sqlite_master")}
    assert not names & {"search_sessions", "rdprm_searches", "tabellion_registry_companies"}


def test_a_database_that_accepts_and_never_answers_is_left_to_the_worker(
    lite: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment counts as usable, and its rights are not asked for."""
    monkeypatch.setattr(pipeline_tables, "ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        places = [
            Environment("staging", f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"),
            Environment("prod", lite.url),
        ]
        lite.sql(*handmade("sqlite"))
        companies = Queue("search_sessions", ready=1, running=2, done=3, failed=4)
        prepared = pipeline_tables.prepare_environments(places, [PIPELINE], [companies])
    assert [place.name for place in prepared.usable] == ["staging", "prod"]
    assert (prepared.silent, prepared.skipped, prepared.missing) == ({"staging"}, {}, {})
