"""status, explain, migrate: what people look at."""

from __future__ import annotations

from pathlib import Path

from tabellion.engine.register import CURRENT
from tests.cli.project import Project


def test_status_counts_rows_by_state(project: Project) -> None:
    """Ready, done and failed, as the table has them, and the hint that nobody works."""
    project.insert("a", "empty", "b")
    project.work()
    project.insert("c")
    [picture] = project.json("status")
    [queue] = picture["queues"]
    assert (queue["ready"], queue["running"], queue["done"], queue["failed"]) == (1, 0, 2, 1)
    assert picture["up"] is True
    assert "no worker is alive here" in project.run("status").output
    assert "no file" in project.run("status", "invoices").output


def test_status_of_a_dead_environment_says_so(lite: Project) -> None:
    """The others are shown; exit code 6 says partial."""
    file = lite.folder / "tabellion.toml"
    file.write_text(file.read_text() + 'dead = "postgresql://127.0.0.1:1/x"\n')
    result = lite.run("status")
    assert result.exit_code == 6
    assert "unreachable" in result.output
    assert "invoices" in result.output


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


def test_migrate_tells_and_prints(project: Project, tmp_path: Path) -> None:
    """--sql changes nothing; migrate does, once."""
    assert "CREATE TABLE tabellion_attempts" in project.run("migrate", "--sql").output
    assert project.json("migrate") == [{"environment": "prod", "before": 0, "version": CURRENT}]
    assert project.json("migrate") == [{"environment": "prod", "before": CURRENT, "version": CURRENT}]
