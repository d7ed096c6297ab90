"""status, explain, migrate: what people look at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabellion import Queue, Store
from tabellion.engine.register_tables import CURRENT
from tests.cli.project import Project
from tests.workers import ask


def test_status_counts_rows_by_state(project: Project) -> None:
    """Ready, done and failed, as in the table, and the hint that no worker runs."""
    project.insert("a", "empty", "b")
    project.work()
    project.insert("c")
    [picture] = project.json("status")
    [queue] = picture["queues"]
    assert (queue["ready"], queue["running"], queue["done"], queue["failed"]) == (1, 0, 2, 1)
    assert picture["up"] is True
    assert "no live worker here" in project.run("status").output
    assert "no file" in project.run("status", "invoices").output


def test_status_of_an_unreachable_environment_says_so(lite: Project) -> None:
    """The others are shown; exit code 6 says partial."""
    file = lite.folder / "tabellion.toml"
    file.write_text(file.read_text() + 'dead = "postgresql://127.0.0.1:1/x"\n')
    result = lite.run("status")
    assert result.exit_code == 6
    assert "unreachable" in result.output
    assert "invoices" in result.output


def test_status_of_an_environment_without_its_file_says_so(lite: Project, tmp_path: Path) -> None:
    """The others are shown, exit code 6 says partial, and no file is created."""
    file = lite.folder / "tabellion.toml"
    file.write_text(file.read_text() + f'gone = "sqlite:///{tmp_path}/gone.db"\n')
    for words in (("status",), ("status", "--workers")):
        result = lite.run(*words)
        assert result.exit_code == 6, result.output
        assert "there is no database file" in " ".join(result.output.split())
    assert "invoices" in lite.run("status").output
    assert not (tmp_path / "gone.db").exists()


def test_explain_answers_in_sentences(project: Project) -> None:
    """Why a row does not run, for a waiting, a failed and a missing one."""
    project.insert("empty", "x")
    project.work()
    failed = project.json("explain", "invoices", "1")
    assert failed["state"] == "failed"
    assert any("no file" in sentence for sentence in failed["sentences"])
    assert "tabellion retry invoices 1" in " ".join(failed["sentences"])
    assert [attempt["outcome"] for attempt in failed["history"]] == ["failed"]
    project.insert("y")
    project.run("pause", "invoices", "--reason", "lunch")
    waiting = project.run("explain", "invoices", "3").output
    assert "paused" in waiting
    assert "lunch" in waiting
    assert project.run("explain", "invoices", "99").exit_code == 5


def test_migrate_reports_and_prints(project: Project, tmp_path: Path) -> None:
    """--sql changes nothing; migrate does, once."""
    assert "CREATE TABLE tabellion_attempts" in project.run("migrate", "--sql").output
    assert project.json("migrate") == [{"environment": "prod", "before": 0, "version": CURRENT}]
    assert project.json("migrate") == [{"environment": "prod", "before": CURRENT, "version": CURRENT}]


def test_an_environment_without_the_table_is_shown_with_its_problem(project: Project, tmp_path: Path) -> None:
    """The others are shown; where the table is missing the queue has a problem and no numbers. The doctor warns."""
    project.insert("a")
    file = project.folder / "tabellion.toml"
    file.write_text(file.read_text() + f'staging = "sqlite:///{tmp_path}/staging.db"\n')
    ask(f"sqlite:///{tmp_path}/staging.db", lambda store: store.open())
    result = project.run("status")
    assert result.exit_code == 0, result.output
    assert "there is no table 'invoices'" in " ".join(result.output.split())
    prod, staging = project.json("status")
    assert (prod["queues"][0]["ready"], staging["up"]) == (1, True)
    assert staging["queues"][0]["problem"] == "there is no table 'invoices'"
    row = [line for line in result.output.splitlines() if line.split()[:1] == ["invoices"]][-1]
    assert not any(letter.isdigit() for letter in row), row
    [finding] = [one for one in project.json("doctor") if one["where"] == "staging: invoices"]
    assert finding["level"] == "warning"
    assert finding["what"] == "there is no table 'invoices'; workers skip it here"


def test_a_table_that_the_role_may_not_read_does_not_hide_the_rest(pg_url: str, role: str, tmp_path: Path) -> None:
    """`status` and `doctor` name it as one queue's problem; the environment is up."""
    project = Project(tmp_path, pg_url)
    project.sql(f"GRANT ALL ON SCHEMA public TO {role}")
    file = project.folder / "tabellion.toml"
    file.write_text(file.read_text().replace("postgres@", f"{role}@"))
    ask(pg_url.replace("postgres@", f"{role}@"), lambda store: store.open())
    [picture] = project.json("status")
    assert picture["up"] is True
    assert "permission denied for table invoices" in picture["queues"][0]["problem"]
    result = project.run("doctor", "--json")
    assert result.exit_code == 3
    assert any(f"role {role} may not SELECT and UPDATE invoices" in one["what"] for one in json.loads(result.stdout))


def test_workers_of_every_environment_in_one_table(project: Project, tmp_path: Path) -> None:
    """Who has how many jobs, since when, and the last note; an unreachable environment is exit code 6."""
    project.insert("a", "b")
    queue = Queue("invoices", ready="new", running="reading", done="read", failed="broken", worker="worker_id")

    async def work(store: Store) -> None:
        [job] = await store.claim(queue, 1, "unified-worker-1")
        job.note("page 12 of 40")
        await store.renew([job])

    ask(project.url, work)
    project.sql("UPDATE invoices SET status = 'reading', worker_id = 'old' WHERE id = 2")
    (tmp_path / "staging").mkdir()
    staging = Project(tmp_path / "staging", f"sqlite:///{tmp_path}/staging.db")
    staging.insert("c")
    ask(staging.url, lambda store: store.claim(queue, 1, "worker-1-2"))
    file = project.folder / "tabellion.toml"
    file.write_text(file.read_text() + f'staging = "{staging.url}"\n')
    found = project.json("status", "--workers")
    assert [(one["environment"], one["worker"], one["jobs"], one["note"], one["registered"]) for one in found] == [
        ("prod", "unified-worker-1", 1, "page 12 of 40", True),
        ("prod", "old", 1, None, False),
        ("staging", "worker-1-2", 1, None, True),
    ]
    assert found[0]["oldest_at"] == found[0]["newest_at"] != ""
    file.write_text(file.read_text() + 'dead = "postgresql://127.0.0.1:1/x"\n')
    result = project.run("status", "--workers")
    assert result.exit_code == 6
    assert "dead is unreachable" in result.output
    assert "page 12 of" in " ".join(result.output.split())


def test_the_times_of_workers_are_not_wrapped_in_a_narrow_terminal(
    lite: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighty columns, a long worker id and a long note: each time is on one line."""
    monkeypatch.setenv("COLUMNS", "80")
    lite.insert("a")
    queue = Queue("invoices", ready="new", running="reading", done="read", failed="broken", worker="worker_id")

    async def work(store: Store) -> None:
        [job] = await store.claim(queue, 1, "unified-worker-8f14e45f-ceea-467f-a9b8-1b2c3d4e5f60")
        job.note("step 10 of 10: collect the documents of the lot")
        await store.renew([job])

    ask(lite.url, work)
    [worker] = lite.json("status", "--workers")
    shown = lite.run("status", "--workers").output
    assert shown.count(worker["oldest_at"][11:19]) == 2 or shown.count(worker["oldest_at"][5:16].replace("T", " ")) == 2


def test_workers_cannot_be_watched(lite: Project) -> None:
    """Both at once is a usage error."""
    assert lite.run("status", "--workers", "--watch").exit_code == 2
