"""`tabellion keys`: created and shown once, listed without secrets, revoked."""

from __future__ import annotations

import re

import pytest

from tabellion.accounts import keys
from tests.cli.project import Project
from tests.workers import ask

pytestmark = pytest.mark.usefixtures("documents")


def test_a_key_is_created_listed_and_revoked(project: Project) -> None:
    """The key alone on standard output, the rest on standard error; it works until it is revoked."""
    created = project.run("keys", "create", "--role", "operator", "--name", "mail room", "--days", "30")
    assert created.exit_code == 0, created.output
    text = created.stdout.strip()
    assert re.fullmatch(r"tab_prod_[0-9a-f]{12}_[0-9a-f]{64}", text)
    assert "not shown again" in created.stderr
    key = keys.parse(text)
    assert key is not None
    holder = ask(project.url, lambda store: keys.holder(store, key))
    assert holder is not None
    assert holder.name == "mail room"
    [row] = project.json("keys", "list")
    assert (row["id"], row["role"], row["name"], row["state"]) == (key.id, "operator", "mail room", "active")
    assert row["expires_at"] > row["created_at"]
    shown = project.run("keys", "list").output
    assert "mail room" in shown
    assert key.id in shown  # on one line: it is to be copied
    assert key.secret not in shown
    assert project.run("keys", "revoke", key.id).exit_code == 0
    assert ask(project.url, lambda store: keys.holder(store, key)) is None
    assert project.run("keys", "revoke", key.id).exit_code == 5


def test_a_key_as_json(project: Project) -> None:
    """For scripts."""
    body = project.json("keys", "create", "--role", "viewer")
    assert (body["environment"], body["role"], body["name"]) == ("prod", "viewer", "")
    assert body["key"].startswith(f"tab_prod_{body['id']}_")
    assert project.json("keys", "revoke", body["id"]) == {"id": body["id"], "revoked": True}


def test_an_unknown_role_is_rejected(project: Project) -> None:
    """With the known roles; and a role is required."""
    refused = project.run("keys", "create", "--role", "root")
    assert refused.exit_code == 3
    assert "viewer, reviewer, operator, admin" in str(refused.exception)
    assert project.run("keys", "create").exit_code == 2
