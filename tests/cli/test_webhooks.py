"""`tabellion webhooks`: endpoints from the command line, their secrets shown once."""

from __future__ import annotations

from tests.cli.project import Project


def test_an_endpoint_from_its_beginning_to_its_end(project: Project) -> None:
    """Added with a secret that no list shows, rotated, disabled, enabled, removed."""
    assert "nobody is told yet" in project.run("webhooks", "list").stdout
    made = project.json("webhooks", "add", "https://example.com/hook", "--event", "document.failed")
    assert made["secret"].startswith("whsec_")
    rotated = project.json("webhooks", "rotate", made["id"])
    assert rotated["secret"] != made["secret"]
    shown = project.run("webhooks", "list")
    assert made["id"][:6] in shown.stdout
    assert "whsec_" not in shown.stdout
    assert project.run("webhooks", "disable", made["id"], "--reason", "moves").exit_code == 0
    [listed] = project.json("webhooks", "list")
    assert (listed["events"], listed["disabled_why"], listed["pending"]) == (["document.failed"], "moves", 0)
    assert project.run("webhooks", "enable", made["id"]).exit_code == 0
    assert project.json("webhooks", "list")[0]["disabled_why"] is None
    assert project.run("webhooks", "remove", made["id"]).exit_code == 0
    assert project.json("webhooks", "list") == []


def test_what_cannot_be_is_an_input_error(lite: Project) -> None:
    """An address that is never called, an unknown event, an unknown endpoint: exit code 5 and one sentence."""
    for words in (
        ("add", "ftp://example.com"),
        ("add", "http://user:pass@example.com/"),
        ("add", "https://example.com", "--event", "document.eaten"),
        ("rotate", "we_nobody"),
    ):
        assert lite.run("webhooks", *words).exit_code == 5, words


def test_an_endpoint_for_documents_that_name_it(lite: Project) -> None:
    """`--event none` wants no event of its own."""
    assert lite.json("webhooks", "add", "https://example.com/hook", "--event", "none")["events"] == []
