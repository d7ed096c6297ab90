"""Every page: its headers, language, theme, navigation, and that nothing is inline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tabellion import messages
from tabellion.accounts.roles import PERSON_ROLES
from tabellion.errors import Unreachable
from tabellion.pipelines.documents import lookup
from tabellion.web.pages.page import negotiate_language
from tabellion.web.policy import OPEN
from tests.models.bills import bill
from tests.web.browser import Browser, signed_in
from tests.web.live import Live, live
from tests.web.policy import PAGES
from tests.web.test_policy import address

HTML = sorted(path for (method, path) in PAGES if method == "GET" and path not in ("/", "/static/{file}"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application for this module."""
    folder = tmp_path_factory.mktemp("pages")
    with live(folder, {"prod": f"sqlite:///{folder}/prod.db"}) as one:
        yield one


@pytest.fixture(scope="module")
def document(place: Live) -> str:
    """A document whose name is markup."""
    return str(place.upload(bill("pages"), name="<img src=x onerror=alert(1)>'\"&.pdf")["id"])


@pytest.fixture(scope="module")
def admin(place: Live) -> Browser:
    """A user who may do everything."""
    return signed_in(place, "admin")


def facts(text: str, name: str = "facts") -> dict[str, object]:
    """Return the data a page hands to its script."""
    found: dict[str, object] = json.loads(re.findall(rf'id="{name}">(.*?)</script>', text, re.DOTALL)[0])
    return found


@pytest.mark.parametrize("language", messages.LANGUAGES)
@pytest.mark.parametrize("path", HTML)
def test_a_page_loads_only_our_files(place: Live, document: str, admin: Browser, path: str, language: str) -> None:
    """A strict policy, no inline script or style, every file under the path of this release, in each language."""
    mine = "" if PAGES[("GET", path)] is OPEN else f"{admin.cookie['Cookie']}; "
    url = address(path, document).replace("{name}", "documents")
    answer = place.get(url, key=None, headers={"Cookie": f"{mine}language={language}"})
    assert answer.status_code == (404 if path == "/review/{id}" else 200), answer.text  # the document has no item yet
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
                 "base-uri 'none'", "form-action 'self'", "require-trusted-types-for 'script'"):  # fmt: skip
        assert part in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert f'<html lang="{language}"' in answer.text
    inline = re.findall(
        r"<script(?![^>]*\ssrc=)(?![^>]*application/json)|<style|\sstyle=|\son\w+=\"|javascript:", answer.text
    )
    assert not inline
    assert "<img src=x" not in answer.text
    for one in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
        got = place.get(one, key=None)
        assert got.status_code == 200
        assert "immutable" in got.headers["cache-control"]
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', answer.text)


def test_the_navigation_shows_what_the_role_allows(place: Live) -> None:
    """The header links only to pages that the role may open."""
    for role in PERSON_ROLES:
        browser = signed_in(place, role)
        text = browser.get("/documents").text
        for path in re.findall(r'<a href="(/[a-z]+)"', text):
            assert browser.get(path).status_code == 200, (role, path)
        assert ('href="/people"' in text) == (role == "admin")
        start = browser.get("/")
        assert start.status_code == 303
        assert browser.get(start.headers["location"]).status_code == 200


def test_a_page_is_in_the_users_language(place: Live) -> None:
    """The setting, else the cookie, else Accept-Language; a request with a key reads no cookie."""
    anna = signed_in(place, "viewer", name="anna")
    french = {"Accept-Language": "fr"}
    assert '<html lang="fr"' in anna.get("/documents", headers=french).text
    english = {"Cookie": f"{anna.cookie['Cookie']}; language=en", **french}
    assert '<html lang="en"' in anna.get("/documents", headers=english).text
    assert anna.ask("PATCH", "/api/me", json={"language": "fr"}).status_code == 204
    answer = anna.get("/documents", headers=english | {"Accept-Language": "en"})
    assert '<html lang="fr"' in answer.text
    assert answer.headers["content-language"] == "fr"
    assert '<html lang="en"' in place.get("/documents", headers={"Cookie": "language=fr; theme=dark"}).text


def test_a_chosen_theme_applies_from_the_first_paint(place: Live, admin: Browser) -> None:
    """An unknown theme is ignored."""
    for theme, shown in (("dark", ' data-theme="dark"'), ("light", ' data-theme="light"'), ('"><script>', "")):
        headers = {"Cookie": f"{admin.cookie['Cookie']}; theme={theme}"}
        assert f'<html lang="en"{shown}>' in admin.get("/documents", headers=headers).text


def test_page_data_cannot_end_its_script_element(place: Live) -> None:
    """Markup in a value is escaped."""
    answer = place.get("/sign-in", key=None, params={"next": "/</script><script>alert(1)</script>"})
    assert "<script>alert" not in answer.text
    assert facts(answer.text, "data")["next"] == "/</script><script>alert(1)</script>"


def test_a_missing_page_is_a_page_too(place: Live, admin: Browser) -> None:
    """People get a page; programs get a problem."""
    browsers = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nope", f"/documents/{'0' * 26}"):
        answer = admin.get(path, headers=browsers)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "Page not found" in answer.text
        assert answer.headers["x-request-id"] in answer.text
        assert 'id="sign-out-button"' in answer.text
    assert place.get("/nope", key=None, headers=browsers).status_code == 404
    assert place.get("/nope", headers=browsers).headers["content-type"] == "application/problem+json"
    assert place.get("/api/nope", key=None, headers=browsers).headers["content-type"] == "application/problem+json"
    assert admin.get("/documents?colour=red").status_code == 422


def test_a_page_knows_its_user(place: Live, admin: Browser) -> None:
    """Its script gets name, role and token, and no secrets."""
    text = admin.get("/people").text
    page_data = facts(text)
    assert page_data["csrf"] == admin.token
    assert admin.ticket.secret not in text
    assert admin.ticket.hash not in text
    assert isinstance(page_data["me"], dict)
    assert (page_data["me"]["name"], page_data["me"]["level"]) == ("admin", 4)
    by_key = facts(place.get("/people").text)
    assert by_key["csrf"] == ""
    assert "set-cookie" not in place.get("/people").headers


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [(RuntimeError("secret of the house"), 500, "Something went wrong"), (Unreachable("db.internal"), 503, "database")],
)
def test_an_internal_error_is_a_page_without_details(
    place: Live, admin: Browser, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, said: str
) -> None:
    """People see what to do and the request id; programs get the problem as usual."""

    async def explode(*_: object) -> None:
        raise error

    monkeypatch.setattr(lookup, "get", explode)
    answer = admin.get(f"/documents/{'0' * 26}", headers={"X-Request-Id": "find-me"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert said in answer.text
    assert "find-me" in answer.text
    assert str(error) not in answer.text
    assert (answer.headers.get("retry-after") == "5") == (status == 503)
    response = place.get(f"/documents/{'0' * 26}")
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"), ("fr", "fr"), ("fr-CA,fr;q=0.9,en;q=0.8", "fr"), ("de,en;q=0.5,fr;q=0.9", "fr"), ("de", "en"),
        ("en;q=0,fr;q=0.1", "fr"), ("*", "en"), ("fr;q=x,en", "en"), (",,;q=", "en"), ("FR", "fr"),
        ("fr; q=0.9", "fr"), ("en ;\tQ=0.1 , fr ; q=0.9", "fr"), ("fr;level=1;q=0.2,en;q=0.5", "en"),
    ],
)  # fmt: skip
def test_a_browser_is_answered_in_its_language(header: str, language: str) -> None:
    """The available language it prefers most is used."""
    assert negotiate_language(header) == language


def test_a_script_gets_only_the_texts_of_its_page() -> None:
    """Plus those of the page skeleton."""
    found = messages.select_page_texts("fr", ("base", "people"))
    assert {code.partition(".")[0] for code in found} == {"base", "people"}
