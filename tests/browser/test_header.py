"""What every page has at its top, and what every page does when its session is over."""

from __future__ import annotations

from decimal import Decimal

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from tests.browser.keyboard import CLOSED_LATE
from tests.browser.site import Site, Visitor, sample
from tests.browser.watch import until

#: By how many pixels the last place of the header reaches into its tools.
OVERLAP = """() => document.querySelector('.places a:last-child').getBoundingClientRect().right
    - document.querySelector('.tools').getBoundingClientRect().left"""


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_no_place_lies_under_a_tool(site: Site, chromium: Browser, locale: str) -> None:
    """However wide the screen is, in both languages, also for who is away."""
    with site.visitor(chromium, locale=locale) as one:
        page = one.open("/documents")
        page.locator("#away-mark").evaluate("mark => { mark.hidden = false; }")
        for width in (1280, 1100, 1081, 1024, 920, 901, 880, 820, 795, 768, 700, 660, 641, 600, 480):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(OVERLAP) <= 0, width


def test_who_is_away_says_so(site: Site, chromium: Browser) -> None:
    """In their own menu; the header shows it on every page, and nothing is given to them meanwhile."""
    site.person("karin", "reviewer", available=True)
    site.person("lars", "viewer")
    with site.visitor(chromium, "karin") as karin:
        page = karin.open("/queue")
        expect(page.locator("#away-mark")).to_be_hidden()
        page.locator("#me-menu summary").click()
        page.get_by_role("button", name="I am away").click()
        expect(page.locator("#away-mark")).to_be_visible()
        people = {one["name"]: one["available"] for one in site.api("GET", "/api/people")["people"]}
        assert people["karin"] is False
        page = karin.open("/documents")
        expect(page.locator("#away-mark")).to_be_visible()
        page.locator("#me-menu summary").click()
        page.get_by_role("button", name="I am back").click()
        expect(page.locator("#away-mark")).to_be_hidden()
        site.api("PATCH", f"/api/users/{user(site, 'karin')['id']}", {"available": False})
    with site.visitor(chromium, "lars") as lars:
        page = lars.open("/documents")
        page.locator("#me-menu summary").click()
        expect(page.locator("#away-button")).to_have_count(0)


def test_an_admin_sets_people_away(visitor: Visitor) -> None:
    """And back; those who do not review have no such switch."""
    visitor.site.person("mona", "reviewer")
    visitor.site.person("nils", "viewer")
    page = visitor.open("/people")
    row = page.locator("#rows tr", has_text="mona")
    switch = row.get_by_role("button", name="Away: mona")
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(row).to_contain_text("away: gets no new work")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "false")
    assert user(visitor.site, "mona")["available"] is True
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    assert user(visitor.site, "mona")["available"] is False
    expect(page.locator("#rows tr", has_text="nils").locator("[aria-pressed]")).to_have_count(0)
    own = page.get_by_role("button", name="Away: admin")
    own.click()
    expect(page.locator("#away-mark")).to_be_visible()
    own.click()
    expect(page.locator("#away-mark")).to_be_hidden()


def user(site: Site, name: str) -> dict[str, object]:
    """A user as the API tells."""
    return next(one for one in site.api("GET", "/api/users")["users"] if one["name"] == name)


def test_a_key_right_after_the_dialog_counts(site: Site, chromium: Browser) -> None:
    """Who closes the dialog and does something is told again, also before the browser has said that it is closed."""
    site.person("oskar", "reviewer")
    with site.visitor(chromium, "oskar") as oskar:
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
            page.evaluate("tellClosed()")
        expect(box).to_be_visible()


#: Asks as the page does by itself, and returns when the answer has been dealt with.
ASK = """async () => {
    const { api } = await import(document.querySelector("link[href*='base.js']").href);
    await api("GET", "/api/me").catch(() => {});
}"""


def test_who_stays_signed_out_is_left_alone(site: Site, chromium: Browser) -> None:
    """What the page asks by itself after the dialog was closed does not open it again."""
    site.person("otto", "reviewer")
    with site.visitor(chromium, "otto") as otto:
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


def test_who_is_signed_out_is_told_each_time(site: Site, chromium: Browser) -> None:
    """However the dialog was closed the time before; and in words that are about people, not about keys."""
    site.person("olaf", "reviewer")
    with site.visitor(chromium, "olaf") as olaf:
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


def test_an_upload_outlives_its_session(site: Site, chromium: Browser) -> None:
    """It says that one is signed out, and after signing in elsewhere *Try again* sends the same file."""
    site.person("petra", "operator")
    paper = sample("en-invoice-2.pdf")
    with site.visitor(chromium, "petra") as petra:
        page = petra.open("/documents")
        petra.watch.expect(401, 403)
        page.context.clear_cookies()
        page.locator("#files").set_input_files(
            FilePayload(name="late.pdf", mimeType="application/pdf", buffer=paper.content + b"\n% late")
        )
        expect(page.get_by_role("dialog")).to_contain_text("You are signed out")
        page.keyboard.press("Escape")
        expect(page.locator("#upload-list")).to_contain_text("You are signed out")
        link = site.api("POST", f"/api/users/{user(site, 'petra')['id']}/link")["url"]
        other = page.context.new_page()
        other.goto(link)
        other.wait_for_url(lambda url: "/enter" not in url)
        page.locator("#upload-list button").click()
        expect(page.locator("#upload-list")).to_contain_text("uploaded")
        until(page, lambda: page.locator("#rows tr", has_text="late.pdf").count() == 1)
        expect(page.locator("#uploads-title")).to_have_text("1 uploaded")


def test_numbers_call_fields_by_their_names(site: Site, chromium: Browser) -> None:
    """As the other pages do, in the language of whoever looks; one worker is one."""
    item = site.doubtful()
    where = f"/api/review/items/{item['id']}"
    site.api("POST", f"{where}/assign", {"to": None, "reason": "for whoever comes"})
    site.api("POST", f"{where}/claim")
    whole = site.api("GET", where)
    values = {one["name"]: one["value"] for one in whole["fields"]}
    right = str(Decimal(str(values["subtotal"])) + Decimal(str(values["tax"])))
    said = {one["name"]: {"action": "confirm"} for one in whole["fields"] if one["state"] == "needs_look"}
    said |= {"total": {"action": "correct", "value": right}}
    whole = site.api("PATCH", f"{where}/fields", {"fields": said}, **{"If-Match": f'"{whole["version"]}"'})
    site.api("POST", f"{where}/approve", {}, **{"If-Match": f'"{whole["version"]}"'})
    with site.visitor(chromium, locale="fr-FR") as one:
        page = one.open("/numbers")
        expect(page.locator("#fields th").first).to_be_visible()
        names = page.locator("#fields th").all_inner_texts()
        assert "Date de facture" in names
        assert not [name for name in names if "_" in name or name.islower()]
        page = one.open("/dashboard")
        expect(page.locator("#workers-alive")).to_have_text("1 actif")
