"""`tabellion webhooks`: endpoints from the command line, their secrets shown once."""

from __future__ import annotations

import re

import pytest

from tests.cli.project import Project

pytestmark = pytest.mark.usefixtures("documents")


def test_an_endpoint_from_creation_to_removal(project: Project) -> None:
    """Added with a secret that no list shows, rotated, disabled, enabled, removed."""
    assert "no endpoints yet" in project.run("webhooks", "list").stdout
    body = project.json("webhooks", "add", "https://93.184.215.14/hook", "--event", "document.failed")
    assert body["secret"].startswith("whsec_")
    rotated = project.json("webhooks", "rotate", body["id"])
    assert rotated["secret"] != body["secret"]
    shown = project.run("webhooks", "list")
    assert body["id"] in shown.stdout  # on one line, however narrow the terminal is: it is to be copied
    assert "whsec_" not in shown.stdout
    assert project.run("webhooks", "disable", body["id"], "--reason", "moves").exit_code == 0
    [listed] = project.json("webhooks", "list")
    assert (listed["events"], listed["disabled_why"], listed["pending"]) == (["document.failed"], "moves", 0)
    assert project.run("webhooks", "enable", body["id"]).exit_code == 0
    assert project.json("webhooks", "list")[0]["disabled_why"] is None
    assert project.run("webhooks", "remove", body["id"]).exit_code == 0
    assert project.json("webhooks", "list") == []


def test_the_recommended_command_works(lite: Project) -> None:
    """The command that resends parked deliveries exists, with all it needs."""
    (lite.folder / "tabellion.toml").write_text(f'[environments]\nprod = "{lite.url}"\n')
    body = lite.json("webhooks", "add", "https://93.184.215.14/hook")
    recommended = re.search("`tabellion (.*?)`", lite.run("webhooks", "enable", body["id"]).stdout)
    assert recommended is not None
    done = lite.run(*recommended[1].split())
    assert (done.exit_code, done.stdout) == (0, "0 rows of webhooks retried\n")


def test_invalid_arguments_are_input_errors(lite: Project) -> None:
    """A forbidden address, an unknown event, an unknown endpoint: exit code 5 and one sentence."""
    for words in (
        ("add", "ftp://example.com"),
        ("add", "http://user:pass@example.com/"),
        ("add", "https://93.184.215.14", "--event", "document.eaten"),
        ("add", "http://169.254.169.254/latest"),
        ("add", "http://127.0.0.1:9/hook"),
        ("rotate", "we_nobody"),
    ):
        assert lite.run("webhooks", *words).exit_code == 5, words


def test_an_endpoint_for_documents_that_name_it(lite: Project) -> None:
    """`--event none` subscribes to no event."""
    assert lite.json("webhooks", "add", "https://93.184.215.14/hook", "--event", "none")["events"] == []


def test_an_allowed_network_may_be_used(lite: Project) -> None:
    """The same rules as over HTTP and at each delivery; a refusal names the setting."""
    refusal = lite.run("webhooks", "add", "http://127.0.0.1:9/hook").exception
    assert str(refusal).endswith("its host is not a public address (server.allow opens your own networks)")
    with (lite.folder / "tabellion.toml").open("a") as file:
        file.write('[server]\nallow = ["127.0.0.0/8"]\n')
    assert lite.run("webhooks", "add", "http://127.0.0.1:9/hook").exit_code == 0
