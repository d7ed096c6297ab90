"""`tabellion prune`: what would be removed, what was, and what never is."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.waiting import eventually

KEEP = '\n[retention]\nattempts = "90d"\nmemos = "1y"\n'


def configure(project: Project, text: str = KEEP) -> None:
    """Add to the configuration."""
    file = project.folder / "tabellion.toml"
    file.write_text(file.read_text() + text)


def age(project: Project, days: int) -> None:
    """Make every settled attempt older."""
    ago = f"settled_at - {days} * 86400" if project.url.startswith("sqlite") else f"settled_at - interval '{days} days'"
    project.sql(f"UPDATE tabellion_attempts SET settled_at = {ago}")


def count(project: Project) -> int:
    """Return the number of attempts."""
    return int(project.sql("SELECT count(*) AS n FROM tabellion_attempts")[0]["n"])


def test_what_is_removed(project: Project) -> None:
    """First counted, then removed, then there is nothing left to do."""
    configure(project)
    project.insert("a", "bb", "empty")
    project.work()
    age(project, 100)
    rules = {row["rule"]: row for row in project.json("prune", "--dry-run")}
    assert list(rules) == ["attempts", "memos", "deliveries", "snapshots"]
    attempts = rules["attempts"]
    assert (attempts["removed"], attempts["keep_seconds"], attempts["dry_run"]) == (2, 90 * 86_400, True)
    assert attempts["oldest_seconds"] == pytest.approx(100 * 86_400, abs=600)
    assert count(project) == 3
    assert "these numbers are minimums: " in project.run("prune", "--dry-run").stdout
    shown = project.run("prune")
    assert shown.exit_code == 0
    assert "90.0 d" in shown.stdout
    assert "100.0 d" in shown.stdout
    assert count(project) == 1  # the last attempt of the failed row
    assert [row["removed"] for row in project.json("prune")] == [0, 0, 0, 0]


def test_nothing_is_removed_without_a_time(project: Project) -> None:
    """And that is said, with what to write."""
    configure(project, '\n[retention]\ndeliveries = "never"\nsnapshots = "never"\n')
    project.insert("a")
    project.work()
    age(project, 5000)
    shown = project.run("prune")
    assert shown.exit_code == 0
    assert 'e.g. [retention] attempts = "90d"' in shown.stdout
    assert count(project) == 1


def test_a_wrong_time_is_a_configuration_error(lite: Project) -> None:
    """The key is named, and how to write it."""
    configure(lite, '\n[retention]\nattempts = "90 days"\n')
    result = lite.run("prune", "--dry-run")
    assert result.exit_code == 3
    assert "retention.attempts: '90 days' is not a duration" in str(result.exception)


def test_one_of_two_environments_cannot_be_pruned(lite: Project) -> None:
    """The other is; exit code 6."""
    configure(lite, KEEP)
    lite.insert("a")
    lite.work()
    age(lite, 100)
    file = lite.folder / "tabellion.toml"
    file.write_text(
        file.read_text().replace("[environments]", '[environments]\nfar = "postgresql://nobody@127.0.0.1:1/none"')
    )
    result = lite.run("prune", "--json")
    assert result.exit_code == 6
    assert "far: " in result.stderr
    assert count(lite) == 0


def test_a_role_that_may_not_delete(pg_url: str, role: str, tmp_path: Path) -> None:
    """The error says which right is missing; work goes on without it."""
    project = Project(tmp_path, pg_url)
    configure(project)
    project.insert("a")
    project.work()
    age(project, 100)
    project.sql(
        f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}",
        f"GRANT DELETE ON tabellion_workers, tabellion_memos, tabellion_leftovers TO {role}",
    )
    file = project.folder / "tabellion.toml"
    file.write_text(file.read_text().replace("postgres@", f"{role}@"))
    result = project.run("prune")
    assert result.exit_code == 4
    assert "GRANT DELETE" in str(result.exception)
    project.insert("b")
    project.work()


def test_ctrl_c_ends_it_cleanly(lite: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was removed so far is shown, nobody's turn is blocked, and the next run goes on."""
    configure(lite)
    lite.insert("a")
    lite.work()
    many = """WITH RECURSIVE s (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM s WHERE i < 20000)
INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at,
  lease_until, settled_at, outcome) SELECT 'invoices', i, 1, 't', 1, 0, 0, 'w', 0, 0, 0, 1, 'done' FROM s"""
    lite.sql(many)
    monkeypatch.setenv("TABELLION_FAILPOINTS", "prune.pre_save:stop@3")  # between two steps
    process = lite.start("prune", "--json")
    monkeypatch.delenv("TABELLION_FAILPOINTS")
    eventually(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert count(lite) > 1
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert '"rule": "attempts"' in output
    assert "stopped before the end" in errors
    assert "Traceback" not in errors
    assert lite.sql("SELECT count(*) AS n FROM tabellion_retention WHERE busy_until IS NOT NULL") == [{"n": 0}]
    lite.json("prune")
    assert count(lite) == 1


def test_a_kill_is_made_good_by_the_next_run(lite: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process died after its first commit: the next one says that it waits, and nothing else is lost."""
    configure(lite)
    lite.insert("a", "bb", "empty")
    lite.work()
    age(lite, 100)
    monkeypatch.setenv("TABELLION_FAILPOINTS", "prune.post_commit:kill")
    process = lite.start("prune")
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    monkeypatch.delenv("TABELLION_FAILPOINTS")
    assert count(lite) == 1
    assert lite.json("verify", "--strict") == []
    waiting = lite.start("prune", "--json")
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith("attempts: waiting for another process")
    lite.sql("UPDATE tabellion_retention SET busy_until = 0")  # otherwise its turn ends after a minute
    output, _ = waiting.communicate(timeout=30)
    assert [row["removed"] for row in json.loads(output)] == [0, 0, 0, 0]
    assert lite.json("status")


def test_a_worker_prunes_by_itself(project: Project) -> None:
    """As configured, without any command."""
    configure(project)
    project.insert("a", "bb", "empty")
    project.work()
    age(project, 100)
    process = project.start("worker")
    try:
        eventually(lambda: count(project) == 1, within=60, every=0.2)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
