"""The pages of extractions: a file is uploaded and read live, and its text is shown beside its page."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser import axe
from tests.browser.installation import Installation, Visitor, open_installation
from tests.browser.watch import until
from tests.pipelines.ocr.deeds import deed


@pytest.fixture(scope="module")
def reading_site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with only the extraction pipeline."""
    with open_installation(tmp_path_factory.mktemp("ocr") / "data", "--with", "ocr") as one:
        yield one


@pytest.fixture
def reader(reading_site: Installation, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with reading_site.visitor(chromium) as one:
        yield one


def submitted(installation: Installation, content: bytes, number: str) -> str:
    """Queue a file; return its key."""
    path = f"/api/extractions/ocr?document_number={number}&document_type=actes"
    status, answer = installation.service.ask("POST", path, content, **{"Content-Type": "application/pdf"})
    assert status == 202, answer
    return str(answer["id"])


def test_an_uploaded_file_is_shown_live(reader: Visitor) -> None:
    """Its row appears and ends without a reload."""
    page = reader.open("/extractions")
    page.set_input_files("#files", {"name": "deed.pdf", "mimeType": "application/pdf", "buffer": deed(2)})
    row = page.locator("tbody tr", has_text="deed.pdf")
    expect(row).to_contain_text("Complete", timeout=90_000)
    row.locator("a").click()
    expect(page.locator("#text")).to_contain_text("registered on page 1")
    expect(page.locator("#leaf img")).to_be_visible()
    page.keyboard.press("]")
    expect(page.locator("#text")).to_contain_text("registered on page 2")
    expect(page.locator("#page-place")).to_have_text("Page 2 of 2")
    assert page.url.endswith("?page=2")


def test_the_focus_stays_when_a_row_is_added(reader: Visitor) -> None:
    """Above the focused one, by an update."""
    key = submitted(reader.installation, deed(1), "5")
    page = reader.open("/extractions")
    link = page.locator(f"tr[data-row='{key}'] a")
    link.focus()
    other = submitted(reader.installation, deed(1), "6")
    expect(page.locator(f"tr[data-row='{other}']")).to_be_visible()
    expect(link).to_be_focused()


def test_rows_that_were_loaded_meanwhile_stay(reader: Visitor) -> None:
    """The answer to an update that was requested before them does not have them."""
    submitted(reader.installation, deed(1), "4")
    [one] = reader.installation.api("GET", "/api/extractions?limit=1")["extractions"]
    held: list[Route] = []
    holding = False

    def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        start, limit = int(query.get("cursor", ["0"])[0]), int(query["limit"][0])
        listed = [one | {"id": str(number)} for number in range(start, start + limit)]
        route.fulfill(json={"extractions": listed, "next": str(start + limit)})

    def answer_or_hold(route: Route) -> None:
        if holding and "cursor=" not in route.request.url:
            held.append(route)
        else:
            answer(route)

    reader.page.route("**/api/extractions?*", answer_or_hold)
    page = reader.open("/extractions")
    rows = page.locator("#rows tr[data-row]")
    expect(rows).to_have_count(50)
    holding = True
    page.evaluate("dispatchEvent(new Event('online'))")
    until(page, lambda: bool(held))
    page.locator("#more").click()
    expect(rows).to_have_count(100)
    holding = False
    with page.expect_event("requestfinished", lambda request: request == held[0].request):
        answer(held[0])
    reader.watch.settle(page)
    expect(rows).to_have_count(100)


def test_a_failure_names_the_failed_step_and_is_retried(reader: Visitor) -> None:
    """In the user's language; a retry is one button."""
    reader.watch.expect(422)  # there is no picture of a page of it
    key = submitted(reader.installation, b"%PDF-1.7 broken", "7")
    page = reader.open(f"/extractions/{key}")
    expect(page.locator("#notices")).to_contain_text("OCR failed:")
    with page.expect_response("**/api/queues/ocr/retry") as answered:
        page.locator("#again").click()
    assert answered.value.json()["retried"] == 1


def test_both_pages_are_accessible(reader: Visitor) -> None:
    """axe finds nothing serious, in light and in dark."""
    key = submitted(reader.installation, deed(1), "8")
    try:
        for path in ("/extractions", f"/extractions/{key}"):
            for scheme in ("light", "dark"):
                reader.page.emulate_media(color_scheme=scheme)
                page = reader.open(path)
                expect(page.locator("#rows .badge, #standing .badge").first).to_be_visible()
                assert axe.findings(page) == []
    except axe.UnavailableError as why:
        pytest.skip(str(why))
