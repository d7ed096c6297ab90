"""`tabellion users`: created, signed in by links, given passwords, disabled."""

from __future__ import annotations

import asyncio

import pytest

from tabellion.accounts import links, passwords, sessions, users
from tabellion.engine.store import Store
from tests.cli.project import Project
from tests.workers import ask

pytestmark = pytest.mark.usefixtures("documents")

GOOD = "seven horses on a roof"


def signed_in_by(project: Project, link: str) -> users.User | None:
    """Return whom a link signs in."""
    ticket = sessions.parse(link.partition("#")[2])
    assert ticket is not None
    return ask(project.url, lambda store: links.use(store, ticket))


def test_a_user_is_added_listed_and_disabled(project: Project) -> None:
    """The link alone on standard output; the last admin cannot be disabled."""
    created = project.run("users", "add", "Anna", "--role", "reviewer", "--url", "https://docs.example.com/")
    assert created.exit_code == 0, created.output
    link = created.stdout.strip()
    assert link.startswith("https://docs.example.com/enter#prod:")
    assert "anna is a reviewer" in created.stderr
    anna = signed_in_by(project, link)
    assert anna is not None
    assert (anna.name, anna.role.word) == ("anna", "reviewer")
    [row] = project.json("users", "list")
    assert (row["name"], row["role"], row["state"], row["password"]) == ("anna", "reviewer", "active", False)
    assert "anna" in project.run("users", "list").output
    assert project.json("users", "disable", "anna") == {"name": "anna", "disabled": True}
    assert project.json("users", "list")[0]["state"] == "disabled"
    refused = project.run("users", "link", "anna")
    assert refused.exit_code == 5
    assert "--undo" in refused.output
    assert "is enabled" in project.run("users", "disable", "anna", "--undo").output
    project.json("users", "add", "root", "--role", "admin")
    assert project.run("users", "disable", "root").exit_code == 5
    assert project.run("users", "disable", "nobody").exit_code == 5


def test_a_link_uses_the_address_of_the_pages(lite: Project) -> None:
    """This machine and the configured port unless given; each link is unique."""
    lite.run("users", "add", "anna", "--role", "viewer")
    first, second = (lite.json("users", "link", "anna")["link"] for _ in range(2))
    assert first != second
    assert first.startswith("http://127.0.0.1:8080/enter#prod:")
    assert signed_in_by(lite, first) is not None
    assert lite.run("users", "link", "ben").exit_code == 5


def test_a_password_is_set_from_standard_input(lite: Project) -> None:
    """It ends open sessions; an easy one is rejected, and so is an unknown role."""
    lite.run("users", "add", "anna", "--role", "viewer")

    async def begun(store: Store) -> sessions.Ticket:
        user = await users.get_by_name(store, "anna")
        return await sessions.begin(store, "prod", user.id, "link")

    ask(lite.url, begun)
    done = lite.run("users", "password", "anna", input=f"{GOOD}\n")
    assert done.exit_code == 0, done.output
    assert GOOD not in done.output
    assert ask(lite.url, lambda store: store.database.fetch("SELECT 1 AS n FROM tabellion_sessions")) == []
    _, kept = ask(lite.url, lambda store: users.password_of(store, "anna"))
    assert kept is not None
    assert asyncio.run(passwords.matches(kept, GOOD))
    assert lite.run("users", "password", "anna", input="short\n").exit_code == 5
    assert lite.run("users", "add", "ben", "--role", "root").exit_code == 3
    assert lite.run("users", "add", "anna", "--role", "viewer").exit_code == 5
