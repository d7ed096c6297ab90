"""The pages of registries: searching a document and a company, choosing names and downloading a statement."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tabellion.pipelines.registries.portal.server import run_portal
from tests.browser import axe
from tests.browser.installation import Installation, Visitor, open_installation

LONG = 90_000  #: milliseconds for what a second browser does, on a machine that has other things to do


@pytest.fixture(scope="module")
def registry_site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation that fetches from the practice portal."""
    folder = tmp_path_factory.mktemp("registries") / "data"
    with (
        run_portal() as portal,
        open_installation(folder, "--with", "registries", TABELLION_REGISTRIES_PORTAL=portal.url) as one,
    ):
        yield one


@pytest.fixture
def clerk(registry_site: Installation, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with registry_site.visitor(chromium) as one:
        yield one


def test_a_company_is_searched_and_its_rights_downloaded(clerk: Visitor) -> None:
    """Its names appear by themselves; the chosen one is searched, and its statement can be downloaded."""
    page = clerk.open("/registries")
    page.fill("#company", "Gestion Laframboise inc.")
    page.click("#company-form button")
    row = page.locator("tbody tr", has_text="Gestion Laframboise")
    expect(row).to_contain_text("Choose names", timeout=LONG)
    row.locator("a").click()
    expect(page.locator("#facts-list")).to_contain_text("1140001234")
    expect(page.locator("#choose")).to_be_disabled()
    page.get_by_label("Laframboise Immobilier").check()
    page.click("#choose")
    search = page.locator("tbody tr", has_text="Laframboise Immobilier")
    expect(search).to_contain_text("Réserve de propriété", timeout=LONG)
    expect(page.get_by_label("Laframboise Immobilier")).to_be_disabled()
    expect(page.get_by_label("Laframboise Immobilier")).to_be_checked()
    expect(page.locator("#names label", has_text="Laframboise Immobilier")).to_contain_text("chosen")
    with page.expect_download() as came:
        search.get_by_role("link").click()
    assert came.value.path().read_bytes().startswith(b"%PDF")


def test_a_failed_search_is_tried_again(clerk: Visitor) -> None:
    """A company that is not found can be queued again on its page."""
    body = json.dumps({"company": "Nulle part inc."}).encode()
    status, made = clerk.installation.service.ask(
        "POST", "/api/search-sessions", body, **{"Content-Type": "application/json"}
    )
    assert status == 202, made
    page = clerk.open(f"/registries/{made['id']}")
    expect(page.locator("#notices")).to_contain_text("no result", timeout=LONG)
    with page.expect_response("**/api/queues/companies/retry") as answered:
        page.locator("#notices").get_by_role("button", name="Try again").click()
    assert answered.value.json()["retried"] == 1
    expect(page.locator("#notices")).to_contain_text("no result", timeout=LONG)  # it failed again


def test_a_document_is_requested_and_fetched(clerk: Visitor) -> None:
    """The form shows the fields of the chosen type, and its link leads to the document."""
    page = clerk.open("/registries")
    page.select_option("#document-type", "actes")
    expect(page.locator('[data-field="lot"]')).to_be_hidden()
    page.select_option("#document-type", "plans_cadastraux")
    page.fill('[name="circonscription"]', "Québec")
    page.fill('[name="lot"]', "3 456 789")
    page.click("#document-form button")
    page.locator("#document-sent a").click()
    expect(page.locator("#leaf img")).to_be_visible(timeout=LONG)


def test_both_pages_are_accessible(clerk: Visitor) -> None:
    """axe finds nothing serious, in light and in dark."""
    body = json.dumps({"company": "1140005678"}).encode()
    sent = {"Content-Type": "application/json"}
    status, answer = clerk.installation.service.ask("POST", "/api/search-sessions", body, **sent)
    assert status == 202, answer
    try:
        for path in ("/registries", f"/registries/{answer['id']}"):
            for scheme in ("light", "dark"):
                clerk.page.emulate_media(color_scheme=scheme)
                page = clerk.open(path)
                expect(page.locator("#rows .badge, #status .badge").first).to_be_visible()
                assert axe.findings(page) == []
    except axe.UnavailableError as why:
        pytest.skip(str(why))
