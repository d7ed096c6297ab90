"""`tabellion sla`: which targets are kept, and an exit code for scripts."""

from __future__ import annotations

from tests.cli.project import Project
from tests.cli.test_prune import configure

TARGETS = '\n[sla.queues.invoices]\noldest = "1h"\nfailed = 0.5\n'


def test_targets_that_are_kept(project: Project) -> None:
    """Measured now, without a worker."""
    configure(project, TARGETS)
    project.insert("a", "empty")
    project.work()
    rows = project.json("sla")
    assert [(row["target"], row["value"], row["kept"], row["state"]) for row in rows] == [
        ("queues.invoices.oldest", 0.0, True, "ok"), ("queues.invoices.failed", 0.5, True, "ok"),
    ]  # fmt: skip
    shown = project.run("sla")
    assert shown.exit_code == 0
    assert "≤ 50 %" in shown.stdout


def test_a_target_that_is_missed(project: Project) -> None:
    """Exit code 6."""
    configure(project, TARGETS)
    project.insert("empty")
    project.work()
    shown = project.run("sla")
    assert shown.exit_code == 6
    assert "missed" in shown.stdout
    assert "100 %" in shown.stdout


def test_a_target_that_cannot_be_measured(lite: Project) -> None:
    """It is not kept either, and the reason is shown."""
    configure(lite, TARGETS)
    lite.run("migrate")
    lite.sql("ALTER TABLE invoices RENAME COLUMN created_at TO made")
    shown = lite.run("sla", "--json")
    assert shown.exit_code == 6
    assert "no column of invoices has the time" in shown.stdout


def test_without_targets(lite: Project) -> None:
    """It says what to write."""
    lite.run("migrate")
    shown = lite.run("sla")
    assert shown.exit_code == 0
    assert "[sla.queues.documents]" in shown.stdout


def test_targets_of_a_pipeline_that_was_not_named(lite: Project) -> None:
    """They are not checked, and it says so, also if there is no other target."""
    configure(lite, '\n[sla.queues.documents]\noldest = "1h"\n[sla.types.invoice]\nreviewed = 0.9\n')
    lite.run("migrate")
    shown = lite.run("sla")
    assert shown.exit_code == 0
    assert shown.output == (
        "not checked: sla.queues.documents, sla.types; name their pipeline, e.g. --with documents\n"
    )


def test_a_queue_that_does_not_exist(lite: Project) -> None:
    """Neither the check nor a worker starts."""
    configure(lite, '\n[sla.queues.invoice]\noldest = "1h"\n')
    for command in (["sla"], ["worker", "--until-idle"]):
        shown = lite.run(*command)
        assert shown.exit_code == 3
        assert "did you mean 'invoices'" in str(shown.output) + str(shown.exception)
