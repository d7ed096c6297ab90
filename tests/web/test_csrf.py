"""Cross-site request forgery: every route that changes something refuses forged requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabellion.web import csrf
from tabellion.web.policy import OPEN
from tests.models.bills import bill
from tests.web.browser import Browser, signed_in
from tests.web.live import Live, live, problem
from tests.web.policy import POLICY
from tests.web.test_policy import address

UNSAFE = sorted((method, path) for (method, path), role in POLICY.items() if method != "GET" and role is not OPEN)
OPEN_UNSAFE = sorted((method, path) for (method, path), role in POLICY.items() if method != "GET" and role is OPEN)
FORGED = {
    "no token": {"X-CSRF-Token": ""},
    "a wrong token": {"X-CSRF-Token": "0" * 64},
    "letters beyond ASCII": {"X-CSRF-Token": "é" * 8},
    "another origin": {"Origin": "https://evil.example"},
    "no origin of anybody's": {"Origin": "null"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "a sister site": {"Sec-Fetch-Site": "same-site"},
    "an address that was typed": {"Sec-Fetch-Site": "none"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application for this module."""
    folder = tmp_path_factory.mktemp("csrf")
    with live(folder, {"prod": f"sqlite:///{folder}/prod.db"}) as one:
        yield one


@pytest.fixture(scope="module")
def document(place: Live) -> str:
    """A document that must not be deleted by a forged request."""
    return str(place.upload(bill("csrf"))["id"])


@pytest.fixture(scope="module")
def admin(place: Live) -> Browser:
    """A user who may do everything."""
    return signed_in(place, "admin")


@pytest.mark.parametrize(("method", "path"), UNSAFE)
def test_a_forged_request_changes_nothing(place: Live, document: str, admin: Browser, method: str, path: str) -> None:
    """403 whatever is missing or wrong; the session stays and the document exists."""
    for forged in FORGED.values():
        sent = {name: value.encode() if not value.isascii() else value for name, value in forged.items()}
        answer = admin.ask(method, address(path, document), headers=sent)  # type: ignore[arg-type]
        problem(answer, 403, "csrf_failed")
    assert admin.get(f"/api/documents/{document}").status_code == 200


@pytest.mark.parametrize(("method", "path"), OPEN_UNSAFE)
def test_no_other_site_can_sign_a_user_in(place: Live, method: str, path: str) -> None:
    """Visitors have a token too, from the page they were shown."""
    page = place.get("/sign-in", key=None)
    cookie = page.headers["set-cookie"].partition(";")[0]
    token = csrf.token(cookie.partition("=")[2])
    assert token in page.text
    good = {"Cookie": cookie, "Origin": place.url, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": token}
    for forged in FORGED.values():
        sent = {name: value.encode() for name, value in {**good, **forged}.items() if value}
        problem(place.ask(method, path, key=None, headers=sent, json={}), 403, "csrf_failed")  # type: ignore[arg-type]
    assert place.ask(method, path, key=None, headers=good, json={}).status_code == 422


def test_a_token_is_valid_for_its_own_session_only(place: Live) -> None:
    """Nor is a visitor's: each cookie has its own."""
    anna, ben = signed_in(place, "admin"), signed_in(place, "operator")
    answer = anna.ask("PATCH", "/api/me", headers={"X-CSRF-Token": ben.token}, json={"language": "fr"})
    problem(answer, 403, "csrf_failed")
    visit = {"Cookie": f"{anna.cookie['Cookie']}; tabellion-visit=abc", "X-CSRF-Token": csrf.token("abc")}
    problem(anna.ask("PATCH", "/api/me", headers=visit, json={"language": "fr"}), 403, "csrf_failed")


def test_a_program_needs_only_the_token(place: Live) -> None:
    """Not every client sends Origin or Sec-Fetch-Site; the token is what counts."""
    anna = signed_in(place, "viewer")
    bare = {"Origin": "", "Sec-Fetch-Site": ""}
    assert anna.ask("PATCH", "/api/me", headers=bare, json={"language": "fr"}).status_code == 204
    problem(anna.ask("PATCH", "/api/me", headers={**bare, "X-CSRF-Token": ""}, json={}), 403, "csrf_failed")


def test_get_requests_change_nothing(place: Live, admin: Browser) -> None:
    """No GET of a page or list writes to the tables of accounts."""
    before = (
        place.sql("SELECT count(*) AS n FROM tabellion_users"),
        place.sql("SELECT count(*) AS n FROM tabellion_sessions"),
    )
    for (method, path), role in POLICY.items():
        if method == "GET" and role is not OPEN and not path.endswith("/events"):
            admin.get(address(path, "0" * 26), headers={"X-CSRF-Token": ""})
    assert (
        place.sql("SELECT count(*) AS n FROM tabellion_users"),
        place.sql("SELECT count(*) AS n FROM tabellion_sessions"),
    ) == before
    assert admin.get("/api/me").status_code == 200
