"""retry, release, cancel, pause, resume, limit, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabellion import Queue
from tests.cli.project import Project
from tests.workers import ask


def test_failed_rows_are_retried_by_key_by_error_and_all(project: Project) -> None:
    """Each way finds its rows, and reports how many."""
    project.insert("empty", "empty", "ok")
    project.work()
    assert [row["status"] for row in project.sql("SELECT status FROM invoices ORDER BY id")] == [
        "broken",
        "broken",
        "read",
    ]
    assert project.json("retry", "invoices", "1") == {"queue": "invoices", "retried": 1}
    assert project.json("retry", "invoices", "--error", "no file") == {"queue": "invoices", "retried": 1}
    assert project.json("retry", "invoices", "--all") == {"queue": "invoices", "retried": 0}
    assert [row["status"] for row in project.sql("SELECT status FROM invoices ORDER BY id")] == ["new", "new", "read"]


def test_retry_says_which_keys_were_not_failed(lite: Project) -> None:
    """Some of the keys: exit code 6, partial."""
    lite.insert("x")
    result = lite.run("retry", "invoices", "1", "99")
    assert result.exit_code == 6
    assert "2 of 2 keys are not failed rows" in result.output


def test_retry_counts_a_repeated_key_once(lite: Project) -> None:
    """The same key twice is one row: nothing is partial."""
    lite.insert("x")
    lite.sql("UPDATE invoices SET status = 'broken'")
    result = lite.run("retry", "invoices", "1", "1")
    assert result.exit_code == 0, result.output
    assert "1 row of invoices retried" in result.output


def test_retry_needs_to_know_which_rows(lite: Project) -> None:
    """Neither or both ways is a usage error."""
    assert lite.run("retry", "invoices").exit_code == 2
    assert lite.run("retry", "invoices", "1", "--all").exit_code == 2


def test_cancel_a_waiting_row(project: Project) -> None:
    """It fails with the reason; a second time there is nothing to cancel."""
    project.insert("x")
    assert project.json("cancel", "invoices", "1", "--reason", "wrong file")["cancelled"] is True
    [row] = project.sql("SELECT status, error_message FROM invoices")
    assert row == {"status": "broken", "error_message": "wrong file"}
    assert project.run("cancel", "invoices", "1").exit_code == 5


def test_pause_resume_and_limit_show_in_status(project: Project) -> None:
    """Status shows what was set."""
    project.run("pause", "invoices", "--reason", "new model")
    project.run("limit", "invoices", "5")
    [picture] = project.json("status")
    [queue] = picture["queues"]
    assert (queue["paused"], queue["reason"], queue["limit"]) == (True, "new model", 5)
    project.run("resume", "invoices")
    project.run("limit", "invoices")
    [queue] = project.json("status")[0]["queues"]
    assert (queue["paused"], queue["limit"]) == (False, None)


def test_orphans_are_released(project: Project) -> None:
    """By key or all of them; a dry run only reports, and rows that are not running are reported with exit code 6."""
    project.insert("x", "y", "z")
    project.sql("UPDATE invoices SET status = 'reading', worker_id = 'old-worker' WHERE id <> 3")
    assert project.json("release", "invoices", "--all-orphans", "--dry-run")["keys"] == ["1", "2"]
    result = project.run("release", "invoices", "1", "3", "--json")
    assert result.exit_code == 6
    output = json.loads(result.stdout)
    assert (output["keys"], output["kept"]) == (
        ["1"],
        [{"key": "3", "reason": "not_running", "worker": None, "note": None}],
    )
    assert project.json("release", "invoices", "--all-orphans") == {
        "queue": "invoices",
        "dry_run": False,
        "released": 1,
        "keys": ["2"],
        "kept": [],
    }
    assert project.sql("SELECT DISTINCT status, worker_id FROM invoices") == [{"status": "new", "worker_id": None}]


def test_a_claimed_row_is_released_only_by_force(project: Project) -> None:
    """Without --force the holder is named; with it the row is ready and the claim has ended."""
    project.insert("x")
    queue = Queue("invoices", ready="new", running="reading", done="read", failed="broken", worker="worker_id")
    ask(project.url, lambda store: store.claim(queue, 1, "worker-1-2"))
    result = project.run("release", "invoices", "1")
    assert result.exit_code == 6
    assert "1 is held by worker-1-2: --force ends its claim" in result.output
    assert project.run("release", "invoices", "1", "--force").output.startswith("1 row of invoices released")
    [attempt] = project.sql("SELECT outcome, error FROM tabellion_attempts")
    assert attempt["outcome"] == "released"
    assert attempt["error"].startswith("released by ")
    assert project.sql("SELECT status FROM invoices") == [{"status": "new"}]


def test_release_needs_to_know_which_rows(lite: Project) -> None:
    """Neither or both ways, or force on orphans, is a usage error."""
    for words in ((), ("1", "--all-orphans"), ("--all-orphans", "--force")):
        assert lite.run("release", "invoices", *words).exit_code == 2


@pytest.mark.parametrize("command", ["release", "retry", "cancel"])
def test_a_key_of_the_wrong_type_is_named_with_the_type_of_its_column(
    pg_url: str, tmp_path: Path, command: str
) -> None:
    """Exit code 5; nothing is changed for the other keys."""
    project = Project(tmp_path, pg_url)
    project.insert("x")
    project.sql("UPDATE invoices SET status = 'reading'")
    result = project.run(command, "invoices", *(() if command == "cancel" else ("1",)), "4711-a")
    assert result.exit_code == 5
    assert str(result.exception) == "'4711-a' is not a key of invoices: its column id has the type integer"
    assert project.sql("SELECT status FROM invoices") == [{"status": "reading"}]
