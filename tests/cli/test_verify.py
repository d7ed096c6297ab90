"""`tabellion verify`: clean, notes, violations, and exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabellion.errors import ValueRefused
from tabellion.monitor import verify as verification
from tabellion.pipelines.documents.pipeline import DocumentsPipeline
from tests.cli.project import Project
from tests.servers import free_port

pytestmark = pytest.mark.usefixtures("at_once")


def test_a_sound_database(project: Project) -> None:
    """Exit code 0, and nothing to show; a dry look changes nothing."""
    project.insert("a", "empty")
    project.work()
    assert project.json("verify") == []
    shown = project.run("verify", "--strict", "--files")
    assert (shown.exit_code, shown.stdout) == (0, "no violations found\n")


def test_a_violation_is_shown_with_its_fix(project: Project) -> None:
    """Exit code 6; as text and as JSON."""
    project.insert("a", "empty")
    project.work()
    project.sql("UPDATE tabellion_attempts SET attempt = 7 WHERE key = '1'")
    shown = project.run("verify")
    assert shown.exit_code == 6
    assert "violation  prod: invoices/1: its first claim is attempt 7" in shown.stdout
    assert "fix: look at `tabellion explain invoices 1`" in shown.stdout
    assert "1 violation, 0 notes" in shown.stdout
    result = project.run("verify", "--json")
    assert result.exit_code == 6
    [found] = json.loads(result.stdout)
    assert {name: found[name] for name in ("environment", "level", "kind", "where")} == {
        "environment": "prod", "level": "violation", "kind": "miscounted", "where": "invoices/1",
    }  # fmt: skip


def test_notes_do_not_fail_it(project: Project) -> None:
    """What an edit by hand can cause is shown; `--strict` makes it count."""
    project.insert("a")
    project.work()
    project.sql("UPDATE invoices SET status = 'broken'")
    shown = project.run("verify")
    assert shown.exit_code == 0
    assert "note       prod: invoices/1: the row is failed, its last attempt ended as done" in shown.stdout
    assert project.run("verify", "--strict").exit_code == 6


def test_more_than_are_shown(lite: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a check stops at a number of findings, the summary says so."""
    lite.insert("a", "b")
    lite.work()
    lite.sql("UPDATE invoices SET status = 'broken'")
    assert lite.run("verify").stdout.endswith("0 violations, 2 notes\n")
    monkeypatch.setattr(verification, "MOST", 1)
    shown = lite.run("verify").stdout
    assert shown.endswith("0 violations, 1 note; there may be more: at most 1 of a kind are shown for each queue\n")


def test_without_a_register(project: Project) -> None:
    """There is nothing to verify yet: exit code 4, and nothing is created."""
    result = project.run("verify")
    assert result.exit_code == 4
    assert "no register yet" in str(result.exception)


def test_an_environment_that_cannot_be_checked(lite: Project) -> None:
    """The others are, it is named, and the exit code is 6; with none of them, that of the error."""
    lite.insert("a", "empty")
    lite.work()
    file = lite.folder / "tabellion.toml"
    file.write_text(f'{file.read_text()}away = "postgresql://nobody@127.0.0.1:{free_port()}/none"\n')
    shown = lite.run("verify")
    assert shown.exit_code == 6
    assert "away: " in shown.stderr
    assert shown.stdout == "no violations found; not everything could be checked\n"
    lite.sql("UPDATE tabellion_attempts SET attempt = 7 WHERE key = '1'")
    shown = lite.run("verify", "--json")
    found = [(one["environment"], one["level"], one["kind"]) for one in json.loads(shown.stdout)]
    assert (shown.exit_code, found) == (6, [("prod", "violation", "miscounted"), ("away", "error", "unchecked")])
    shown = lite.run("verify", "--environment", "away", "--json")
    assert (shown.exit_code, [one["kind"] for one in json.loads(shown.stdout)]) == (4, ["unchecked"])


@pytest.mark.usefixtures("documents")
def test_a_check_that_fails_after_a_violation(lite: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The violation is shown, and decides the exit code."""

    async def fail(*_: Any, **__: Any) -> None:
        raise ValueRefused("a file is a folder")

    lite.insert("a")
    lite.work()
    lite.sql("UPDATE tabellion_attempts SET attempt = 7 WHERE key = '1'")
    monkeypatch.setattr(DocumentsPipeline, "verify", fail)
    shown = lite.run("verify", "--with", "documents")
    assert shown.exit_code == 6
    assert shown.stdout.endswith("1 violation, 0 notes; not everything could be checked\n")
    assert shown.stderr == "prod: a file is a folder\n"


@pytest.mark.usefixtures("documents")
def test_pipelines_contribute(project: Project) -> None:
    """Checks of documents run with theirs."""
    project.sql(
        """INSERT INTO tabellion_review_items (id, document_id, priority, confidence, complexity, value, reasons,
  created_at, due_at) SELECT 'i', 'gone', 1, 1, 1, 1, '[]', applied_at, applied_at FROM tabellion_documents_schema
LIMIT 1"""
    )
    result = project.run("verify", "--with", "documents", "--all-files", "--json")
    assert result.exit_code == 6
    assert [(one["kind"], one["where"]) for one in json.loads(result.stdout)] == [("item_lost", "review/i")]
