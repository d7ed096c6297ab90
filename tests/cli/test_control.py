"""retry, cancel, pause, resume, limit, from the command line."""

from __future__ import annotations

from tests.cli.project import Project


def test_failed_rows_are_retried_by_key_by_error_and_all(project: Project) -> None:
    """Each way finds its rows, and says how many."""
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


def test_retry_wants_to_know_which(lite: Project) -> None:
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
    """What was said is what status says."""
    project.run("pause", "invoices", "--reason", "new model")
    project.run("limit", "invoices", "5")
    [picture] = project.json("status")
    [queue] = picture["queues"]
    assert (queue["paused"], queue["reason"], queue["limit"]) == (True, "new model", 5)
    project.run("resume", "invoices")
    project.run("limit", "invoices")
    [queue] = project.json("status")[0]["queues"]
    assert (queue["paused"], queue["limit"]) == (False, None)
