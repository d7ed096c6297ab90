"""Signing in and out: by password, by link, over HTTP or HTTPS, and not by guessing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tabellion.accounts import links, passwords, sessions, users
from tabellion.web import csrf, throttle
from tabellion.web.pages.page import local
from tests.web.browser import Browser, signed_in
from tests.web.live import Live, live, problem

UNCLOSED = b'{"name": "' + b'\\"' * 499_000  #: a string that never ends, as long as the API takes bodies
GOOD = "seven horses on a roof"


@pytest.fixture(scope="module")
def kept() -> str:
    """The hash of a valid password, shared because computing one is slow."""
    return asyncio.run(passwords.hash_password(GOOD))


@pytest.fixture
def place(tmp_path: Path, url: str, kept: str) -> Iterator[Live]:
    """An application with a user, on each database."""
    with live(tmp_path, {"prod": url}) as one:
        one.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        yield one


class Visitor:
    """A browser that is not signed in: the page it was shown, its cookie and its token."""

    def __init__(self, web: Live, path: str = "/sign-in", host: str = "", secure: bool = False) -> None:
        self.web = web
        self.headers = {"Host": host} if host else {}
        self.page = web.get(path, key=None, headers=self.headers)
        cookie = self.page.headers["set-cookie"].partition(";")[0]
        facts = json.loads(re.findall(r'id="facts">(.*?)</script>', self.page.text)[0])
        self.headers |= {"Cookie": cookie, "X-CSRF-Token": facts["csrf"]}

    def send(self, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Send what its script sends."""
        return self.web.ask("POST", path, key=None, headers={**self.headers, **(headers or {})}, json=body)


def browser(web: Live, answer: httpx2.Response) -> Browser:
    """Return a browser signed in by this response."""
    text = re.findall(r"(?:^|, )(?:__Host-)?tabellion=([^;]+)", answer.headers["set-cookie"])[0]
    ticket = sessions.parse(text)
    assert ticket is not None
    return Browser(web, ticket)


def test_a_password_opens_a_session(place: Live) -> None:
    """The session id is new each time; the browser's previous session is ended."""
    first = Visitor(place).send("/sign-in", {"name": " Anna ", "password": GOOD})
    assert first.status_code == 200, first.text
    assert first.json() == {"name": "anna", "role": "reviewer", "environment": "prod"}
    one = browser(place, first)
    assert one.get("/api/me").json()["name"] == "anna"
    stranger = Visitor(place)
    cookies = {"Cookie": f"{stranger.headers['Cookie']}; {one.cookie['Cookie']}"}
    two = browser(place, stranger.send("/sign-in", {"name": "anna", "password": GOOD}, cookies))
    assert two.ticket.secret != one.ticket.secret
    problem(one.get("/api/me"), 401, "session_ended")
    assert two.get("/api/me").status_code == 200


def test_a_session_cookie_is_restricted(place: Live) -> None:
    """No script reads it, no other site sends it, and it ends with the browser."""
    answer = Visitor(place).send("/sign-in", {"name": "anna", "password": GOOD})
    session = next(one for one in answer.headers.get_list("set-cookie") if one.startswith("tabellion="))
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in session.split(";")}
    assert "Max-Age" not in session
    assert "Domain" not in session


def test_every_failed_sign_in_gets_the_same_answer(place: Live) -> None:
    """Wrong password, unknown user, no password, disabled user: one answer, one hash compared."""
    place.store("prod", lambda store: users.add(store, "ben", "viewer"))
    carl = place.store("prod", lambda store: users.add(store, "carl", "viewer", "$argon2id$x"))
    place.store("prod", lambda store: users.change(store, carl.id, disabled=True))
    compared: list[str | None] = []
    true = passwords._verify

    def verify(kept: str | None, password: str) -> bool:
        compared.append(kept)
        return true(kept, password)

    answers = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_verify", verify)
        for name in ("anna", "nobody", "ben", "carl", "x" * 100, "'; DROP TABLE tabellion_users", "a\u202eb"):
            answer = Visitor(place).send("/sign-in", {"name": name, "password": "wrong in any case"})
            answers.append(problem(answer, 401, "sign_in_failed") | {"request_id": ""})
            assert "set-cookie" not in answer.headers
    assert all(one == answers[0] for one in answers)
    assert len(compared) == len(answers)


def test_guessing_is_slowed_down_per_account(place: Live) -> None:
    """Five tries are free, then even the right password must wait; a link still signs in."""
    stranger = Visitor(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttle, "ACCOUNT", throttle.Measure(3, 300))
        patch.setattr(passwords, "_verify", lambda *_: False)
        for _ in range(3):
            problem(stranger.send("/sign-in", {"name": "anna", "password": "guess"}), 401, "sign_in_failed")
        for name in ("anna", "ANNA "):
            answer = stranger.send("/sign-in", {"name": name, "password": GOOD})
            problem(answer, 429, "too_many_tries")
            assert int(answer.headers["retry-after"]) >= 1
        problem(stranger.send("/sign-in", {"name": "ben", "password": "guess"}), 401, "sign_in_failed")
    ticket = place.store("prod", lambda store: links.make(store, "prod", "anna"))
    assert stranger.send("/enter", {"token": str(ticket)}).status_code == 200


def test_guessing_is_slowed_down_per_address(place: Live) -> None:
    """Whatever names it tries, known or not."""
    stranger = Visitor(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttle, "ADDRESS", throttle.Measure(4, 900))
        patch.setattr(passwords, "_verify", lambda *_: False)
        for number in range(4):
            problem(stranger.send("/sign-in", {"name": f"n{number}", "password": "x"}), 401, "sign_in_failed")
        problem(stranger.send("/sign-in", {"name": "anna", "password": GOOD}), 429, "too_many_tries")


def test_a_link_opens_a_session_once(place: Live) -> None:
    """Opening its page does not use it up; the second sign-in is refused."""
    ticket = place.store("prod", lambda store: links.make(store, "prod", "anna"))
    stranger = Visitor(place, "/enter")
    assert stranger.page.status_code == 200
    answer = stranger.send("/enter", {"token": str(ticket)})
    assert answer.status_code == 200, answer.text
    assert browser(place, answer).get("/api/me").json()["name"] == "anna"
    problem(stranger.send("/enter", {"token": str(ticket)}), 401, "link_invalid")
    for token in ("x", "prod:" + "0" * 64, f"nowhere:{'0' * 64}"):
        problem(stranger.send("/enter", {"token": token}), 401, "link_invalid")


def test_unknown_fields_in_a_body_are_rejected(place: Live) -> None:
    """A role in the body of a sign-in does not grant that role."""
    stranger = Visitor(place)
    wrong: list[Any] = [{"name": "anna"}, {"name": "anna", "password": 7}, {"name": "", "password": "x"}, []]
    for body in wrong:
        assert stranger.send("/sign-in", body).status_code == 422
    more = {"name": "anna", "password": GOOD, "role": "admin"}
    problem(stranger.send("/sign-in", more), 422, "value_unknown")
    problem(stranger.send("/sign-in", {"name": "anna", "password": "x" * 1001}), 422, "value_invalid")


def test_plain_http_is_for_this_machine_only(tmp_path: Path, sqlite_url: str, kept: str) -> None:
    """From elsewhere a password is refused, unless the administrator allows it."""
    with live(tmp_path, {"prod": sqlite_url}) as web:
        web.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        for host in ("docs.example.com", "10.0.0.5:8080", "127.0.0.1.evil.example"):
            stranger = Visitor(web, host=host)
            body = {"name": "anna", "password": GOOD}
            problem(stranger.send("/sign-in", body), 403, "https_needed")
        for host in (web.url.removeprefix("http://"), "localhost:9", "[::1]:9"):
            assert Visitor(web, host=host).send("/sign-in", {"name": "anna", "password": GOOD}).status_code == 200


@pytest.mark.parametrize(("public", "secure"), [("https://docs.example.com", True), ("http://10.0.0.5:8080", False)])
def test_behind_a_proxy_the_public_address_counts(
    tmp_path: Path, sqlite_url: str, kept: str, public: str, secure: bool
) -> None:
    """With HTTPS the cookie is Secure and bound to the host; only pages of the public address may send requests."""
    with live(tmp_path, {"prod": sqlite_url}, public_url=public) as web:
        web.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        stranger, body = Visitor(web), {"name": "anna", "password": GOOD}
        problem(stranger.send("/sign-in", body, {"Origin": web.url}), 403, "csrf_failed")
        answer = stranger.send("/sign-in", body, {"Origin": public})
        name = "__Host-tabellion" if secure else "tabellion"
        [session] = [one for one in answer.headers.get_list("set-cookie") if one.startswith(f"{name}=")]
        assert ("Secure" in session) == secure
        ticket = browser(web, answer).ticket
        assert web.get("/api/me", key=None, headers={"Cookie": f"{name}={ticket}"}).status_code == 200
        other = "tabellion" if secure else "__Host-tabellion"
        problem(web.get("/api/me", key=None, headers={"Cookie": f"{other}={ticket}"}), 401, "auth_missing")


def test_the_forwarded_address_is_the_one_counted(tmp_path: Path, sqlite_url: str) -> None:
    """The last one counts, which the proxy itself wrote; without a public address the header is ignored."""
    for public, counted in (("https://docs.example.com", "203.0.113.7"), ("", "127.0.0.1")):
        folder = tmp_path / (public[:5] or "none")
        folder.mkdir()
        with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, public_url=public) as web:
            stranger = Visitor(web)
            forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
            stranger.send("/sign-in", {"name": "x", "password": "y"}, forwarded)
            stranger.send("/sign-in", {"name": "x", "password": "y"}, {"X-Forwarded-For": "2001:db8:1:2:3::9"})
            rows = {row["subject"] for row in web.sql("SELECT subject FROM tabellion_sign_in_tries")}
            assert f"address:{counted}" in rows
            assert ("address:2001:db8:1:2::/64" in rows) == bool(public)


def test_only_configured_proxies_are_trusted(tmp_path: Path) -> None:
    """Any other client is counted by its own address; a chain of proxies is not taken for the client."""
    cases = [(("192.0.2.0/24",), "127.0.0.1"), (("127.0.0.0/8", "203.0.113.0/24"), "198.51.100.1")]
    for number, (proxies, counted) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        public = "https://docs.example.com"
        with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, public_url=public, proxies=proxies) as web:
            Visitor(web).send(
                "/sign-in", {"name": "x", "password": "y"}, {"X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
            )
            rows = {row["subject"] for row in web.sql("SELECT subject FROM tabellion_sign_in_tries")}
            assert f"address:{counted}" in rows


def test_refused_sign_ins_are_audited(place: Live, caplog: pytest.LogCaptureFixture) -> None:
    """Wrong passwords, too many tries and invalid links, with the address and without the name."""
    stranger = Visitor(place)
    with caplog.at_level("WARNING", "tabellion.web"):
        answer = stranger.send("/sign-in", {"name": "secretname", "password": "wrong"})
        while answer.status_code != 429:  # each makes the next wait longer: at last one comes too early
            answer = stranger.send("/sign-in", {"name": "secretname", "password": "wrong"})
        stranger.send("/enter", {"token": "nonsense"})
    messages = [one.getMessage() for one in caplog.records if "sign-in refused from 127.0.0.1" in one.getMessage()]
    assert {one.partition(": ")[2].partition(",")[0] for one in messages} == {
        "wrong name or password", "too many attempts", "the link is not valid",
    }  # fmt: skip
    assert not any("secretname" in one for one in messages)


def test_sign_out_clears_the_cache(place: Live) -> None:
    """Pages of documents are not left for the next user of the browser."""
    answer = Visitor(place).send("/sign-in", {"name": "anna", "password": GOOD})
    assert browser(place, answer).ask("POST", "/sign-out").headers["clear-site-data"] == '"cache"'


def test_with_several_environments_the_page_offers_a_choice(tmp_path: Path, kept: str) -> None:
    """A user of one is unknown in the other; signing in keeps the session of the other."""
    with live(tmp_path, {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("prod", "dev")}) as web:
        web.store("dev", lambda store: users.add(store, "anna", "viewer", kept))
        stranger = Visitor(web)
        assert re.findall(r"<option>(\w+)</option>", stranger.page.text) == ["prod", "dev"]
        body = {"name": "anna", "password": GOOD}
        problem(stranger.send("/sign-in", body), 422, "value_invalid")
        problem(stranger.send("/sign-in", body | {"environment": "nowhere"}), 422, "value_invalid")
        problem(stranger.send("/sign-in", body | {"environment": "prod"}), 401, "sign_in_failed")
        before = signed_in(web, "viewer", "prod")
        cookies = {"Cookie": f"{stranger.headers['Cookie']}; {before.cookie['Cookie']}"}
        answer = stranger.send("/sign-in", body | {"environment": "dev"}, cookies)
        assert browser(web, answer).get("/api/me").json()["environment"] == "dev"
        problem(before.get("/api/me"), 401, "session_ended")


def test_a_signed_in_user_is_redirected(place: Live) -> None:
    """To the requested page, and to no other site."""
    anna = signed_in(place, "reviewer", name="anna")
    for wanted, reached in (
        ("/documents", "/documents"), ("//evil.example", "/"), ("https://evil.example", "/"), ("/\\evil.example", "/"),
    ):  # fmt: skip
        answer = anna.get("/sign-in", params={"next": wanted})
        assert (answer.status_code, answer.headers["location"]) == (303, reached)
        page = place.get("/sign-in", key=None, params={"next": wanted})
        assert json.loads(re.findall(r'id="data">(.*?)</script>', page.text)[0]) == {"next": reached}


@pytest.mark.parametrize("path", [None, "", "x", "//x", "/\\x", "/a\nb", "javascript:alert(1)", "\\/x", "/\tx"])
def test_redirects_stay_on_our_site(path: str | None) -> None:
    """Any other address leads to the start page."""
    assert local(path) == "/"
    assert local("/documents?q=a%20b") == "/documents?q=a%20b"


def test_two_servers_share_sessions(tmp_path: Path, url: str, kept: str) -> None:
    """No state is kept in a process: a session opened or ended by one server is so for the other."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with live(tmp_path / "one", {"prod": url}) as one, live(tmp_path / "two", {"prod": url}) as two:
        one.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        stranger = Visitor(one)
        answer = two.ask(
            "POST", "/sign-in", key=None, json={"name": "anna", "password": GOOD},
            headers={**stranger.headers, "Origin": two.url},
        )  # fmt: skip
        here = browser(two, answer)
        there = Browser(one, here.ticket)
        assert there.get("/api/me").json()["name"] == "anna"
        assert there.ask("POST", "/sign-out").status_code == 204
        problem(here.get("/api/me"), 401, "session_ended")


def test_a_visitor_keeps_one_token(place: Live) -> None:
    """Two tabs of the sign-in page both work: the second does not replace the cookie of the first."""
    stranger = Visitor(place)
    again = place.get("/sign-in", key=None, headers=stranger.headers)
    assert "set-cookie" not in again.headers
    assert stranger.headers["X-CSRF-Token"] in again.text
    assert stranger.headers["X-CSRF-Token"] == csrf.token(stranger.headers["Cookie"].partition("=")[2])


def test_proxy_settings_are_validated(tmp_path: Path) -> None:
    """An address with a path or without a scheme is reported."""
    from tabellion.config import load
    from tabellion.errors import ConfigurationError

    assert load(None, {"TABELLION_PUBLIC_URL": "https://Docs.Example.com/"}).public_url == "https://docs.example.com"
    for wrong in ("docs.example.com", "https://x/path", "ftp://x", "https://a b", "https://x?y"):
        with pytest.raises(ConfigurationError, match=r"server\.public_url"):
            load(None, {"TABELLION_PUBLIC_URL": wrong})
    assert replace(load(None, {}), public_url="").public_url == ""


def test_a_visitor_cannot_send_a_long_body(place: Live) -> None:
    """Open routes accept ten kilobytes; with a key, the reading time depends on the length."""
    stranger = Visitor(place)
    for path in ("/sign-in", "/enter"):
        answer = place.ask("POST", path, key=None, content=UNCLOSED,
                           headers={**stranger.headers, "Content-Type": "application/json"})  # fmt: skip
        assert problem(answer, 413, "too_large")["limit"] == 10_000
    answer = place.ask("POST", "/api/webhooks", content=UNCLOSED, headers={"Content-Type": "application/json"})
    problem(answer, 400, "json_invalid")
