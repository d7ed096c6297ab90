"""The pages of websites: one is submitted, its phases pass, its report is read, and two runs are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser import axe
from tests.browser.installation import Installation, Visitor, open_installation
from tests.browser.watch import until
from tests.pipelines.websites.loopback import served

LONG = 90_000  #: milliseconds for a visit with a second browser, on a machine that has other things to do


@pytest.fixture(scope="module")
def beech(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A website on loopback."""
    with served(tmp_path_factory.mktemp("sites") / "beech") as url:
        yield url


@pytest.fixture(scope="module")
def website_site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation that may visit this machine."""
    folder: Path = tmp_path_factory.mktemp("websites")
    with open_installation(folder / "data", "--with", "websites", TABELLION_ALLOW="127.0.0.0/8") as one:
        yield one


@pytest.fixture
def clerk(website_site: Installation, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with website_site.visitor(chromium) as one:
        yield one


def test_a_website_is_submitted_and_its_report_is_read(clerk: Visitor, beech: str) -> None:
    """From the form to the findings and their sources; the same website again is refused while it is open."""
    page = clerk.open("/websites")
    expect(page.locator(".phase")).to_have_count(3)
    page.fill("#url", beech)
    page.select_option("#type", "trust")
    page.click("#website-form button")
    row = page.locator("tbody tr", has_text="Beech").first
    expect(row).to_contain_text("Completed", timeout=LONG)
    row.locator("a").click()
    expect(page.locator(".step.done")).to_have_count(3)
    expect(page.locator(".score-number")).to_be_visible()
    finding = page.locator(".field-card", has_text="ISO 9001")
    finding.locator("summary").click()
    expect(finding.locator("q")).to_contain_text("ISO 9001")
    expect(page.locator(".shot img")).to_be_visible()


def test_two_runs_are_compared(clerk: Visitor, beech: str) -> None:
    """Chosen in the list; what did not change is muted."""
    for _ in range(2):
        made = clerk.installation.api("POST", "/api/websites", {"url": beech, "type": "seo"})
        page = clerk.open(f"/websites/{made['id']}")
        expect(page.locator(".step.done")).to_have_count(3, timeout=LONG)
    page = clerk.open("/websites?type=seo")
    boxes = page.locator("tbody input[type=checkbox]")
    expect(boxes).to_have_count(2)
    expect(page.locator("#compare")).to_be_disabled()
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.click("#compare")
    expect(page.locator("h1")).to_have_text("Two runs of one website")
    expect(page.locator("tr.same").first).to_be_visible()


def test_a_row_stays_while_its_website_is_analysed(clerk: Visitor, beech: str) -> None:
    """So do the check mark in it and the focus, although its cells change."""
    clerk.installation.api("POST", "/api/queues/website-analysis/pause", {"reason": "wait for the page"})
    made = clerk.installation.api("POST", "/api/websites", {"url": f"{beech}about.html", "type": "profile"})
    page = clerk.open("/websites?type=profile")
    row = page.locator(f"tr[data-row='{made['id']}']")
    element = row.element_handle()
    box = row.locator("input")
    box.check()
    box.focus()
    clerk.installation.api("POST", "/api/queues/website-analysis/resume")
    expect(row).to_contain_text("Completed", timeout=LONG)
    assert element.evaluate("row => row.isConnected")
    expect(box).to_be_checked()
    expect(box).to_be_focused()


def test_the_list_is_that_of_the_filters(clerk: Visitor) -> None:
    """Also when an earlier answer comes later, after an error, and after coming back."""
    sites = {"profile": "Ash", "trust": "Beech"}
    held: list[Route] = []
    failing = True

    def answer(route: Route) -> None:
        found = [sites[kind] for kind in sites if f"type={kind}" in route.request.url] or list(sites.values())
        common: dict[str, Any] = {"type": "seo", "status": "completed", "phases": [], "results": [], "created_at": None}
        listed = [{"id": one, "title": one, "url": one, "normalized_url": one} | common for one in found]
        route.fulfill(json={"websites": listed, "next": None})

    def answer_late(route: Route) -> None:
        held.append(route)

    def fail(route: Route) -> None:
        if failing:
            route.abort("connectionrefused")
        else:
            answer(route)

    clerk.watch.cut = True
    clerk.page.route("**/api/websites?*", answer)
    clerk.page.route("**/api/websites?*type=profile*", answer_late)
    clerk.page.route("**/api/websites?*type=trust*", fail)
    page = clerk.open("/websites")
    names, kinds = page.locator("#rows .name a"), page.locator("#filters select[name=type]")
    expect(names).to_have_text(["Ash", "Beech"])
    kinds.select_option("profile")
    until(page, lambda: bool(held))
    kinds.select_option("trust")
    expect(page.locator("#trouble")).to_contain_text("The server is not responding")
    expect(names).to_have_text(["Ash", "Beech"])
    failing = False
    page.get_by_role("button", name="Try again").click()
    expect(names).to_have_text(["Beech"])
    with page.expect_event("requestfinished", lambda request: request == held[0].request):
        answer(held[0])
    clerk.watch.settle(page)
    expect(names).to_have_text(["Beech"])
    expect(page.locator("#trouble")).to_be_hidden()
    clerk.open("/people")
    page.go_back()
    expect(names).to_have_text(["Beech"])
    expect(kinds).to_have_value("trust")


def test_the_pages_can_be_used_by_everybody(clerk: Visitor, beech: str) -> None:
    """axe finds nothing grave, in the light and in the dark."""
    made = clerk.installation.api("POST", "/api/websites", {"url": f"{beech}about.html", "type": "trust"})
    page = clerk.open(f"/websites/{made['id']}")
    expect(page.locator(".step.done")).to_have_count(3, timeout=LONG)
    try:
        for path in ("/websites", f"/websites/{made['id']}", f"/websites/compare?a={made['id']}&b={made['id']}"):
            for scheme in ("light", "dark"):
                clerk.page.emulate_media(color_scheme=scheme)
                page = clerk.open(path)
                expect(page.locator("h1")).to_be_visible()
                assert axe.findings(page) == []
    except axe.UnavailableError as why:
        pytest.skip(str(why))
