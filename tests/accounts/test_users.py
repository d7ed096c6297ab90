"""Users: created, changed and disabled by admins; and their own settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.accounts import audit, passwords, users
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError
from tests.web.browser import Browser, signed_in
from tests.web.live import Live, live, problem
from tests.workers import ask

GOOD = "seven horses on a roof"


@pytest.fixture
def place(tmp_path: Path, url: str) -> Iterator[Live]:
    """An application of its own for each test, on each database."""
    with live(tmp_path, {"prod": url}) as one:
        yield one


@pytest.fixture
def admin(place: Live) -> Browser:
    """A user who may do everything."""
    return signed_in(place, "admin")


def test_an_admin_adds_changes_and_disables(place: Live, admin: Browser) -> None:
    """Added without a password, given another role, disabled, enabled again; the list shows it."""
    answer = admin.ask("POST", "/api/users", json={"name": "Anna", "role": "reviewer"})
    assert answer.status_code == 201, answer.text
    anna = answer.json()
    assert (anna["name"], anna["role"], anna["has_password"], anna["available"]) == ("anna", "reviewer", False, True)
    where = f"/api/users/{anna['id']}"
    changed = admin.ask("PATCH", where, json={"role": "operator", "available": False}).json()
    assert (changed["role"], changed["available"]) == ("operator", False)
    browser = signed_in(place, "operator", name="anna")
    assert admin.ask("PATCH", where, json={"disabled": True}).json()["disabled_at"]
    problem(browser.get("/api/me"), 401, "session_ended")
    assert admin.ask("PATCH", where, json={"disabled": False}).json()["disabled_at"] is None
    problem(browser.get("/api/me"), 401, "session_ended")
    listed = admin.get("/api/users").json()["users"]
    assert [one["name"] for one in listed] == ["admin", "anna"]
    assert "$argon2" not in admin.get("/api/users").text
    assert admin.ask("PATCH", where, json={}).json()["role"] == "operator"


def test_user_changes_are_audited(place: Live, admin: Browser) -> None:
    """Who was added, given a role or disabled, and by whom; nothing refused, personal or secret."""
    anna = admin.ask("POST", "/api/users", json={"name": "anna", "role": "reviewer"}).json()
    problem(admin.ask("POST", "/api/users", json={"name": "anna", "role": "admin"}), 409, "name_taken")
    [me] = [one for one in admin.get("/api/users").json()["users"] if one["name"] == "admin"]
    problem(admin.ask("PATCH", f"/api/users/{me['id']}", json={"role": "viewer"}), 409, "last_admin")
    for change in ({"role": "operator"}, {"role": "operator", "available": False}, {"disabled": True}):
        assert admin.ask("PATCH", f"/api/users/{anna['id']}", json=change).status_code == 200
    assert admin.ask("PUT", "/api/me/password", json={"new": GOOD}).status_code == 204
    assert admin.ask("POST", f"/api/users/{me['id']}/link").status_code == 201
    body = [json.loads(row["body"]) for row in place.sql("SELECT body FROM tabellion_audit_log ORDER BY n")]
    body = [one for one in body if "user" in one]
    reviewer, operator = ({"role": role, "disabled": False} for role in ("reviewer", "operator"))
    assert [(one["action"], one["actor"], one["user"], one.get("before"), one.get("after")) for one in body] == [
        ("user_added", "command line", "admin", None, {"role": "admin", "disabled": False}),
        ("user_added", "admin", "anna", None, reviewer),
        ("user_changed", "admin", "anna", reviewer, operator),
        ("user_changed", "admin", "anna", operator, {"role": "operator", "disabled": True}),
        ("password_set", "admin", "admin", None, None),
        ("link_made", "admin", "admin", None, None),
    ]
    assert GOOD not in str(body)
    assert place.store("prod", audit.verify).whole


def test_a_name_is_unique(admin: Browser) -> None:
    """In any case; and a name that could be taken for something else is rejected."""
    assert admin.ask("POST", "/api/users", json={"name": "anna", "role": "viewer"}).status_code == 201
    problem(admin.ask("POST", "/api/users", json={"name": "ANNA", "role": "admin"}), 409, "name_taken")
    for name in (
        "key:anna",
        "user:anna",
        "a b",
        "-anna",
        "<b>anna</b>",
        "ännа",
        "x" * 65,
        "tabellion",
        "Me",
        "none",
        "worker-1",
    ):
        problem(admin.ask("POST", "/api/users", json={"name": name, "role": "viewer"}), 422, "value_invalid")
    for body in ({"name": "ben"}, {"name": "ben", "role": "root"}, {"name": "ben", "role": "viewer", "id": "x"}):
        assert admin.ask("POST", "/api/users", json=body).status_code == 422


def test_the_last_admin_stays(place: Live, admin: Browser) -> None:
    """Nobody can lock everyone out, not even two admins disabling each other at once."""
    [me] = admin.get("/api/users").json()["users"]
    for change in ({"role": "operator"}, {"disabled": True}):
        error = problem(admin.ask("PATCH", f"/api/users/{me['id']}", json=change), 409, "last_admin")
        assert error["translatable"]["detail"]["code"] == "problem.last_admin"
    other = admin.ask("POST", "/api/users", json={"name": "ben", "role": "admin"}).json()

    async def both(store: Store) -> list[object]:
        steps = (users.change(store, id_, role="viewer") for id_ in (me["id"], other["id"]))
        return list(await asyncio.gather(*steps, return_exceptions=True))

    ended = place.store("prod", both)
    assert len([one for one in ended if isinstance(one, users.LastAdmin)]) == 1
    left = place.sql("SELECT count(*) AS n FROM tabellion_users WHERE role = 'admin'")
    assert left[0]["n"] == 1


def test_an_admin_creates_a_link(place: Live, admin: Browser) -> None:
    """For the address of the admin's own browser; not for a disabled user."""
    anna = admin.ask("POST", "/api/users", json={"name": "anna", "role": "viewer"}).json()
    body = admin.ask("POST", f"/api/users/{anna['id']}/link").json()
    assert body["url"].startswith(f"{place.url}/enter#prod:")
    assert body["seconds"] == 900
    admin.ask("PATCH", f"/api/users/{anna['id']}", json={"disabled": True})
    problem(admin.ask("POST", f"/api/users/{anna['id']}/link"), 409, "user_disabled")
    problem(admin.ask("POST", "/api/users/nobody/link"), 404, "not_found")


def test_a_user_changes_their_own_settings(place: Live) -> None:
    """Language and availability, and nothing else: not the role."""
    anna = signed_in(place, "reviewer", name="anna")
    assert anna.ask("PATCH", "/api/me", json={"language": "fr", "available": False}).status_code == 204
    assert anna.get("/api/me").json()["language"] == "fr"
    assert anna.get("/api/people").json() == {"people": [{"name": "anna", "role": "reviewer", "available": False}]}
    problem(anna.ask("PATCH", "/api/me", json={"role": "admin"}), 422, "value_unknown")
    problem(anna.ask("PATCH", "/api/me", json={"language": "xx"}), 422, "value_invalid")


def test_keys_have_no_settings(place: Live) -> None:
    """A key is not a user: it has neither language nor password."""
    problem(place.ask("PATCH", "/api/me", json={"language": "fr"}), 409, "session_needed")
    problem(place.ask("PUT", "/api/me/password", json={"new": GOOD}), 409, "session_needed")
    assert place.get("/api/me").json()["csrf"] is None


def test_a_password_is_set_and_changed(place: Live) -> None:
    """By a user who came by a link, later with the old password; the other sessions end."""
    anna = signed_in(place, "viewer", name="anna", opened_by="link")
    other = signed_in(place, "viewer", name="anna")
    problem(anna.ask("PUT", "/api/me/password", json={"new": "short"}), 422, "password_weak")
    assert anna.ask("PUT", "/api/me/password", json={"new": GOOD}).status_code == 204
    problem(other.get("/api/me"), 401, "session_ended")
    assert anna.get("/api/me").status_code == 200
    later = signed_in(place, "viewer", name="anna")
    problem(later.ask("PUT", "/api/me/password", json={"new": f"{GOOD}!"}), 422, "password_wrong")
    wrong = {"current": "something else entirely", "new": f"{GOOD}!"}
    problem(later.ask("PUT", "/api/me/password", json=wrong), 422, "password_wrong")
    assert later.ask("PUT", "/api/me/password", json={"current": GOOD, "new": f"{GOOD}!"}).status_code == 204
    _, kept = place.store("prod", lambda store: users.password_of(store, "anna"))
    assert kept is not None
    assert asyncio.run(passwords.matches(kept, f"{GOOD}!"))


def test_an_old_link_session_cannot_change_the_password(place: Live) -> None:
    """Only within the lifetime of a link."""
    anna = signed_in(place, "viewer", name="anna", opened_by="link")
    assert anna.ask("PUT", "/api/me/password", json={"new": GOOD}).status_code == 204
    moment = "created_at - 1000" if place.urls["prod"].startswith("sqlite") else "created_at - interval '1000 s'"
    place.sql(f"UPDATE tabellion_sessions SET created_at = {moment}")
    problem(anna.ask("PUT", "/api/me/password", json={"new": f"{GOOD}!"}), 422, "password_wrong")


def test_names_and_roles_are_checked_in_the_store(url: str) -> None:
    """For every caller: the command line uses the same function."""
    with pytest.raises(ConfigurationError, match="viewer, reviewer, operator, admin"):
        ask(url, lambda store: users.add(store, "anna", "root"))
    with pytest.raises(ConfigurationError, match="start with a letter"):
        ask(url, lambda store: users.add(store, "../x", "viewer"))
    with pytest.raises(users.NoSuchUser, match="anna"):
        ask(url, lambda store: users.get_by_name(store, "anna"))
