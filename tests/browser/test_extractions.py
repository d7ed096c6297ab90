"""The pages of extractions: a file is sent, read while somebody looks, and its text is beside its page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import axe
from tests.browser.site import Site, Visitor, opened
from tests.pipelines.ocr.deeds import deed


@pytest.fixture(scope="module")
def reading_site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation that reads files, and nothing else."""
    with opened(tmp_path_factory.mktemp("ocr") / "data", "--with", "ocr") as one:
        yield one


@pytest.fixture
def reader(reading_site: Site, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with reading_site.visitor(chromium) as one:
        yield one


def submitted(site: Site, content: bytes, number: str) -> str:
    """A file in line; its key."""
    path = f"/api/extractions/ocr?document_number={number}&document_type=actes"
    status, answer = site.service.ask("POST", path, content, **{"Content-Type": "application/pdf"})
    assert status == 202, answer
    return str(answer["id"])


def test_a_file_is_sent_and_seen_to_be_read(reader: Visitor) -> None:
    """The row appears by itself and ends by itself; nobody loads the page again."""
    page = reader.open("/extractions")
    page.set_input_files("#files", {"name": "deed.pdf", "mimeType": "application/pdf", "buffer": deed(2)})
    row = page.locator("tbody tr", has_text="deed.pdf")
    expect(row).to_contain_text("Complete")
    row.locator("a").click()
    expect(page.locator("#text")).to_contain_text("registered on page 1")
    expect(page.locator("#leaf img")).to_be_visible()
    page.keyboard.press("]")
    expect(page.locator("#text")).to_contain_text("registered on page 2")
    expect(page.locator("#page-place")).to_have_text("Page 2 of 2")
    assert page.url.endswith("?page=2")


def test_a_failure_says_which_half_failed_and_is_tried_again(reader: Visitor) -> None:
    """In the language of the person; another try is one button."""
    reader.watch.expect(422)  # there is no picture of a page of it
    key = submitted(reader.site, b"%PDF-1.7 broken", "7")
    page = reader.open(f"/extractions/{key}")
    expect(page.locator("#notices")).to_contain_text("OCR failed:")
    with page.expect_response("**/api/queues/ocr/retry") as answered:
        page.locator("#again").click()
    assert answered.value.json()["retried"] == 1


def test_both_pages_can_be_used_by_everybody(reader: Visitor) -> None:
    """axe finds nothing grave, in the light and in the dark."""
    key = submitted(reader.site, deed(1), "8")
    try:
        for path in ("/extractions", f"/extractions/{key}"):
            for scheme in ("light", "dark"):
                reader.page.emulate_media(color_scheme=scheme)
                page = reader.open(path)
                expect(page.locator("#rows .badge, #standing .badge").first).to_be_visible()
                assert axe.findings(page) == []
    except axe.UnavailableError as why:
        pytest.skip(str(why))
