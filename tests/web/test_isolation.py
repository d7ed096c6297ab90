"""Two environments behind one address: whatever one of them asks, the other's data is neither shown nor changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tabellion.accounts import users
from tests.models.bills import bill
from tests.web.browser import signed_in
from tests.web.live import Live, live
from tests.web.policy import EVERY_ROUTE, EVERYTHING

CANARY = "canary-4711"  #: part of everything that the first environment has
SITE = f"https://93.184.216.34/{CANARY}"


class Two:
    """An application with two environments, of which the first has data of every kind."""

    def __init__(self, web: Live) -> None:
        self.web = web
        key = web.key("admin", "prod")
        document = web.upload(bill(f"Vendor {CANARY}"), f"{CANARY}.pdf", key=key)["id"]
        website = self._post("/api/websites", {"url": SITE}, key)
        hook = self._post("/api/webhooks", {"url": SITE}, key)
        user = web.store("prod", lambda store: users.add(store, CANARY, "reviewer"))
        self.ids = [document, website.get("id") or website["websites"][0]["id"], hook["id"], user.id, CANARY]

    def _post(self, path: str, body: dict[str, Any], key: str) -> Any:
        answer = self.web.ask("POST", path, key=key, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def paths(self, path: str) -> list[str]:
        """Return a route's path with each of the first environment's ids in it."""
        for name, value in {"{number}": "1", "{file}": "docs.js", "{kind}": "json", "{name}": "documents"}.items():
            path = path.replace(name, value)
        return [re.sub(r"\{\w+\}", id_, path) for id_ in (self.ids if "{" in path else self.ids[:1])]

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return everything in the first environment's database."""
        tables = [row["name"] for row in self.web.sql("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: self.web.sql(f'SELECT * FROM "{table}"') for table in tables}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """The application."""
    folder = tmp_path_factory.mktemp("two")
    urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("prod", "dev")}
    with live(folder, urls, pipelines=EVERYTHING) as web:
        yield Two(web)


def test_the_data_is_there(two: Two) -> None:
    """Its own environment shows it: else the tests below would prove nothing."""
    key = two.web.key("admin", "prod")
    for path in ("/api/documents", "/api/websites", "/api/webhooks", "/api/users"):
        assert CANARY in two.web.get(path, key=key).text, path
    assert CANARY in str(two.rows())


@pytest.mark.parametrize("path", sorted(path for method, path in EVERY_ROUTE if method == "GET"))
def test_nothing_of_another_environment_is_shown(two: Two, path: str) -> None:
    """By any route, with a key or a session, of an admin; streams are tested on their own."""
    if path.endswith("/events"):
        pytest.skip("it never ends: tests/web/test_events.py")
    for where in two.paths(path):
        browser = signed_in(two.web, "admin", "dev")
        for answer in (two.web.get(where, key=two.web.key("admin", "dev")), browser.get(where)):
            assert CANARY not in answer.text.replace(f"/{CANARY}", ""), where  # a page may repeat its own address


@pytest.mark.parametrize(("method", "path"), sorted((method, path) for method, path in EVERY_ROUTE if method != "GET"))
def test_nothing_of_another_environment_is_changed(two: Two, method: str, path: str) -> None:
    """Every row of its database is as before, whatever an admin of the other does with its ids."""
    before = two.rows()
    for where in two.paths(path):
        two.web.ask(method, where, key=two.web.key("admin", "dev"), json={})
        signed_in(two.web, "admin", "dev").ask(method, where, json={})
    assert two.rows() == before


def test_pages_say_in_which_environment_one_is(two: Two) -> None:
    """Where there is more than one."""
    for name in two.web.urls:
        page = signed_in(two.web, "admin", name).get("/dashboard", headers={"Accept": "text/html"}).text
        assert re.search(rf'class="badge idle environment"[^>]*>{name}<', page)


def test_pages_of_one_environment_do_not_mention_it(web: Live) -> None:
    """There is nothing to tell apart."""
    page = signed_in(web, "admin").get("/dashboard", headers={"Accept": "text/html"}).text
    assert "badge idle environment" not in page
