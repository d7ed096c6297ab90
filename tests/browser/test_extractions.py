"""The pages of extractions: a file is uploaded and read live, and its text is shown beside its page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import axe
from tests.browser.installation import Installation, Visitor, open_installation
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
    expect(row).to_contain_text("Complete")
    row.locator("a").click()
    expect(page.locator("#text")).to_contain_text("registered on page 1")
    expect(page.locator("#leaf img")).to_be_visible()
    page.keyboard.press("]")
    expect(page.locator("#text")).to_contain_text("registered on page 2")
    expect(page.locator("#page-place")).to_have_text("Page 2 of 2")
    assert page.url.endswith("?page=2")


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
