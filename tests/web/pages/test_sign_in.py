"""Coming and going: by password, by link, over which way, and not by guessing."""

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
    """The hash of a good password: making one takes a while."""
    return asyncio.run(passwords.hash_password(GOOD))


@pytest.fixture
def place(tmp_path: Path, url: str, kept: str) -> Iterator[Live]:
    """An application with a user, on each database."""
    with live(tmp_path, {"prod": url}) as one:
        one.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        yield one


class Stranger:
    """A browser that is not signed in: the page it was shown, its cookie and its token."""

    def __init__(self, web: Live, path: str = "/sign-in", host: str = "", secure: bool = False) -> None:
        self.web = web
        self.headers = {"Host": host} if host else {}
        self.page = web.get(path, key=None, headers=self.headers)
        cookie = self.page.headers["set-cookie"].partition(";")[0]
        facts = json.loads(re.findall(r'id="facts">(.*?)</script>', self.page.text)[0])
        self.headers |= {"Cookie": cookie, "X-CSRF-Token": facts["csrf"]}

    def send(self, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
        """What its script sends."""
        return self.web.ask("POST", path, key=None, headers={**self.headers, **(headers or {})}, json=body)


def browser(web: Live, answer: httpx2.Response) -> Browser:
    """Whoever was signed in by this answer."""
    text = re.findall(r"(?:^|, )(?:__Host-)?tabellion=([^;]+)", answer.headers["set-cookie"])[0]
    ticket = sessions.parse(text)
    assert ticket is not None
    return Browser(web, ticket)


def test_a_password_opens_a_session(place: Live) -> None:
    """Under a new name each time; the one that the browser had before is ended."""
    first = Stranger(place).send("/sign-in", {"name": " Anna ", "password": GOOD})
    assert first.status_code == 200, first.text
    assert first.json() == {"name": "anna", "role": "reviewer", "environment": "prod"}
    one = browser(place, first)
    assert one.get("/api/me").json()["name"] == "anna"
    stranger = Stranger(place)
    cookies = {"Cookie": f"{stranger.headers['Cookie']}; {one.cookie['Cookie']}"}
    two = browser(place, stranger.send("/sign-in", {"name": "anna", "password": GOOD}, cookies))
    assert two.ticket.secret != one.ticket.secret
    problem(one.get("/api/me"), 401, "session_ended")
    assert two.get("/api/me").status_code == 200


def test_a_session_cookie_is_for_browsers_only(place: Live) -> None:
    """No script reads it, no other site sends it, and it is gone with the browser."""
    answer = Stranger(place).send("/sign-in", {"name": "anna", "password": GOOD})
    session = next(one for one in answer.headers.get_list("set-cookie") if one.startswith("tabellion="))
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in session.split(";")}
    assert "Max-Age" not in session
    assert "Domain" not in session


def test_who_is_unknown_is_told_the_same(place: Live) -> None:
    """A wrong password, no such user, one without a password, one who is shut out: one answer, one hash compared."""
    place.store("prod", lambda store: users.add(store, "ben", "viewer"))
    carl = place.store("prod", lambda store: users.add(store, "carl", "viewer", "$argon2id$x"))
    place.store("prod", lambda store: users.change(store, carl.id, disabled=True))
    compared: list[str | None] = []
    true = passwords._verify

    def verify(kept: str | None, password: str) -> bool:
        compared.append(kept)
        return true(kept, password)

    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_verify", verify)
        for name in ("anna", "nobody", "ben", "carl", "x" * 100, "'; DROP TABLE tabellion_users", "a\u202eb"):
            answer = Stranger(place).send("/sign-in", {"name": name, "password": "wrong in any case"})
            told.append(problem(answer, 401, "sign_in_failed") | {"request_id": ""})
            assert "set-cookie" not in answer.headers
    assert all(one == told[0] for one in told)
    assert len(compared) == len(told)


def test_guessing_is_slowed_down(place: Live) -> None:
    """By account: five tries are free, then the right password waits too; a link still lets in."""
    stranger = Stranger(place)
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


def test_an_address_is_slowed_down_too(place: Live) -> None:
    """Whatever names it tries, known or not."""
    stranger = Stranger(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttle, "ADDRESS", throttle.Measure(4, 900))
        patch.setattr(passwords, "_verify", lambda *_: False)
        for number in range(4):
            problem(stranger.send("/sign-in", {"name": f"n{number}", "password": "x"}), 401, "sign_in_failed")
        problem(stranger.send("/sign-in", {"name": "anna", "password": GOOD}), 429, "too_many_tries")


def test_a_link_opens_a_session_once(place: Live) -> None:
    """Looking at its page uses nothing up; the second use is refused."""
    ticket = place.store("prod", lambda store: links.make(store, "prod", "anna"))
    stranger = Stranger(place, "/enter")
    assert stranger.page.status_code == 200
    answer = stranger.send("/enter", {"token": str(ticket)})
    assert answer.status_code == 200, answer.text
    assert browser(place, answer).get("/api/me").json()["name"] == "anna"
    problem(stranger.send("/enter", {"token": str(ticket)}), 401, "link_invalid")
    for token in ("x", "prod:" + "0" * 64, f"nowhere:{'0' * 64}"):
        problem(stranger.send("/enter", {"token": token}), 401, "link_invalid")


def test_bodies_are_strict(place: Live) -> None:
    """A role in the body of a sign-in is no way to get one."""
    stranger = Stranger(place)
    wrong: list[Any] = [{"name": "anna"}, {"name": "anna", "password": 7}, {"name": "", "password": "x"}, []]
    for body in wrong:
        assert stranger.send("/sign-in", body).status_code == 422
    more = {"name": "anna", "password": GOOD, "role": "admin"}
    problem(stranger.send("/sign-in", more), 422, "value_unknown")
    problem(stranger.send("/sign-in", {"name": "anna", "password": "x" * 1001}), 422, "value_invalid")


def test_plain_http_is_for_this_machine(tmp_path: Path, sqlite_url: str, kept: str) -> None:
    """From elsewhere a password is not taken, unless the administrator says that browsers come so."""
    with live(tmp_path, {"prod": sqlite_url}) as web:
        web.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        for host in ("docs.example.com", "10.0.0.5:8080", "127.0.0.1.evil.example"):
            stranger = Stranger(web, host=host)
            body = {"name": "anna", "password": GOOD}
            problem(stranger.send("/sign-in", body), 403, "https_needed")
        for host in (web.url.removeprefix("http://"), "localhost:9", "[::1]:9"):
            assert Stranger(web, host=host).send("/sign-in", {"name": "anna", "password": GOOD}).status_code == 200


@pytest.mark.parametrize(("public", "secure"), [("https://docs.example.com", True), ("http://10.0.0.5:8080", False)])
def test_behind_a_proxy_the_public_address_counts(
    tmp_path: Path, sqlite_url: str, kept: str, public: str, secure: bool
) -> None:
    """With https the cookie is Secure and bound to the host; pages of the public address may send, others not."""
    with live(tmp_path, {"prod": sqlite_url}, public_url=public) as web:
        web.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        stranger, body = Stranger(web), {"name": "anna", "password": GOOD}
        problem(stranger.send("/sign-in", body, {"Origin": web.url}), 403, "csrf_failed")
        answer = stranger.send("/sign-in", body, {"Origin": public})
        name = "__Host-tabellion" if secure else "tabellion"
        [session] = [one for one in answer.headers.get_list("set-cookie") if one.startswith(f"{name}=")]
        assert ("Secure" in session) == secure
        ticket = browser(web, answer).ticket
        assert web.get("/api/me", key=None, headers={"Cookie": f"{name}={ticket}"}).status_code == 200
        other = "tabellion" if secure else "__Host-tabellion"
        problem(web.get("/api/me", key=None, headers={"Cookie": f"{other}={ticket}"}), 401, "auth_missing")


def test_a_proxy_names_the_address_that_is_counted(tmp_path: Path, sqlite_url: str) -> None:
    """The last one, which the proxy itself wrote; without a public address nobody is believed."""
    for public, counted in (("https://docs.example.com", "203.0.113.7"), ("", "127.0.0.1")):
        folder = tmp_path / (public[:5] or "none")
        folder.mkdir()
        with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, public_url=public) as web:
            stranger = Stranger(web)
            forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
            stranger.send("/sign-in", {"name": "x", "password": "y"}, forwarded)
            stranger.send("/sign-in", {"name": "x", "password": "y"}, {"X-Forwarded-For": "2001:db8:1:2:3::9"})
            rows = {row["subject"] for row in web.sql("SELECT subject FROM tabellion_sign_in_tries")}
            assert f"address:{counted}" in rows
            assert ("address:2001:db8:1:2::/64" in rows) == bool(public)


def test_only_named_proxies_are_believed(tmp_path: Path) -> None:
    """A client that is none of them is counted by its own address; of several proxies none is taken for the client."""
    cases = [(("192.0.2.0/24",), "127.0.0.1"), (("127.0.0.0/8", "203.0.113.0/24"), "198.51.100.1")]
    for number, (proxies, counted) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        public = "https://docs.example.com"
        with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, public_url=public, proxies=proxies) as web:
            Stranger(web).send(
                "/sign-in", {"name": "x", "password": "y"}, {"X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
            )
            rows = {row["subject"] for row in web.sql("SELECT subject FROM tabellion_sign_in_tries")}
            assert f"address:{counted}" in rows


def test_refused_sign_ins_are_recorded(place: Live, caplog: pytest.LogCaptureFixture) -> None:
    """Wrong passwords, too many tries and links that are not valid, with the address and without the name."""
    stranger = Stranger(place)
    with caplog.at_level("WARNING", "tabellion.web"):
        answer = stranger.send("/sign-in", {"name": "secretname", "password": "wrong"})
        while answer.status_code != 429:  # each makes the next wait longer: at last one comes too early
            answer = stranger.send("/sign-in", {"name": "secretname", "password": "wrong"})
        stranger.send("/enter", {"token": "nonsense"})
    said = [one.getMessage() for one in caplog.records if "sign-in refused from 127.0.0.1" in one.getMessage()]
    assert {one.partition(": ")[2].partition(",")[0] for one in said} == {
        "wrong name or password", "too many attempts", "the link is not valid",
    }  # fmt: skip
    assert not any("secretname" in one for one in said)


def test_sign_out_empties_the_cache(place: Live) -> None:
    """Pages of documents are not left for the next user of the browser."""
    answer = Stranger(place).send("/sign-in", {"name": "anna", "password": GOOD})
    assert browser(place, answer).ask("POST", "/sign-out").headers["clear-site-data"] == '"cache"'


def test_several_environments_ask_which(tmp_path: Path, kept: str) -> None:
    """The page offers them; a user of one is a stranger in the other; a sign-in leaves the other one's session."""
    with live(tmp_path, {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("prod", "dev")}) as web:
        web.store("dev", lambda store: users.add(store, "anna", "viewer", kept))
        stranger = Stranger(web)
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


def test_who_is_signed_in_goes_on(place: Live) -> None:
    """To the page that was wanted, and to no other site."""
    anna = signed_in(place, "reviewer", name="anna")
    for wanted, reached in (
        ("/documents", "/documents"), ("//evil.example", "/"), ("https://evil.example", "/"), ("/\\evil.example", "/"),
    ):  # fmt: skip
        answer = anna.get("/sign-in", params={"next": wanted})
        assert (answer.status_code, answer.headers["location"]) == (303, reached)
        page = place.get("/sign-in", key=None, params={"next": wanted})
        assert json.loads(re.findall(r'id="data">(.*?)</script>', page.text)[0]) == {"next": reached}


@pytest.mark.parametrize("path", [None, "", "x", "//x", "/\\x", "/a\nb", "javascript:alert(1)", "\\/x", "/\tx"])
def test_only_addresses_of_ours_are_gone_on_to(path: str | None) -> None:
    """Anything else is the start page."""
    assert local(path) == "/"
    assert local("/documents?q=a%20b") == "/documents?q=a%20b"


def test_two_servers_share_sessions(tmp_path: Path, url: str, kept: str) -> None:
    """Nothing is in a process: what one opens the other knows, and what one ends has ended."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with live(tmp_path / "one", {"prod": url}) as one, live(tmp_path / "two", {"prod": url}) as two:
        one.store("prod", lambda store: users.add(store, "anna", "reviewer", kept))
        stranger = Stranger(one)
        answer = two.ask(
            "POST", "/sign-in", key=None, json={"name": "anna", "password": GOOD},
            headers={**stranger.headers, "Origin": two.url},
        )  # fmt: skip
        here = browser(two, answer)
        there = Browser(one, here.ticket)
        assert there.get("/api/me").json()["name"] == "anna"
        assert there.ask("POST", "/sign-out").status_code == 204
        problem(here.get("/api/me"), 401, "session_ended")


def test_a_stranger_keeps_one_token(place: Live) -> None:
    """Two tabs of the sign-in page can both send: the second does not replace the first one's cookie."""
    stranger = Stranger(place)
    again = place.get("/sign-in", key=None, headers=stranger.headers)
    assert "set-cookie" not in again.headers
    assert stranger.headers["X-CSRF-Token"] in again.text
    assert stranger.headers["X-CSRF-Token"] == csrf.token(stranger.headers["Cookie"].partition("=")[2])


def test_settings_of_proxies_are_checked(tmp_path: Path) -> None:
    """An address with a path or without a scheme is a mistake that is told."""
    from tabellion.config import load
    from tabellion.errors import ConfigurationError

    assert load(None, {"TABELLION_PUBLIC_URL": "https://Docs.Example.com/"}).public_url == "https://docs.example.com"
    for wrong in ("docs.example.com", "https://x/path", "ftp://x", "https://a b", "https://x?y"):
        with pytest.raises(ConfigurationError, match=r"server\.public_url"):
            load(None, {"TABELLION_PUBLIC_URL": wrong})
    assert replace(load(None, {}), public_url="").public_url == ""


def test_a_stranger_cannot_send_a_long_body(place: Live) -> None:
    """Open routes take ten kilobytes; what a key holder sends is read in time with its length."""
    stranger = Stranger(place)
    for path in ("/sign-in", "/enter"):
        answer = place.ask("POST", path, key=None, content=UNCLOSED,
                           headers={**stranger.headers, "Content-Type": "application/json"})  # fmt: skip
        assert problem(answer, 413, "too_large")["limit"] == 10_000
    answer = place.ask("POST", "/api/webhooks", content=UNCLOSED, headers={"Content-Type": "application/json"})
    problem(answer, 400, "json_invalid")
