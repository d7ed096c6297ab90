"""Sessions: opaque, stored as hashes, ended by time, by sign-out, and with their user."""

from __future__ import annotations

import pytest

from tabellion.accounts import session_rows, sessions, users
from tabellion.engine import sql
from tabellion.engine.store import Store
from tests.web.browser import Browser, signed_in
from tests.web.live import Live, problem


@pytest.fixture
def anna(web_any: Live) -> Browser:
    """A signed-in user."""
    return signed_in(web_any, "operator", name="anna")


def age(web: Live, column: str, seconds: float) -> None:
    """Make all sessions older."""

    async def work(store: Store) -> None:
        moment = sql.later(repr(-seconds), store.dialect)
        await store.database.fetch(f"UPDATE tabellion_sessions SET {column} = {moment}")

    web.store("prod", work)


def test_a_session_identifies_its_user(anna: Browser) -> None:
    """Name, role, environment and the token; the secret is nowhere in the database."""
    body = anna.get("/api/me").json()
    assert (body["name"], body["role"], body["environment"]) == ("anna", "operator", "prod")
    assert body["csrf"] == anna.token
    [row] = anna.web.sql("SELECT * FROM tabellion_sessions")
    assert anna.ticket.secret not in str(row)
    assert row["hash"] == anna.ticket.hash
    assert repr(anna.ticket) == "Ticket('prod')"


def test_a_session_ends_after_eight_hours_without_a_request(anna: Browser) -> None:
    """A little less is fine, and restarts the time."""
    age(anna.web, "seen_at", session_rows.IDLE - 60)
    assert anna.get("/api/me").status_code == 200
    assert anna.get("/api/me").status_code == 200
    age(anna.web, "seen_at", session_rows.IDLE + 1)
    problem(anna.get("/api/me"), 401, "session_ended")
    page = anna.get("/documents?status=failed")
    assert (page.status_code, page.headers["location"]) == (303, "/sign-in?next=/documents%3Fstatus%3Dfailed")


def test_a_session_ends_after_a_day_however_busy(anna: Browser) -> None:
    """Use does not extend it; the next sign-in of anyone deletes it."""
    age(anna.web, "created_at", session_rows.LONGEST - 60)
    assert anna.get("/api/me").status_code == 200
    age(anna.web, "created_at", session_rows.LONGEST + 1)
    problem(anna.get("/api/me"), 401, "session_ended")
    signed_in(anna.web, "viewer")
    assert len(anna.web.sql("SELECT hash FROM tabellion_sessions")) == 1


def test_use_is_recorded_once_a_minute(anna: Browser) -> None:
    """Every request would be a write otherwise."""
    age(anna.web, "seen_at", sessions.NOTED / 2)
    [before] = anna.web.sql("SELECT seen_at FROM tabellion_sessions")
    anna.get("/api/me")
    assert anna.web.sql("SELECT seen_at FROM tabellion_sessions") == [before]
    age(anna.web, "seen_at", sessions.NOTED + 1)
    [before] = anna.web.sql("SELECT seen_at FROM tabellion_sessions")
    anna.get("/api/me")
    assert anna.web.sql("SELECT seen_at FROM tabellion_sessions")[0]["seen_at"] > before["seen_at"]


def test_signing_out_ends_it_on_the_server(anna: Browser) -> None:
    """The cookie is deleted, and a copy of it is void; other sessions of the user continue."""
    other = signed_in(anna.web, "operator", name="anna")
    answer = anna.ask("POST", "/sign-out")
    assert answer.status_code == 204
    assert 'tabellion=""' in answer.headers["set-cookie"]
    problem(anna.get("/api/me"), 401, "session_ended")
    assert other.get("/api/me").status_code == 200


def test_a_change_of_role_takes_effect_at_once(anna: Browser) -> None:
    """No session keeps rights that its user has lost."""
    assert anna.ask("POST", "/api/documents/0/reprocess").status_code == 404
    user = anna.web.store("prod", lambda store: users.find_by_name(store, "anna"))
    assert user is not None
    anna.web.store("prod", lambda store: users.change(store, user.id, role="viewer"))
    problem(anna.ask("POST", "/api/documents/0/reprocess"), 403, "role_required")


def test_a_disabled_user_is_signed_out(anna: Browser) -> None:
    """At once, even if the session's row was restored."""
    user = anna.web.store("prod", lambda store: users.find_by_name(store, "anna"))
    assert user is not None
    anna.web.sql("UPDATE tabellion_users SET disabled_at = created_at WHERE id = $1", user.id)
    problem(anna.get("/api/me"), 401, "session_ended")
    anna.web.sql("UPDATE tabellion_users SET disabled_at = NULL WHERE id = $1", user.id)
    anna.web.store("prod", lambda store: users.change(store, user.id, disabled=True))
    anna.web.sql("UPDATE tabellion_users SET disabled_at = NULL WHERE id = $1", user.id)
    problem(anna.get("/api/me"), 401, "session_ended")


@pytest.mark.parametrize(
    "text", ["", "x", "prod:", ":" + "0" * 64, "prod:" + "0" * 63, "prod:" + "G" * 64, "a b:" + "0" * 64, "x" * 9000]
)
def test_an_invalid_session_is_not_looked_up(text: str) -> None:
    """It never reaches a database."""
    assert sessions.parse(text) is None


def test_an_unknown_session_is_refused(web: Live) -> None:
    """Like one that has ended, whatever environment it names."""
    for text in (str(sessions.new_ticket("prod")), str(sessions.new_ticket("nowhere")), "nonsense"):
        answer = web.get("/api/me", key=None, headers={"Cookie": f"tabellion={text}"})
        problem(answer, 401, "session_ended")
        assert text not in answer.text
