"""What people typed survives the server, the claim and the browser; and any server process works."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Response, expect

from tests.browser.installation import Installation, open_installation
from tests.browser.watch import until
from tests.servers import free_port

TYPED = "Typed & kept Ltd"


def is_saved(answer: Response) -> bool:
    """Return whether the server has a draft with what was typed: one of an empty item may have been in flight."""
    return answer.url.endswith("/draft") and answer.ok and TYPED in (answer.request.post_data or "")


def test_a_draft_survives_the_server(chromium: Browser, tmp_path: Path) -> None:
    """The server is killed and restarted: the page continues by itself, and another browser has the draft too."""
    data, port = tmp_path / "data", str(free_port())
    with open_installation(data, "--port", port) as installation:
        item = installation.add_doubtful()
        with installation.visitor(chromium) as visitor:
            visitor.watch.cut = True
            page = visitor.review(item)
            with page.expect_response(is_saved):
                page.locator("#field-customer").fill(TYPED)
            installation.service.kill()
            page.locator("#field-vendor").fill(f"{TYPED} too")  # nobody hears of this one yet
            expect(page.locator("#banner")).to_be_visible(timeout=20_000)
            with open_installation(data, "--port", port) as again:
                again.states = installation.states
                with page.expect_response(is_saved):
                    again.service.wait_for_line("started")
                expect(page.locator("#banner")).to_be_hidden()
                expect(page.locator("#field-customer")).to_have_value(TYPED)
                with again.visitor(chromium) as elsewhere:
                    other = elsewhere.review(item, claim=False)
                    expect(other.locator("#field-customer")).to_have_value(TYPED)
                    expect(other.locator("#field-vendor")).to_have_value(f"{TYPED} too")
                with page.expect_response(lambda answer: answer.url.endswith("/fields") and answer.ok):
                    page.keyboard.press("Control+s")


def test_a_claim_lost_while_typing_loses_nothing(installation: Installation, chromium: Browser) -> None:
    """After a takeover the screen says by whom, keeps what was typed, and restores it with the claim."""
    installation.add_person("anna", "reviewer")
    item = installation.add_doubtful()
    installation.api("POST", f"/api/review/items/{item['id']}/assign", {"to": None, "reason": "for anybody"})
    with installation.visitor(chromium, "anna") as anna, installation.visitor(chromium) as boss:
        page = anna.review(item)
        page.locator("#field-customer").fill(TYPED)
        anna.watch.expect(409)
        theirs = boss.review(item, claim=False)
        theirs.keyboard.press("c")
        theirs.get_by_role("dialog").wait_for()
        theirs.keyboard.press("Enter")
        expect(theirs.locator("#approve")).to_be_visible()

        page.locator("#field-customer").press("Control+s")
        expect(page.locator("#banner")).to_contain_text("admin")
        expect(page.locator("#field-customer")).to_have_value(TYPED)
        assert TYPED not in str(boss.whole(item)["fields"])

        theirs.keyboard.press("u")
        until(theirs, lambda: boss.whole(item)["claim"] is None)
        page = anna.review(item, claim=False)
        page.keyboard.press("c")
        expect(page.locator("#approve")).to_be_visible()
        expect(page.locator("#field-customer")).to_have_value(TYPED)


@pytest.mark.timeout(180)
def test_any_server_process_works(chromium: Browser, tmp_path: Path, pg_url: str) -> None:
    """Two processes on one database: signed in at one, a user continues at the other with the same claim."""
    shared = {"DATABASE_URL": pg_url}
    with open_installation(tmp_path / "one", **shared) as one:
        item = one.add_doubtful()
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "blobs").symlink_to(tmp_path / "one" / "blobs")
        with open_installation(tmp_path / "two", "--workers", "0", **shared) as two:
            two.service.wait_for_line("started")
            with one.visitor(chromium) as visitor:
                page = visitor.review(item)
                page.locator("#field-customer").fill(TYPED)
                page.keyboard.press("Control+s")
                until(page, lambda: TYPED in str(visitor.whole(item)["fields"]))
            two.states = one.states
            with two.visitor(chromium) as visitor:
                page = visitor.review(item, claim=False)
                expect(page.locator("#approve")).to_be_visible()  # still theirs
                expect(page.locator("#field-customer")).to_have_value(TYPED)
                total = page.locator("#field-total")
                total.fill(f"{float(total.input_value()) - 10:.2f}")
                total.press("Control+Enter")
                until(page, lambda: visitor.whole(item)["status"] == "corrected")
            assert one.api("GET", f"/api/review/items/{item['id']}")["status"] == "corrected"


def test_a_saved_draft_is_not_a_change(installation: Installation, chromium: Browser) -> None:
    """The browser closes before it can delete its draft: what was saved is not asked about again."""
    item = installation.add_doubtful()
    with installation.visitor(chromium) as visitor:
        page = visitor.review(item)
        with page.expect_response(is_saved):
            page.locator("#field-customer").fill(TYPED)
        page.route("**/draft", lambda route: route.fulfill(status=204))  # the server never hears of it
        page.keyboard.press("Control+s")
        until(page, lambda: TYPED in str(visitor.whole(item)["fields"]))
        page.evaluate("localStorage.clear()")  # as in another browser
    with installation.visitor(chromium) as visitor:
        body = visitor.page.request.get(f"/api/review/items/{item['id']}").json()
        assert body["draft"]["fields"] == {"customer": TYPED}
        page = visitor.review(item, claim=False)
        expect(page.locator("#field-customer")).to_have_value(TYPED)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.locator("#saved")).to_have_text("")
        page.keyboard.press("u")
        until(page, lambda: visitor.whole(item)["claim"] is None)
