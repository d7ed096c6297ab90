"""The header of every page, and what a page does when its session is over."""

from __future__ import annotations

from decimal import Decimal

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from tests.browser.installation import Installation, Visitor, sample
from tests.browser.keyboard import CLOSED_LATE
from tests.browser.watch import until

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: By how many pixels the last place of the header reaches into its tools.
OVERLAP = """() => document.querySelector('.places a:last-child').getBoundingClientRect().right
    - document.querySelector('.tools').getBoundingClientRect().left"""


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_navigation_and_tools_do_not_overlap(installation: Installation, chromium: Browser, locale: str) -> None:
    """At any width, in both languages, also for a user who is away."""
    with installation.visitor(chromium, locale=locale) as one:
        page = one.open("/documents")
        page.locator("#away-mark").evaluate("mark => { mark.hidden = false; }")
        for width in (1280, 1100, 1081, 1024, 920, 901, 880, 820, 795, 768, 700, 660, 641, 600, 480, 380):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(OVERLAP) <= 0, width


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_pages_fit_a_phone(installation: Installation, chromium: Browser, locale: str) -> None:
    """No page is wider than 380 pixels in either language, and names of documents can be read."""
    with installation.visitor(chromium, locale=locale, viewport={"width": 380, "height": 800}) as one:
        wide = [path for path in ("/documents", "/numbers", "/queue") if one.open(path).evaluate(WIDER) > 0]
        assert wide == []
        name = one.open("/documents").locator("td.name").first
        expect(name).to_be_visible()
        assert name.evaluate("cell => cell.getBoundingClientRect().width") >= 150
        dashboard = one.open("/dashboard")
        dashboard.locator("#sla-next").evaluate("figure => { figure.textContent = '24 h 00'; }")  # its longest value
        assert dashboard.evaluate(WIDER) <= 0


def test_a_user_sets_themselves_away(installation: Installation, chromium: Browser) -> None:
    """In their own menu; the header shows it on every page, and nothing is assigned to them meanwhile."""
    installation.add_person("karin", "reviewer", available=True)
    installation.add_person("lars", "viewer")
    with installation.visitor(chromium, "karin") as karin:
        page = karin.open("/queue")
        expect(page.locator("#away-mark")).to_be_hidden()
        page.locator("#me-menu summary").click()
        page.get_by_role("button", name="I am away").click()
        expect(page.locator("#away-mark")).to_be_visible()
        people = {one["name"]: one["available"] for one in installation.api("GET", "/api/people")["people"]}
        assert people["karin"] is False
        page = karin.open("/documents")
        expect(page.locator("#away-mark")).to_be_visible()
        page.locator("#me-menu summary").click()
        page.get_by_role("button", name="I am back").click()
        expect(page.locator("#away-mark")).to_be_hidden()
        installation.api("PATCH", f"/api/users/{user(installation, 'karin')['id']}", {"available": False})
    with installation.visitor(chromium, "lars") as lars:
        page = lars.open("/documents")
        page.locator("#me-menu summary").click()
        expect(page.locator("#away-button")).to_have_count(0)


def test_an_admin_sets_people_away(visitor: Visitor) -> None:
    """And back; users who do not review have no such switch."""
    visitor.installation.add_person("mona", "reviewer")
    visitor.installation.add_person("nils", "viewer")
    page = visitor.open("/people")
    row = page.locator("#rows tr", has_text="mona")
    switch = row.get_by_role("button", name="Away: mona")
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(row).to_contain_text("away: gets no new work")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "false")
    assert user(visitor.installation, "mona")["available"] is True
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    assert user(visitor.installation, "mona")["available"] is False
    expect(page.locator("#rows tr", has_text="nils").locator("[aria-pressed]")).to_have_count(0)
    own_installation = page.get_by_role("button", name="Away: admin")
    own_installation.click()
    expect(page.locator("#away-mark")).to_be_visible()
    own_installation.click()
    expect(page.locator("#away-mark")).to_be_hidden()


def user(installation: Installation, name: str) -> dict[str, object]:
    """Return a user from the API."""
    return next(one for one in installation.api("GET", "/api/users")["users"] if one["name"] == name)


def test_a_key_right_after_the_dialog_counts(installation: Installation, chromium: Browser) -> None:
    """An action after closing the dialog shows it again, even before the browser reports it closed."""
    installation.add_person("oskar", "reviewer")
    with installation.visitor(chromium, "oskar") as oskar:
        oskar.page.add_init_script(CLOSED_LATE)
        page = oskar.open("/queue")
        page.context.clear_cookies()
        oskar.watch.expect(401)
        box = page.get_by_role("dialog", name="You are signed out")
        page.keyboard.press("2")
        expect(box).to_be_visible()
        page.keyboard.press("Escape")
        expect(box).to_have_count(0)
        with page.expect_response("**/api/review/items?**"):
            page.keyboard.press("3")
            until(page, lambda: page.evaluate("tellClosed()"))  # the browser closes dialogs in its own time
        expect(box).to_be_visible()


#: Asks as the page does by itself, and returns when the answer has been dealt with.
ASK = """async () => {
    const { api } = await import(document.querySelector("link[href*='base.js']").href);
    await api("GET", "/api/me").catch(() => {});
}"""


def test_a_signed_out_page_stays_quiet(installation: Installation, chromium: Browser) -> None:
    """The page's own requests after the dialog was closed do not open it again."""
    installation.add_person("otto", "reviewer")
    with installation.visitor(chromium, "otto") as otto:
        page = otto.open("/queue")
        page.context.clear_cookies()
        otto.watch.expect(401)
        box = page.get_by_role("dialog", name="You are signed out")
        for key in ("Escape", "Enter"):
            page.keyboard.press("2")
            expect(box).to_be_visible()
            box.get_by_role("button", name="Stay").focus()
            page.keyboard.press(key)
            expect(box).to_have_count(0)
            page.evaluate(ASK)
            expect(box).to_have_count(0)


def test_every_action_of_a_signed_out_user_shows_the_dialog(installation: Installation, chromium: Browser) -> None:
    """However it was closed before; its text is about users, not about keys."""
    installation.add_person("olaf", "reviewer")
    with installation.visitor(chromium, "olaf") as olaf:
        page = olaf.open("/queue")
        page.context.clear_cookies()
        olaf.watch.expect(401)
        box = page.get_by_role("dialog")
        for _ in range(3):
            page.keyboard.press("2")
            expect(box).to_contain_text("You are signed out")
            expect(page.locator(".toast")).to_have_text("You are signed out: sign in again.")
            page.keyboard.press("Escape")
            expect(box).to_have_count(0)


def test_an_upload_survives_its_session(installation: Installation, chromium: Browser) -> None:
    """It says that the user is signed out, and after signing in elsewhere *Try again* sends the same file."""
    installation.add_person("petra", "operator")
    paper = sample("en-invoice-2.pdf")
    with installation.visitor(chromium, "petra") as petra:
        page = petra.open("/documents")
        petra.watch.expect(401, 403)
        page.context.clear_cookies()
        page.locator("#files").set_input_files(
            FilePayload(name="late.pdf", mimeType="application/pdf", buffer=paper.content + b"\n% late")
        )
        expect(page.get_by_role("dialog")).to_contain_text("You are signed out")
        page.keyboard.press("Escape")
        expect(page.locator("#upload-list")).to_contain_text("You are signed out")
        link = installation.api("POST", f"/api/users/{user(installation, 'petra')['id']}/link")["url"]
        other = page.context.new_page()
        other.goto(link)
        other.wait_for_url(lambda url: "/enter" not in url)
        page.locator("#upload-list button").click()
        expect(page.locator("#upload-list")).to_contain_text("uploaded")
        until(page, lambda: page.locator("#rows tr", has_text="late.pdf").count() == 1)
        expect(page.locator("#uploads-title")).to_have_text("1 uploaded")


def test_statistics_use_field_titles(installation: Installation, chromium: Browser) -> None:
    """As the other pages do, in the user's language; one worker is singular."""
    item = installation.add_doubtful()
    where = f"/api/review/items/{item['id']}"
    installation.api("POST", f"{where}/assign", {"to": None, "reason": "for whoever comes"})
    installation.api("POST", f"{where}/claim")
    whole = installation.api("GET", where)
    values = {one["name"]: one["value"] for one in whole["fields"]}
    right = str(Decimal(str(values["subtotal"])) + Decimal(str(values["tax"])))
    changes = {one["name"]: {"action": "confirm"} for one in whole["fields"] if one["state"] == "needs_look"}
    changes |= {"total": {"action": "correct", "value": right}}
    whole = installation.api("PATCH", f"{where}/fields", {"fields": changes}, **{"If-Match": f'"{whole["version"]}"'})
    installation.api("POST", f"{where}/approve", {}, **{"If-Match": f'"{whole["version"]}"'})
    with installation.visitor(chromium, locale="fr-FR") as one:
        page = one.open("/numbers")
        expect(page.locator("#fields th").first).to_be_visible()
        names = page.locator("#fields th").all_inner_texts()
        assert "Date de facture" in names
        assert not [name for name in names if "_" in name or name.islower()]
        page = one.open("/dashboard")
        expect(page.locator("#workers-alive")).to_have_text("1 actif")
